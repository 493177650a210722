"""The table that the demo and the first page of the dashboard use."""

from pathlib import Path

NAME = "auto_mpg"


def sample_path() -> Path:
    """Return the path of the table: beside the package in a checkout, inside it in a wheel.

    Raises
    ------
    FileNotFoundError
        It is missing from this installation.
    """
    package = Path(__file__).parent
    for folder in (package.parent, package):
        if (path := folder / "examples" / f"{NAME}.csv").exists():
            return path
    raise FileNotFoundError(f"The sample data {NAME}.csv is missing from this installation.")
