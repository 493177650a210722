"""Methods whose packages need other versions than the rest, in environments of their own.

`make scoringbench` and `make effectboards` make them, from locks/board-*.txt. A method sends its rows to a
process of that environment's Python, which runs in_environment.py, or effect_peers.py for the measurements of
effects, through files of arrays in a temporary folder.
"""

import subprocess
import tempfile
from pathlib import Path

import numpy as np

from lab import bakeoff

FOLDER = Path(__file__).parents[1] / ".venv" / "boards"
SCRIPT = Path(__file__).with_name("in_environment.py")


def python(name):
    """Return the interpreter of a method's environment."""
    return FOLDER / name / "bin" / "python"


def lacking(name):
    """Return what the method needs and isn't there, in words, or an empty string."""
    return "" if python(name).exists() else f"its environment {python(name).parents[1]} is not there"


def answer_in(name, script, method, task):
    """Return the arrays that a script of an environment answers to a method's name and a task of arrays."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "task.npz"), Path(folder, "found.npz")
        np.savez(given, **task)
        command = [python(name), "-I", script, method, given, found]  # -I: without this folder's modules
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RuntimeError(f"{method} failed in its environment:\n{ran.stderr[-2000:]}")
        with np.load(found) as answer:
            return dict(answer)


def cells(table):
    """Return the columns as arrays that a file holds without pickles: floats, and words for categories."""
    columns = [table[name] for name in table]
    return [
        column.to_numpy(float, na_value=np.nan)
        if column.dtype.kind in "biuf"
        else column.astype(object).where(column.notna(), "missing").to_numpy().astype(str)
        for column in columns
    ]


def method(name, *, numbers):
    """Return a method that runs in its own environment.

    It is given categories as indicators and medians for missing values if `numbers`, otherwise the table as
    it is. Its process has the limits of threads that bakeoff.py sets.
    """

    def run(X, y, new, seed):
        train, rows = [list(t.T) for t in bakeoff.coded(X, new)] if numbers else [cells(X), cells(new)]
        named = {f"train {k}": column for k, column in enumerate(train)}
        named |= {f"new {k}": column for k, column in enumerate(rows)}
        task = {"y": y, "levels": bakeoff.LEVELS, "seed": seed, "columns": len(train)}
        answer = answer_in(name, SCRIPT, name, task | named)
        return answer["mean"], answer["quantiles"]

    return run


METHODS = {
    "treeffuser": ("treeffuser", method("treeffuser", numbers=True)),
    "autogluon": ("autogluon", method("autogluon", numbers=False)),
}
