"""Helpers that start and watch a real embedded service."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.processes import plain_http
from tests.support.waiting import stretched


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def clean_environment() -> dict[str, str]:
    """Return this process's environment without settings for other services."""
    return {name: value for name, value in os.environ.items() if not name.startswith("BARTSERVE_")}


@dataclass
class Up:
    """A running `bartserve up`."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path

    def ready(self) -> bool:
        return plain_http.get(f"{self.address}/health/ready", timeout=2).is_success

    def answers(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return plain_http.get(f"{self.address}/health/live", timeout=1).is_success
        return False

    def descendants(self) -> dict[int, str]:
        """Return the ids of its descendants with their command lines."""
        return {pid: line for pid, line in _processes() if str(self.process.pid) in _ancestors(pid)}


def _processes() -> list[tuple[int, str]]:
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                processes.append(
                    (int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
                )
    return processes


def _ancestors(pid: int) -> set[str]:
    above: set[str] = set()
    current = str(pid)
    while current not in {"0", "1"}:
        try:
            stat = Path(f"/proc/{current}/stat").read_text()
        except OSError:
            return above
        current = stat.rsplit(")", 1)[1].split()[1]
        above.add(current)
    return above


def alive(pid: int) -> bool:
    """Return whether the process runs (a zombie doesn't)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def running_up(
    data_dir: Path,
    *,
    environment: dict[str, str] | None = None,
    cwd: Path | None = None,
    command: Sequence[str] = (sys.executable, "-m", "app.cli"),
) -> Iterator[Up]:
    """Run `bartserve up` on a free port; stop it at the end, whatever happened."""
    port = free_port()
    log = data_dir.parent / f"{data_dir.name}.log"
    command = [*command, "up", "--port", str(port), "--data-dir", str(data_dir)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment or clean_environment(), cwd=cwd, stdout=output, stderr=output
        )
    up = Up(process, f"http://127.0.0.1:{port}", log)
    try:
        yield up
    finally:
        left = up.descendants()
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(stretched(40))
        process.kill()
        process.wait()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
