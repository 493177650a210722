"""A service for the duration of a command: the running one, or an embedded one."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from app.cli.common import fail, settings_with
from app.client import Client, ClientError, ProblemError
from app.supervisor import STOP_SECONDS, address_of

if TYPE_CHECKING:
    from app.client import Place


READY_SECONDS = 180.0  # a machine may be busy
SAY_SECONDS = 4.0  # between lines while the service starts
RETRIES = 3  # few, because a person waits


class StartError(ClientError):
    """The service did not start; the message has the last line of its log."""


@contextlib.contextmanager
def run_embedded(data_dir: Path, say: Callable[[str], None]) -> Iterator[str]:
    """Run `bartserve up` on a free port of loopback and yield its URL; stop it at the end.

    `say` is called with a line every few seconds until the service is ready.

    Raises
    ------
    StartError
        It ended before it was ready, or was not ready in time.
    """
    with tempfile.TemporaryDirectory(prefix="bartserve-log-") as folder:
        log = Path(folder) / "service.log"
        port = _free_port()
        command = [sys.executable, "-P", "-m", "app.cli", "up", "--port", str(port)]
        command += ["--data-dir", str(data_dir)]
        # Settings for another service must not leak into this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BARTSERVE_")}
        environment["BARTSERVE_LOG_FORMAT"] = "text"  # its last line may be shown
        with log.open("wb") as output:
            # Its own session: Ctrl-C ends the command, which then stops the service in order.
            process = subprocess.Popen(  # noqa: S603  the command is ours
                command, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        with _terminated_in_order():
            try:
                address = f"http://127.0.0.1:{port}"
                _wait_until_ready(address, process, log, say)
                yield address
            finally:
                _stop(process)


@contextlib.contextmanager
def reach_service(url: str | None, data_dir: Path | None, say: Callable[[str], None]) -> Iterator[Client]:
    """Yield a client of the service that the caller means, and report which one it is.

    It is the service at `url`, else at BARTSERVE_URL, else the embedded one on the data folder: the running
    one, or one started for the duration of the block.
    """
    url = url or os.environ.get("BARTSERVE_URL")
    if url:
        say(f"service   {url}")
        with Client(url, retries=RETRIES) as client:
            yield client
        return
    folder = settings_with(data_dir=data_dir and data_dir.resolve()).data_dir
    if (running := address_of(folder)) is not None:
        say(f"service   {running}, running on the data in {folder}")
        with Client(running, retries=RETRIES) as client:
            yield client
        return
    say(f"service   started for this command, on the data in {folder} (`bartserve up` keeps one running)")
    with run_embedded(folder, say) as address, Client(address) as client:
        yield client


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(
    address: str, process: subprocess.Popen[bytes], log: Path, say: Callable[[str], None]
) -> None:
    began = last_said = time.monotonic()
    with Client(address) as client:
        while (now := time.monotonic()) < began + READY_SECONDS and process.poll() is None:
            if client.ready():
                return
            if now - last_said >= SAY_SECONDS:
                say(f"service   starting: {now - began:.0f} s")
                last_said = now
            time.sleep(0.1)
    last = (log.read_text(errors="replace").strip().splitlines() or ["(empty)"])[-1]
    raise StartError(f"The service did not start; the last line of its log: {last}")


@contextlib.contextmanager
def _terminated_in_order() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does: without this the service would outlive it."""
    if threading.current_thread() is not threading.main_thread():  # only that one can take signals
        yield
        return
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS + 10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def asking(url: str | None, data_dir: Path | None, say: Callable[[str], None]) -> Iterator["Client"]:
    """Yield a client as `embedded.reach_service` does; errors of the client end the command."""
    try:
        with reach_service(url, data_dir, say) as client:
            yield client
    except ProblemError as error:
        places = [f"  {_where(place)}: {place.detail}" for place in error.errors[:20]]
        fail("\n".join([f"The service refused: {error.detail}", *(places if len(places) > 1 else [])]))
    except ClientError as error:
        fail(str(error))


def _where(place: "Place") -> str:
    row = f"row {place.row}" if place.row else ""
    return ", ".join(part for part in (place.column, row) if part) or "the request"
