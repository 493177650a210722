"""Real workers as processes on a real database, with or without a real broker."""

import contextlib
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine, create_engine, text

from app.store import datasets, draws, models
from app.store.engine import session_scope
from app.store.tables import Model, Unit
from app.supervisor import LIFELINE
from sampler import Chain
from tests.support.friedman import friedman_table
from tests.support.processes.warm_workers import WarmParent, WarmWorker
from tests.support.waiting import eventually
from worker.fits.draw_blocks import BlockWriter
from worker.fits.fit_spec import prepare_problem, read_rows, read_spec, split

OWNER = "local"
LEASE_SECONDS = 2.0
SLICE_SECONDS = 0.05


UNDISTURBED: dict[bytes, str] = {}  # digests of draws, by header and outcomes
SHORT = {
    "num_trees": 20,
    "num_chains": 2,
    "num_burnin": 100,
    "num_draws": 50,
    "thin": 2,
    "seed": 5,
    "holdout": 0.2,
}
# A second or more per chain, mostly sampling, in slices of a twentieth: time to interfere.
LONG = {"num_trees": 200, "num_chains": 2, "num_burnin": 300, "num_draws": 200, "thin": 25, "seed": 6}


@dataclass
class Service:
    """A database, optionally a broker, and the workers that a test starts on them."""

    engine: Engine
    environment: dict[str, str]
    log: Path
    lifeline: int  # only this process holds the other end: workers end with it, however it ends
    parent: WarmParent | None = None  # parent of forked workers, unless they must start with cold kernels
    workers: list[subprocess.Popen | WarmWorker] = field(default_factory=list)

    def start_worker(self, slots=2, **environment) -> subprocess.Popen | WarmWorker:
        variables = {"BARTSERVE_WORKER_SLOTS": str(slots), LIFELINE: str(self.lifeline), **environment}
        with self.log.open("ab") as log:
            if self.parent is not None and "XDG_CACHE_HOME" not in environment:
                process = self.parent.fork(self.environment | variables, log.fileno(), self.lifeline)
            else:
                process = subprocess.Popen(
                    [sys.executable, "-m", "app.cli", "worker"],
                    env=self.environment | variables,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(self.lifeline,),
                    start_new_session=True,
                )
        self.workers.append(process)
        return process

    def freeze(self, worker: subprocess.Popen) -> None:
        """Send SIGSTOP to a worker and its children between writes: SQLite has one writer, frozen or not."""

        def between_writes() -> bool:
            os.killpg(worker.pid, signal.SIGSTOP)
            # One in the middle of a system call, such as locking the database, stops at its end.
            eventually(lambda: all(map(stopped, [worker.pid, *children(worker)])), 30)
            if self.engine.dialect.name != "sqlite":
                return True
            database = sqlite3.connect(str(self.engine.url.database), timeout=1.0)
            with contextlib.closing(database), contextlib.suppress(sqlite3.OperationalError):
                database.execute("BEGIN IMMEDIATE")
                return True
            os.killpg(worker.pid, signal.SIGCONT)
            return False

        self.eventually(between_writes)

    def stop(self) -> None:
        for process in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def create_model(self, table=None, target="y", **settings) -> str:
        table = friedman_table() if table is None else table
        encoded = datasets.encode(table)
        columns = [{"name": name} for name in table.column_names]
        full = {"family": "gaussian", "method": "bart", "moves": "growprune", "features": None, **settings}
        with session_scope(self.engine) as session:
            dataset = datasets.save(
                session, encoded, owner=OWNER, name="friedman", columns=columns, warnings=[]
            )
            model = models.create(
                session,
                owner=OWNER,
                name=None,
                dataset_id=dataset.id,
                target=target,
                settings=full,
                num_chains=settings["num_chains"],
                iterations=settings["num_burnin"] + settings["num_draws"] * settings["thin"],
            )
        return model.id

    def model(self, model_id: str) -> Model:
        with session_scope(self.engine, read_only=True) as session:
            return models.get(session, OWNER, model_id)

    def chains(self, model_id: str) -> list[Unit]:
        with session_scope(self.engine, read_only=True) as session:
            return models.chains(session, [model_id])[model_id]

    def cancel(self, model_id: str) -> None:
        with session_scope(self.engine) as session:
            models.cancel(session, OWNER, model_id)

    def cut_sessions(self) -> None:
        """End every session of the database but one."""
        admin = create_engine(self.engine.url)
        of_others = "pid <> pg_backend_pid() AND datname = current_database()"
        with admin.begin() as connection:
            connection.execute(
                text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {of_others}")
            )
        admin.dispose()

    def eventually(self, what, seconds=120.0):
        """Return the first true value of `what`; on failure show the workers' logs."""
        return eventually(what, seconds, self._log_tail)

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def ended(self, model_id: str, seconds=120.0) -> Model:
        """Return the model when it has ended."""
        self.eventually(lambda: self.model(model_id).finished_at is not None, seconds)
        return self.model(model_id)

    def sampling(self, model_id: str, seconds=120.0) -> list[Unit]:
        """Return the chains once one is running with stored draws."""

        def under_way():
            chains = self.chains(model_id)
            return any(chain.state == "running" and chain.num_draws for chain in chains) and chains

        return self.eventually(under_way, seconds)

    def digest(self, model_id: str) -> str:
        """Return a digest of every byte of every draw."""
        with session_scope(self.engine, read_only=True) as session:
            return _digest(draws.read(session, model_id))

    def undisturbed_digest(self, model_id: str) -> str:
        """Return the digest of the model's chains run by the sampler alone in this process, once."""
        with session_scope(self.engine, read_only=True) as session:
            spec = read_spec(session, model_id)
            training = split(spec, read_rows(session, spec)).training
        problem = prepare_problem(spec, training)
        known = problem.header() + problem.training.grid_y.tobytes()
        if known not in UNDISTURBED:
            stored = []
            for number in range(spec.settings["num_chains"]):
                chain = Chain.start(problem.training, number)
                chain.run(chain.iterations)
                kept = chain.take()[spec.settings.get("discarded", 0) :]
                blocks = BlockWriter(spec.settings["num_trees"]).add(kept)
                stored.append([block.data for block in blocks])
            UNDISTURBED[known] = _digest(stored)
        return UNDISTURBED[known]


def _digest(chains: list[list[bytes]]) -> str:
    digest = hashlib.sha256()
    for blocks in chains:
        digest.update(len(blocks).to_bytes(4, "little"))
        for block in blocks:
            digest.update(len(block).to_bytes(4, "little") + block)
    return digest.hexdigest()


def children(process: subprocess.Popen) -> list[int]:
    """Return the ids of a process's direct children, whichever thread created them."""
    lists = [file.read_text().split() for file in Path(f"/proc/{process.pid}/task").glob("*/children")]
    return [int(pid) for pids in lists for pid in pids]


def stopped(pid: int) -> bool:
    """Return whether every thread of a process has stopped, or it has ended."""
    return {_state(file) for file in Path(f"/proc/{pid}/task").glob("*/stat")} <= {"T", "Z"}


def alive(pid: int) -> bool:
    """Return whether a process runs (a zombie doesn't)."""
    return _state(Path(f"/proc/{pid}/stat")) != "Z"


def _state(stat: Path) -> str:
    """Return the letter of a process or thread; one that is gone counts as a zombie."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


@contextlib.contextmanager
def make_service(database, redis_url, folder, parent=None) -> Iterator[Service]:
    """Make a service on a database and broker; at the end nothing of it keeps running."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BARTSERVE_")}
    environment |= {
        "BARTSERVE_DATA_DIR": str(folder),
        "BARTSERVE_DATABASE_URL": database.url,
        "BARTSERVE_LEASE_SECONDS": str(LEASE_SECONDS),
        "BARTSERVE_SLICE_SECONDS": str(SLICE_SECONDS),
        "BARTSERVE_DISPATCH_SECONDS": "0.2",
    }
    if redis_url is not None:
        environment |= {"BARTSERVE_REDIS_URL": redis_url, "BARTSERVE_KEY_PREFIX": f"test-{uuid.uuid4().hex}:"}
    lifeline, ours = os.pipe()
    service = Service(database.engine, environment, folder / "workers.log", lifeline, parent)
    try:
        yield service
    finally:
        service.stop()
        os.close(ours)
        os.close(lifeline)
