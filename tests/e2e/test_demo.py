"""`make demo` runs the main workflow, and the README shows its output."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.embedded_service import clean_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def shape(line: str) -> str:
    """Return a printed line without its figures."""
    return re.sub(r"\s+", " ", re.sub(r"\d+(\.\d+)?%?", "0", line)).strip()


def test_demo_does_the_main_job_and_the_readme_shows_it():
    """`bartserve demo` exits with 0 and plausible figures; the README's sample has the same lines."""
    before = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    run = subprocess.run(
        [sys.executable, "-m", "app.cli", "demo"],
        cwd=ROOT,
        env=clean_environment() | {"COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )

    assert run.returncode == 0, run.stderr + run.stdout
    held = re.search(r"RMSE (\d+\.\d+) mpg, linear model (\d+\.\d+) mpg", run.stdout)
    assert held is not None, run.stdout
    ours, linear = map(float, held.groups())
    assert 2.0 < ours < linear  # trees fit what a line cannot
    held = re.search(
        r"honest\?   Intervals are made to hold by 99 held-out rows: of new rows .* 90%", run.stdout
    )
    assert held is not None, run.stdout
    assert len(re.findall(r"\d+\.\d to \d+\.\d", run.stdout)) == 5
    output = re.search(r"```text\n(service.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert output is not None
    printed = {shape(line) for line in run.stdout.splitlines()}
    missing = [
        line
        for line in output.group(1).splitlines()
        if not line.startswith(("chain", "service")) and shape(line) not in printed
    ]
    assert not missing
    after = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert before.stdout == after.stdout
