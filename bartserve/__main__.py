"""The `bartserve` command, also as `python -m bartserve`."""

import sys
from importlib import import_module

from bartserve import _refuse_shadow

PACKAGES = ("app", "migrations", "sampler", "worker")


def main() -> None:
    """Run the command line, or explain in one sentence why it can't run."""
    try:
        for package in PACKAGES:
            _refuse_shadow(package)
        import_module("app.cli").main()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in PACKAGES:
            raise
        sys.exit(
            f"The command bartserve needs the packages of the service, and {package} is not installed: "
            "pip install 'bartserve[service]'"
        )
    except ImportError as error:
        if error.name not in PACKAGES:
            raise
        sys.exit(str(error))


if __name__ == "__main__":
    main()
