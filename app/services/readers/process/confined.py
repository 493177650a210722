"""Confined readers: processes with limited memory and time that read uploaded files.

A file of a megabyte may decode to gigabytes, its metadata may be forged, and a parser may crash. So no
process that serves others parses an upload, be it a table or a model: each is read by a fork of a small
process started for this purpose (`forkserver`).
"""

import atexit
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from app.services import errors
from app.services.errors import BusyError, Fault, ServiceError, UnusableDataError
from app.services.readers.options import ReaderLimits
from app.services.readers.process.places import RETRY_SECONDS, ReaderPlaces
from app.services.readers.scratch import free_bytes
from app.services.request_context import actor
from sampler.host.cores import count_cores
from sampler.host.data import interrupt

log = logging.getLogger(__name__)
FORK_SERVER = "app.services.readers.process.forkserver"
MAX_ANSWER = 256 << 20
WALL_SECONDS = 30  # beyond the reader's own limit
MAX_WAITING = 16  # waiting files, each with a file on disk and a thread
WAIT_SECONDS = 30.0
LOOK_SECONDS = 0.25  # between looks whether the client is still there
# Beginnings of the variables that an interpreter needs.
INHERITED = ("PATH", "HOME", "LANG", "LC_", "TMPDIR", "TZ", "LD_", "XDG_CACHE_HOME", "NUMBA_", "PYTHON")
LEFT = 4  # readers leave a fourth of the temporary disk to the uploads of other owners
# A single thread, and memory that returns to the system as soon as it is freed.
_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MALLOC_ARENA_MAX": "1",
    # Arrow allocates a block for each column and frees most of it at once. Above this size the memory returns
    # to the system; on the heap, 8,000 columns filled the address space of a reader.
    "MALLOC_MMAP_THRESHOLD_": "32768",
}
_REFUSALS = {
    kind.__name__: kind
    for kind in (
        errors.UnusableDataError,
        errors.UnusableModelError,
        errors.TooLargeError,
        errors.InvalidRequestError,
    )
}


@dataclass(frozen=True)
class ReaderKind:
    """A kind of reader: the kernels it needs, and the error class and messages for unreadable files."""

    kernels: tuple[str, ...]
    refusal: type[ServiceError]
    too_much: str
    unreadable: str


TABLES = ReaderKind(
    (),
    UnusableDataError,
    "The file takes too much memory or time to read: send fewer rows or columns, or the same table as CSV or "
    "Parquet with smaller row groups.",
    "The file can't be read; the reason was logged under this request's id. Write it again as plain CSV, and "
    "tell the operator of the service.",
)
MODELS = ReaderKind(
    ("prediction", "heavy-tails", "count-quantiles", "soft-prediction"),
    errors.UnusableModelError,
    "The model takes too much memory or time to read: send one of fewer draws, trees or columns.",
    "The model file can't be read; the reason was logged under this request's id. Tell the operator of the "
    "service.",
)


class Readers:
    """Runner of confined readers; one per process is enough, and its methods are thread-safe.

    Parameters
    ----------
    at_once
        Maximum of concurrent readers; a few more files wait for a short time.
    kind
        The kind of files that they read.
    """

    def __init__(self, at_once: int | None = None, kind: ReaderKind = TABLES) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        # One more than cores, so that one owner's files never take all of them.
        self.places = ReaderPlaces(at_once or count_cores() + 1, MAX_WAITING)
        self._nursery: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._room = 0  # free on the temporary disk when the fork server started

    @property
    def pid(self) -> int | None:
        """Process id of the fork server, None before its start."""
        return None if self._nursery is None else self._nursery.pid

    def start(self) -> None:
        """Start the fork server now, so that the first reader doesn't wait for it."""
        with self._lock:
            self._started()

    def close(self) -> None:
        """Stop the fork server; running readers finish their task."""
        with self._lock:
            if self._control is not None:
                self._control.close()
            if self._nursery is not None:
                self._nursery.wait()
            self._control = self._nursery = None

    def run(
        self, task: str, file: BinaryIO, limits: ReaderLimits, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], BinaryIO]:
        """Run a task of `work` on a file; return its result and its output file, which the caller closes.

        Parameters
        ----------
        file
            A file with a descriptor, positioned at its beginning.

        Raises
        ------
        UnusableDataError, UnusableModelError, TooLargeError, InvalidRequestError
            The reader refuses the file, or exceeds its limits.
        BusyError
            Too many files are being read.
        """
        self.start()
        if actor().limits.shared:
            limits = replace(limits, leave=self._room // LEFT)
        with self.places.place(WAIT_SECONDS):
            return self._run(task, file, limits, arguments)

    def _run(
        self, task: str, file: BinaryIO, limits: ReaderLimits, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], BinaryIO]:
        message = json.dumps({"task": task, "limits": limits.to_json(), **arguments}).encode()
        out = TemporaryFile()  # noqa: SIM115  the caller closes it
        try:
            number = file.fileno()  # this moves a spooled file to disk
            file.flush()
            answer = self._ask(message, number, out.fileno(), 10 * limits.seconds + WALL_SECONDS)
            if "done" not in answer:
                raise _refusal(answer, self._kind)  # noqa: TRY301
            done = dict(answer["done"])
        except BaseException:
            out.close()
            raise
        out.seek(0)
        return done, out

    def _ask(self, message: bytes, file: int, out: int, seconds: float) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            with self._lock:
                self._send([theirs.fileno(), file, out])
            theirs.close()
            ours.settimeout(seconds)
            parts: list[bytes] = []
            try:
                ours.sendall(len(message).to_bytes(8, "big") + message)
                size, until = 0, time.monotonic() + seconds
                while part := _received(ours, until):
                    parts.append(part)
                    size += len(part)
                    if size > MAX_ANSWER:
                        return {}
            except OSError:
                return {}
        try:
            answer: dict[str, Any] = json.loads(b"".join(parts))
        except ValueError:
            return {}  # the kernel killed it before it could answer
        return answer

    def _send(self, descriptors: list[int]) -> None:
        for attempt in (1, 2):
            control = self._started()
            try:
                socket.send_fds(control, [b"."], descriptors)
            except OSError:
                if attempt == 2:
                    raise
                control.close()
                self._control = None  # it was killed: start a new one
            else:
                return

    def _started(self) -> socket.socket:
        if self._control is not None and self._nursery is not None and self._nursery.poll() is None:
            return self._control
        if self._control is not None:
            self._control.close()
        self._room = free_bytes()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._nursery = subprocess.Popen(  # noqa: S603  our own interpreter and module
                [
                    sys.executable,
                    "-I",
                    "-B",
                    "-m",
                    FORK_SERVER,
                    *self._kind.kernels,
                ],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=_bare(os.environ) | _ENVIRONMENT,
                start_new_session=True,
            )
        return self._control


def _bare(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an interpreter needs of the environment, without a service's addresses and passwords."""
    return {name: value for name, value in environment.items() if name.startswith(INHERITED)}


def _received(connection: socket.socket, until: float) -> bytes:
    """Receive a part of the answer until that time, or while somebody waits for it; then raise OSError.

    InterruptedWorkError is raised where nobody does; the closed connection ends the reader.
    """
    connection.settimeout(LOOK_SECONDS)
    while True:
        interrupt.look()
        try:
            return connection.recv(1 << 20)
        except TimeoutError:
            if time.monotonic() > until:
                raise


def _refusal(answer: dict[str, Any], read: ReaderKind) -> ServiceError:
    if (kind := _REFUSALS.get(answer.get("refused", ""))) is not None:
        return kind(answer["detail"], [Fault(*place) for place in answer["errors"]])
    if "busy" in answer:
        message = (
            "The folder of temporary files has no room to read this file now: try again, and if that doesn't "
            "help, send fewer rows."
        )
        return BusyError(message, retry_after=RETRY_SECONDS)
    if "failed" in answer:
        log.error("A reader failed:\n%s", answer["failed"])
        return read.refusal(read.unreadable)
    return read.refusal(read.too_much)


readers = Readers()
# One at a time, because a model takes far more memory than a table. The fork server starts on first use.
model_readers = Readers(1, MODELS)
atexit.register(readers.close)
atexit.register(model_readers.close)
