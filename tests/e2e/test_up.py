"""`bartserve up`: starts, supervises, refuses a second instance, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.supervisor import address_of
from tests.support.processes.embedded_service import Up, alive, clean_environment, free_port, running_up
from tests.support.waiting import eventually, stretched

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


OURS = ("app", "worker", "sampler", "migrations", "billiard", "numba")


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[Up]:
    """Return a ready service, started in a folder with packages of the same names as ours."""
    folder = tmp_path_factory.mktemp("up")
    for package in OURS:
        (folder / "project" / package).mkdir(parents=True)
        (folder / "project" / package / "__init__.py").write_text(f"open({str(folder / 'ran')!r}, 'a')\n")
    command = [str(Path(sys.executable).parent / "bartserve")]
    with running_up(folder / "data", cwd=folder / "project", command=command) as up:
        eventually(up.ready, 60, up.log.read_text)
        yield up


def run_up(port: int | str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    """Run `bartserve up` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "app.cli", "up", "--port", str(port), "--data-dir", str(data_dir)],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_up_becomes_ready_and_stops_without_a_trace(tmp_path):
    """One command starts a ready service; SIGTERM ends all its processes with exit code 0."""
    with running_up(tmp_path / "data") as up:
        eventually(up.ready, 60, up.log.read_text)
        below = up.descendants()
        assert len(below) >= 3  # the API, the worker, its children

        up.process.terminate()

        assert up.process.wait(stretched(40)) == 0, up.log.read_text()
        assert not [line for pid, line in below.items() if alive(pid)]


@pytest.mark.slow
def test_up_runs_beside_packages_of_the_same_names(shared):
    """`up` in a folder with `app/`, `worker/` and `sampler/` of its own imports none of them."""
    assert not (shared.log.parent / "ran").exists(), shared.log.read_text()


@pytest.mark.slow
def test_a_second_up_on_the_folder_is_refused(shared):
    """A second service on a data folder exits with 1 and one sentence."""
    second = run_up(free_port(), shared.log.with_suffix(""))

    assert second.returncode == 1
    assert "Another bartserve already runs on the data folder" in second.stderr
    assert shared.ready()


@pytest.mark.slow
def test_a_taken_port_is_refused_with_a_sentence(shared, tmp_path):
    """A port in use is refused with its number and advice."""
    port = shared.address.rsplit(":", 1)[1]

    second = run_up(port, tmp_path / "other")

    assert second.returncode == 1
    assert f"Port {port}" in second.stderr
    assert "Traceback" not in second.stderr


@pytest.mark.slow
@pytest.mark.parametrize("part", ["api", "worker"])
def test_a_killed_part_is_started_again(shared, part):
    """After kill -9 of the API or the worker the supervisor makes the service ready again."""

    def running() -> list[int]:
        return [pid for pid, line in shared.descendants().items() if f"app.cli {part}" in line]

    first = min(running())

    os.kill(first, signal.SIGKILL)

    eventually(lambda: running() and first not in running() and shared.ready(), 60, shared.log.read_text)


@pytest.mark.slow
def test_the_parts_end_when_the_supervisor_is_killed(tmp_path):
    """After kill -9 of `up` itself neither API nor worker remains."""
    with running_up(tmp_path / "data") as up:
        eventually(up.ready, 60, up.log.read_text)
        below = up.descendants()

        up.process.kill()
        up.process.wait()

        eventually(lambda: not any(alive(pid) for pid in below), 40, str(below))


@pytest.mark.slow
def test_a_terminated_command_takes_its_service_with_it(tmp_path):
    """SIGTERM to a command that started a service for itself ends both, in order."""
    data = tmp_path / "data"
    words = ["mcp", "--http", "--port", str(free_port()), "--data-dir", str(data)]
    log = tmp_path / "command.log"
    with log.open("wb") as output:
        command = subprocess.Popen(
            [sys.executable, "-m", "app.cli", *words], env=clean_environment(), stdout=output, stderr=output
        )
    up = Up(command, "", log)
    try:
        eventually(lambda: "tools" in log.read_text(), why=log.read_text)
        parts = up.descendants()
        assert parts
        assert address_of(data) is not None

        command.send_signal(signal.SIGTERM)

        assert command.wait(stretched(60)) == 128 + signal.SIGTERM
        assert address_of(data) is None
        eventually(lambda: not any(alive(pid) for pid in parts), 20, "parts of its service remain")
    finally:
        command.kill()
        command.wait()
