"""Fork server of confined readers: a process with all libraries loaded and a single thread.

A fresh interpreter with the libraries takes a third of a second, a fork a few milliseconds. This process
never reads a file itself. `app.services.readers.process.confined` runs it with a socket as standard input;
each message brings three descriptors: a socket for task and answer, the file, and the output. The arguments
are the groups of compiled kernels that the readers need.
"""

import errno
import fcntl
import gc
import json
import logging
import os
import resource
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from app.services.errors import ServiceError
from app.services.readers.process.tasks import TASKS

WALL = 10  # wall-clock limit, as a multiple of the CPU limit
MAX_TASK = 64 << 20
FAILED, MEMORY, BUSY = "failed", "memory", "busy"
OF_MODELS = (
    "sampler.host.forecasts",
    "sampler.host.posteriors",
    "sampler.host.settings",
    "sampler.storage.forest_codec",
    "sampler.storage.sharp_codec",
)
log = logging.getLogger(__name__)


def serve(control: socket.socket) -> None:
    """Fork a reader for each message until the other side closes the socket."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies: sockets report results
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service handles Ctrl-C and ends us
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    gc.collect()
    gc.freeze()  # keeps collections in readers from touching shared memory
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 3)
        if not descriptors:
            return
        try:
            child = os.fork()
        except OSError:
            with socket.socket(fileno=os.dup(descriptors[0])) as job:
                _send(job, {BUSY: True})
            child = -1
        if child == 0:
            control.close()
            _be_reader(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _be_reader(job: int, file: int, out: int) -> None:
    """Do one task and exit, whatever happens."""
    code = 1
    try:
        with socket.socket(fileno=job) as connection:
            task = json.loads(_received(connection))
            with open(file, "rb") as source, open(out, "wb") as sink:
                size = os.fstat(source.fileno()).st_size
                confine(task["limits"]["memory"] + size, task["limits"]["seconds"])
                with _ending_with(connection):
                    answer = _answer(source, sink, task)
                _send(connection, answer)
        code = 0
    finally:
        os._exit(code)


@contextmanager
def _ending_with(connection: socket.socket) -> Iterator[None]:
    """End this process, in mid-work, once the other side closes the connection: nobody wants the answer."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(connection, fcntl.F_GETFL)
    fcntl.fcntl(connection, fcntl.F_SETFL, flags | os.O_ASYNC)  # a signal at whatever happens to it
    readable, _, _ = select.select([connection], [], [], 0)
    if readable:  # it was closed before
        os._exit(1)
    try:
        yield
    finally:
        fcntl.fcntl(connection, fcntl.F_SETFL, flags)


def confine(memory: int, seconds: int) -> None:
    """Limit this process's further address space, CPU and wall-clock seconds, and core files.

    The kernel kills a process that exceeds the time limits.
    """
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux
        used = 1 << 30
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_REAL, WALL * seconds)


def _answer(source: BinaryIO, sink: BinaryIO, task: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"done": TASKS[task["task"]](source, sink, task)}
    except ServiceError as error:
        faults = [[fault.column, fault.row, fault.detail] for fault in error.errors]
        return {"refused": type(error).__name__, "detail": error.detail, "errors": faults}
    except (MemoryError, pa.ArrowMemoryError, SystemError):  # the last where CPython lost the first
        return {MEMORY: True}
    except OSError as error:
        known = {errno.ENOSPC: BUSY, errno.ENOMEM: MEMORY}.get(error.errno or 0)
        return {known: True} if known else {FAILED: traceback.format_exc()}
    except Exception:  # noqa: BLE001  logged by the service
        return {FAILED: traceback.format_exc()}


def _received(connection: socket.socket) -> bytes:
    length = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
    if length > MAX_TASK:
        raise ValueError("the task is too long")
    return connection.recv(length, socket.MSG_WAITALL)


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the service has stopped waiting
        connection.sendall(json.dumps(answer).encode())


def _load(groups: list[str]) -> None:
    """Load what readers need, here where no limits apply and once for all of them."""
    # At its first array pyarrow imports pandas, if it can: in every fork that took a tenth of a second.
    pa.array(np.zeros(1))
    if groups:  # not for readers of tables: it takes a second
        for module in OF_MODELS:
            import_module(module)
        from sampler import warm  # noqa: PLC0415
        from sampler.host.posteriors import load_parts  # noqa: PLC0415

        load_parts()
        for group in groups:
            warm(group)


if __name__ == "__main__":
    _load(sys.argv[1:])
    serve(socket.socket(fileno=sys.stdin.fileno()))
