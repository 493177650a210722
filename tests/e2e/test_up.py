"""`bartserve up`: starts, supervises, refuses a second instance, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.embedded_service import alive, clean_environment, free_port, running_up
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.mark.slow
def test_up_becomes_ready_and_stops_without_a_trace(tmp_path):
    """One command gives a ready service; SIGTERM ends every process of it with exit code 0."""
    with running_up(tmp_path / "data") as up:
        eventually(up.ready, 60, up.log.read_text())
        below = up.descendants()
        assert len(below) >= 3  # the API, the worker, its children

        up.process.terminate()

        assert up.process.wait(40) == 0, up.log.read_text()
        assert not [line for pid, line in below.items() if alive(pid)]


@pytest.mark.slow
def test_up_runs_beside_packages_of_the_same_names(tmp_path):
    """In a folder with an `app/`, `worker/` and `sampler/` of its own: none of them is imported."""
    folder = tmp_path / "project"
    for package in ("app", "worker", "sampler", "migrations", "billiard", "numba"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').close()\n")
    command = [str(Path(sys.executable).parent / "bartserve")]
    with running_up(tmp_path / "data", cwd=folder, command=command) as up:
        eventually(up.ready, 60, up.log.read_text())
        assert not (tmp_path / "ran").exists(), up.log.read_text()


@pytest.mark.slow
def test_a_second_up_on_the_folder_is_refused(tmp_path):
    """A second service on a data folder exits with 1 and one sentence."""
    with running_up(tmp_path / "data") as up:
        eventually(up.ready, 60, up.log.read_text())

        second = subprocess.run(
            [
                sys.executable,
                "-m",
                "app.cli",
                "up",
                "--port",
                str(free_port()),
                "--data-dir",
                str(tmp_path / "data"),
            ],
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert second.returncode == 1
        assert "Another bartserve already runs on the data folder" in second.stderr
        assert up.ready()


@pytest.mark.slow
def test_a_taken_port_is_refused_with_a_sentence(tmp_path):
    """A port in use is named, with what to do, instead of a traceback or a restart loop."""
    with running_up(tmp_path / "data") as up:
        eventually(up.ready, 60, up.log.read_text())
        port = up.address.rsplit(":", 1)[1]

        second = subprocess.run(
            [sys.executable, "-m", "app.cli", "up", "--port", port, "--data-dir", str(tmp_path / "other")],
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert second.returncode == 1
        assert f"Port {port}" in second.stderr
        assert "Traceback" not in second.stderr


@pytest.mark.slow
@pytest.mark.parametrize("part", ["api", "worker"])
def test_a_killed_part_is_started_again(tmp_path, part):
    """kill -9 of the API or of the worker: the supervisor brings the service back to ready."""
    with running_up(tmp_path / "data") as up:
        eventually(up.ready, 60, up.log.read_text())
        victims = [pid for pid, line in up.descendants().items() if f"app.cli {part}" in line]
        first = min(victims)

        os.kill(first, signal.SIGKILL)

        def replaced() -> bool:
            now = [pid for pid, line in up.descendants().items() if f"app.cli {part}" in line]
            return bool(now) and first not in now and up.ready()

        eventually(replaced, 60, up.log.read_text())


@pytest.mark.slow
def test_the_parts_end_when_the_supervisor_is_killed(tmp_path):
    """kill -9 of `up` itself leaves no API and no worker behind."""
    with running_up(tmp_path / "data") as up:
        eventually(up.ready, 60, up.log.read_text())
        below = up.descendants()

        up.process.kill()
        up.process.wait()

        eventually(lambda: not any(alive(pid) for pid in below), 40, str(below))
