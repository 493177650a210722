"""The team stack for a benchmark (two API processes, a worker, Postgres, Valkey), and what its parts use."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from app.services.access import keys
from app.store import schema
from app.store.engine import make_engine, session_scope
from tests.support.processes import servers

SAMPLE_SECONDS = 2.0  # between two measurements of the parts


def tree(pid):
    """List a process and all its descendants."""
    pids = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                pids += tree(int(child))
    return pids


def measure(pids):
    """Sum proportional memory (MiB), threads and open files of processes."""
    memory = threads = files = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, StopIteration):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            memory += int(next(line for line in rollup if line.startswith("Pss:")).split()[1]) / 1024
            threads += len(list(Path(f"/proc/{pid}/task").iterdir()))
            files += len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return memory, threads, files


async def watch(parts, samples):
    """Record the resources of the parts at intervals, until cancelled."""
    while True:
        for name, pid in parts.items():
            samples[name].append(measure(tree(pid)))
        await asyncio.sleep(SAMPLE_SECONDS)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve(port):
    """Start one API process on loopback with keys and quotas, as if reachable from outside."""
    from app.server import server
    from app.settings import Settings

    server(Settings(host="0.0.0.0"), port=port).run()


@contextlib.contextmanager
def stack():
    """Start the stack; yield the ports of two API processes, a key, and the process ids of the parts."""
    with (
        servers.postgres() as postgres,
        servers.valkey() as broker,
        tempfile.TemporaryDirectory() as folder,
        contextlib.ExitStack() as ends,
    ):
        url = postgres.create()
        schema.migrate(url)
        engine = make_engine(url)
        with session_scope(engine) as session:
            key = keys.create(session, name="load", scopes=list(keys.SCOPES)).secret
        engine.dispose()
        environment = os.environ | {"BARTSERVE_DATABASE_URL": url, "BARTSERVE_REDIS_URL": broker}
        log = ends.enter_context(Path(folder, "log").open("wb"))
        started = {}

        def start(name, *command):
            started[name] = subprocess.Popen(
                [sys.executable, *command], env=environment, stdout=log, stderr=log, start_new_session=True
            )

        ports = [free_port(), free_port()]
        for number, port in enumerate(ports):
            start(f"API {number + 1}", "-m", "lab.team_stack", str(port))
        start("worker", "-m", "app.cli", "worker", "--slots", "1")
        try:
            wait_ready(ports)
            yield ports, key, {name: process.pid for name, process in started.items()}, Path(folder, "log")
        finally:
            for process in started.values():
                process.terminate()
            for process in started.values():
                try:
                    process.wait(40)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)


def wait_ready(ports):
    deadline = time.monotonic() + 180
    for port in ports:
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"http://127.0.0.1:{port}/health/ready", timeout=5).status_code == 200:
                    break
            assert time.monotonic() < deadline, "the stack doesn't get ready"
            time.sleep(0.2)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
