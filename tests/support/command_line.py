"""The command line run in the test's process, and options of a small fit."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import app

CARS = Path(__file__).parents[2] / "examples" / "auto_mpg.csv"
SMALL = ("num_trees=20", "num_chains=2", "num_burnin=50", "num_draws=50", "thin=1")
FAST = [word for setting in SMALL for word in ("--set", setting)]


@dataclass(frozen=True)
class Run:
    """Result of a command: its exit code and output."""

    returncode: int
    stdout: str
    stderr: str


def bartserve(*words: str, cwd: Path, **environment: str) -> Run:
    """Run the command line in this process: starting Python takes longer than most commands."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("BARTSERVE_")]:
            patch.delenv(name)
        for name, value in ({"COLUMNS": "200"} | environment).items():
            patch.setenv(name, value)
        patch.chdir(cwd)
        result = CliRunner().invoke(app, list(words), prog_name="bartserve")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Run(result.exit_code, result.stdout, result.stderr)
