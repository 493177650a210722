"""The wheel contains everything that the service needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.embedded_service import clean_environment, running_up
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_wheel_alone_gives_a_ready_service(tmp_path):
    """A wheel unpacked elsewhere starts `up`, with migrations and the example."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("bartserve-*.whl")
    elsewhere = tmp_path / "elsewhere"
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", str(elsewhere), str(wheel)], check=True, timeout=120
    )
    environment = clean_environment() | {"PYTHONPATH": str(elsewhere)}
    where = subprocess.run(
        [
            sys.executable,
            "-c",
            "import app, worker, sampler, migrations; print(app.__file__, migrations.__file__)",
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.count(str(elsewhere)) == 2
    assert (elsewhere / "app" / "examples" / "auto_mpg.csv").exists()

    with running_up(tmp_path / "data", environment=environment, cwd=tmp_path) as up:
        eventually(up.ready, 60, up.log.read_text())
