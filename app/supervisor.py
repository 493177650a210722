"""`bartserve up`: start, watch and stop one API process and one worker on this machine."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from app.settings import Settings

LOCK = "up.lock"  # in the data folder; locked by the running service, with its address
LIFELINE = "BARTSERVE_LIFELINE_FD"  # the read end of a pipe that only the supervisor holds open
BACKOFF_FIRST, BACKOFF_LAST = 0.5, 30.0  # shortest and longest seconds between restarts
HEALTHY_AFTER = 20.0  # a part that ran this long restarts with the shortest backoff
QUICK_DEATHS = 5  # quick deaths in a row after which the supervisor gives up
STOP_SECONDS = 30.0  # for a worker to finish its slice


class SupervisorError(Exception):
    """`up` cannot run; the message is one sentence."""


@contextlib.contextmanager
def sole_use(folder: Path, address: str = "") -> Iterator[None]:
    """Hold the data folder's lock; a second service on the folder is refused.

    Parameters
    ----------
    folder
        Created if absent.
    address
        URL of the service, for `address_of`.

    Raises
    ------
    SupervisorError
        Another process holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / LOCK).open("a") as lock:  # truncated only under the lock
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SupervisorError(
                f"Another bartserve already runs on the data folder {folder}: "
                "stop it first, or give this one a folder of its own with --data-dir."
            ) from None
        lock.truncate(0)
        lock.write(f"{address}\n")
        lock.flush()
        yield


def address_of(folder: Path) -> str | None:
    """Return the URL of the service that runs on the data folder, or None."""
    try:
        with (folder / LOCK).open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return lock.read().strip() or None
    except FileNotFoundError:
        pass
    return None


def is_supervised() -> bool:
    """Return whether this process is a supervised part that has not yet called `end_with_supervisor`."""
    return LIFELINE in os.environ


def end_with_supervisor() -> None:
    """In a supervised part, stop gracefully when the supervisor is gone for any reason."""
    descriptor = os.environ.pop(LIFELINE, None)
    if descriptor is None:
        return

    def wait_for_the_end() -> None:
        os.read(int(descriptor), 1)  # returns at end of file, when the supervisor is gone
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_SECONDS)
        os._exit(1)

    threading.Thread(target=wait_for_the_end, name="lifeline", daemon=True).start()


@dataclass
class Part:
    """One supervised process: its command and its state."""

    name: str
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    restart_at: float = 0.0

    def start(self, environment: dict[str, str], lifeline: int, log: IO[bytes] | None) -> None:
        # Its own session: Ctrl-C reaches only the supervisor, which then stops the parts in order.
        self.process = subprocess.Popen(  # noqa: S603  the command is ours
            self.command,
            env=environment | {LIFELINE: str(lifeline)},
            pass_fds=(lifeline,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.started = time.monotonic()

    def exit_code(self) -> int | None:
        """Return the exit code once after the process has ended, else None."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        self.process = None
        return code

    def plan_restart(self) -> None:
        """Schedule a restart; wait longer after each death in a row.

        Raises
        ------
        SupervisorError
            The part died too often without ever being healthy.
        """
        lived = time.monotonic() - self.started
        self.deaths = 1 if lived >= HEALTHY_AFTER else self.deaths + 1
        if self.deaths >= QUICK_DEATHS:
            raise SupervisorError(
                f"The {self.name} ended {self.deaths} times in a row right after its start."
            )
        self.restart_at = time.monotonic() + min(BACKOFF_FIRST * 2 ** (self.deaths - 1), BACKOFF_LAST)


@dataclass
class Supervisor:
    """Starts the parts, restarts those that die, and stops them all.

    Parameters
    ----------
    settings
        Settings of the parts, passed on through the environment.
    log
        File for their output; None: this process's own.
    """

    settings: Settings
    log: IO[bytes] | None = None
    parts: list[Part] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        run = [sys.executable, "-P", "-m", "app.cli"]  # -P: the working folder may have an app/ too
        host, port = self.settings.host, str(self.settings.port)
        self.parts = [
            Part("API", [*run, "api", "--host", host, "--port", port]),
            Part("worker", [*run, "worker"]),
        ]

    def run(self, say: Callable[[str], None]) -> None:
        """Supervise until `stopping` is set; on return every part has ended."""
        read_end, write_end = os.pipe()
        environment = os.environ | {"BARTSERVE_DATA_DIR": str(self.settings.data_dir)}
        try:
            for part in self.parts:
                part.start(environment, read_end, self.log)
            while not self.stopping.wait(0.1):
                self._look(environment, read_end, say)
        finally:
            self._stop()
            os.close(write_end)
            os.close(read_end)

    def _look(self, environment: dict[str, str], lifeline: int, say: Callable[[str], None]) -> None:
        for part in self.parts:
            if (code := part.exit_code()) is not None:
                part.plan_restart()
                say(f"The {part.name} ended with code {code}; starting it again.")
            elif part.process is None and time.monotonic() >= part.restart_at:
                part.start(environment, lifeline, self.log)

    def _stop(self) -> None:
        running = [part.process for part in self.parts if part.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for process in running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
