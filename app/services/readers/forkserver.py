"""The process that confined readers are forked from: it has all they need in memory, and a single thread.

A fresh interpreter with the libraries takes a third of a second; a fork of one takes a few milliseconds. This
process never reads a file itself. Run by `app.services.readers.confined` with a socket as standard input:
each message on it brings three descriptors, a socket for task and answer, the file, and where results go. The
arguments are groups of compiled kernels that the readers need.
"""

import errno
import gc
import json
import logging
import os
import resource
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from app.services.errors import ServiceError
from app.services.readers import work

WALL = 10  # times the seconds of a processor
MAX_TASK = 64 << 20
FAILED, MEMORY, BUSY = "failed", "memory", "busy"
log = logging.getLogger(__name__)


def serve(control: socket.socket) -> None:
    """Fork a reader for each message, until the other side is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: their sockets tell
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, whose end ends us
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    gc.collect()
    gc.freeze()  # a reader's collections touch none of this
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
    """Do one task and end, whatever happens."""
    code = 1
    try:
        with socket.socket(fileno=job) as connection:
            task = json.loads(_received(connection))
            with open(file, "rb") as source, open(out, "wb") as sink:
                size = os.fstat(source.fileno()).st_size
                confine(task["limits"]["memory"] + size, task["limits"]["seconds"])
                _send(connection, _answer(source, sink, task))
        code = 0
    finally:
        os._exit(code)


def confine(memory: int, seconds: int) -> None:
    """Limit what this process takes beyond what it has: address space, seconds of processor and clock, files.

    The kernel ends a process that exceeds the times, without asking it.
    """
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:  # no Linux
        used = 1 << 30
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_REAL, WALL * seconds)


def _answer(source: BinaryIO, sink: BinaryIO, task: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"done": work.TASKS[task["task"]](source, sink, task)}
    except ServiceError as error:
        told = [[fault.column, fault.row, fault.detail] for fault in error.errors]
        return {"refused": type(error).__name__, "detail": error.detail, "errors": told}
    except (MemoryError, pa.ArrowMemoryError):
        return {MEMORY: True}
    except OSError as error:
        return {BUSY: True} if error.errno == errno.ENOSPC else {FAILED: traceback.format_exc()}
    except Exception:  # noqa: BLE001  it goes to the service's log
        return {FAILED: traceback.format_exc()}


def _received(connection: socket.socket) -> bytes:
    length = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
    if length > MAX_TASK:
        raise ValueError("the task is too long")
    return connection.recv(length, socket.MSG_WAITALL)


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # nobody waits any more
        connection.sendall(json.dumps(answer).encode())


def _load(groups: list[str]) -> None:
    """Load what compiled code readers call, here where nothing limits it."""
    if groups:
        import sampler.posterior.untrusted  # noqa: F401, PLC0415  not for readers of tables: it takes a second
        from sampler import warm  # noqa: PLC0415

        for group in groups:
            warm(group)


if __name__ == "__main__":
    _load(sys.argv[1:])
    serve(socket.socket(fileno=sys.stdin.fileno()))
