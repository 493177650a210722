"""Workers forked from a process that has imported everything and loaded the kernels.

A fresh worker spends seconds of processor time on this before it does anything, a forked one milliseconds.
Otherwise it is the same program: `bartserve worker` in its own session, with its own environment.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.waiting import stretched

SINGLE_THREADED = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MOST_BYTES = 1 << 20  # largest request, an environment


class WarmParent:
    """The process from which workers are forked."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BARTSERVE_")}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.processes.warm_workers"],
                stdin=theirs.fileno(),
                cwd=Path(__file__).parents[3],
                env=environment | dict.fromkeys(SINGLE_THREADED, "1"),
            )

    def fork(self, environment: dict[str, str], log: int, lifeline: int) -> "WarmWorker":
        """Fork a worker with an environment and a log; it ends when `lifeline` closes."""
        request = json.dumps(environment).encode()
        socket.send_fds(self._ours, [request], [log, lifeline])
        return WarmWorker(self, int(json.loads(self._ours.recv(64))))

    def exit_code(self, pid: int) -> int | None:
        """Return the exit code of a worker that has ended, else None."""
        self._ours.send(json.dumps(pid).encode())
        code = json.loads(self._ours.recv(64))
        return None if code is None else int(code)

    def close(self) -> None:
        """Stop this process, but not its workers."""
        self._ours.close()
        self._process.wait()


class WarmWorker:
    """A forked worker with the interface of `subprocess.Popen`."""

    def __init__(self, parent: WarmParent, pid: int) -> None:
        self.parent, self.pid, self.returncode = parent, pid, None

    def poll(self) -> int | None:
        """Return the exit code if it has ended."""
        if self.returncode is None:
            self.returncode = self.parent.exit_code(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code."""
        end = None if timeout is None else time.monotonic() + stretched(timeout)
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("worker", timeout or 0.0)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it with SIGKILL, but not its children."""
        self.send_signal(signal.SIGKILL)


@pytest.fixture(scope="session")
def warm_parent() -> Iterator[WarmParent]:
    """Start one parent per session."""
    parent = WarmParent()
    yield parent
    parent.close()


def serve(control: socket.socket) -> None:
    """Fork a worker for each environment and report exit codes, until the other side closes."""
    codes: dict[int, int] = {}
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MOST_BYTES, 2)
        if not message:
            return
        request = json.loads(message)
        if isinstance(request, dict):
            in_session, leads_session = os.pipe()
            if (pid := os.fork()) == 0:
                control.close()
                os.close(in_session)
                be_worker(request, *descriptors, leads_session)
            for descriptor in (*descriptors, leads_session):
                os.close(descriptor)
            os.read(in_session, 1)  # wait until the child leads a session, a group that can be killed
            os.close(in_session)
            control.send(json.dumps(pid).encode())
            continue
        if request not in codes:
            ended, status = os.waitpid(request, os.WNOHANG)
            codes |= {ended: os.waitstatus_to_exitcode(status)} if ended else {}
        control.send(json.dumps(codes.get(request)).encode())


def be_worker(environment: dict[str, str], log: int, lifeline: int, leads_session: int) -> None:
    """Become `bartserve worker`; close `leads_session` once this process leads a session."""
    from app import cli
    from app.supervisor import LIFELINE

    code = 1
    try:
        os.setsid()
        os.close(leads_session)
        for number in (1, 2):
            os.dup2(log, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ.clear()
        os.environ.update(environment | {LIFELINE: str(lifeline)})
        sys.argv = ["bartserve", "worker"]
        cli.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


MODULES = (  # of a worker
    "celery.concurrency.prefork",
    "celery.worker.worker",
    "kombu.transport.redis",
    "kombu.transport.virtual",
    "worker.celery_app",
    "worker.dispatcher",
    "worker.main",
    "worker.pool",
)


def main() -> None:
    """Import a worker's modules, load the kernels, fit a model to load everything else, and serve."""
    from sampler.kernels.jit import load_ready

    for module in MODULES:
        import_module(module)
    load_ready()
    with tempfile.TemporaryDirectory() as place:
        fit_a_model(f"sqlite:///{place}/bartserve.db")
    gc.collect()
    gc.freeze()  # shared with the workers: their collections leave it alone
    serve(socket.socket(fileno=os.dup(0)))


def fit_a_model(url: str) -> None:
    """Fit a model by a worker's own functions in this process."""
    from app.settings import Settings
    from app.store import schema
    from tests.support.processes.worker_service import SHORT, Service
    from worker.context import Context
    from worker.units import run_one

    schema.migrate(url)
    context = Context(Settings(database_url=url), "warm", forks=False)
    Service(context.engine, {}, Path("unused"), 0).create_model(**SHORT)
    while run_one(context):
        pass
    context.close()


if __name__ == "__main__":
    main()
