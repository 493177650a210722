"""Doorbells stay few, compilation can be cancelled, hopeless units fail, a lost database costs only time."""

import os
import signal
import time
from pathlib import Path

import pytest
from sqlalchemy import func, select

from app.settings import BELL_QUEUE
from app.store import events, models
from app.store.engine import session_scope
from app.store.tables import DrawBlock, Model, Unit
from tests.support import model_history as history
from tests.support.processes.servers import redis_client
from tests.support.processes.worker_service import LONG, OWNER, SHORT, children
from worker.places import MORE_PROCESSES

team = pytest.mark.parametrize("service", ["team"], indirect=True)
embedded = pytest.mark.parametrize("service", ["embedded"], indirect=True)


@pytest.mark.slow
@team
def test_bells_are_bounded(service, valkey_url):
    """The queue never has more doorbells than the worker has slots, even if none is answered."""
    broker = redis_client(valkey_url)
    key = service.environment["BARTSERVE_KEY_PREFIX"] + BELL_QUEUE
    for seed in range(10):
        service.create_model(**LONG | {"seed": seed, "num_draws": 2000})
    worker = service.start_worker(slots=1)
    service.eventually(lambda: any(chain.state == "running" for chain in _first_chains(service)))
    for child in children(worker):  # one for the chain, one for finishes and predictions
        os.kill(child, signal.SIGSTOP)
    longest = 0
    for _ in range(60):
        longest = max(longest, broker.llen(key))
        time.sleep(0.05)

    assert longest <= 1


@pytest.mark.slow
@embedded
def test_cancel_while_compiling(service, tmp_path):
    """Compilation is a visible phase that a cancel ends within 5 s beyond the current kernel."""
    model_id = service.create_model(**SHORT)
    service.start_worker(slots=1, XDG_CACHE_HOME=str(tmp_path / "cold"))
    chain = service.eventually(lambda: _compiling(service, model_id))
    assert 0 <= chain.iteration <= chain.iterations
    service.cancel(model_id)

    assert service.ended(model_id, 12).state == "cancelled"


def test_poison_stops_after_three_attempts(service, tmp_path):
    """A model that kills its worker each time fails with the reason after three attempts."""
    model_id = service.create_model(**SHORT | {"num_chains": 1})
    worker = service.start_worker(slots=1, XDG_CACHE_HOME=str(tmp_path / "cold"))
    for attempt in (1, 2, 3):
        service.eventually(lambda attempt=attempt: _attempt(service, model_id) == (attempt, "compiling"))
        for pid in service.eventually(lambda: children(worker)):
            os.kill(pid, signal.SIGKILL)
    model = service.ended(model_id)

    assert (model.state, model.error["type"]) == ("failed", "worker_lost")
    assert _attempt(service, model_id)[0] == 3


@pytest.mark.slow
@embedded
def test_nothing_is_open_between_looks(service):
    """The forking process holds no SQLite connection between queries, whose locks a child would inherit."""
    worker = service.start_worker()
    service.eventually(lambda: len(children(worker)) == 2 + MORE_PROCESSES)

    def holds_none():
        files = [os.path.realpath(file) for file in Path(f"/proc/{worker.pid}/fd").iterdir()]
        return not [file for file in files if "bartserve.db" in file]

    service.eventually(lambda: not holds_none(), 60)  # a query is under way
    service.eventually(holds_none, 60)


@team
def test_cut_database_sessions_cost_time_only(service):
    """A fit has equal draws although the database repeatedly ends every session."""
    model_id = service.create_model(**LONG)
    service.start_worker()
    service.sampling(model_id)
    for _ in range(3):
        service.cut_sessions()
        time.sleep(0.3)
    service.engine.dispose()

    assert service.ended(model_id, 120).state == "succeeded"
    assert service.digest(model_id) == service.undisturbed_digest(model_id)


def _first_chains(service):
    with session_scope(service.engine, read_only=True) as session:
        ids = [model.id for model in models.list_page(session, "local", 100)]
        return [chain for chains in models.chains(session, ids).values() for chain in chains]


def _compiling(service, model_id):
    return next((chain for chain in service.chains(model_id) if chain.phase == "compiling"), None)


def _attempt(service, model_id):
    (chain,) = service.chains(model_id)
    return chain.attempts, chain.phase if chain.state == "running" else chain.state


def test_workers_remove_what_was_deleted(service):
    """A worker removes the rows of its deleted model and continues with the next."""
    model_id = service.create_model(**LONG | {"num_draws": 2000})
    service.start_worker()
    service.sampling(model_id)
    with session_scope(service.engine) as session:
        assert models.delete(session, OWNER, model_id)
    following = service.create_model(**SHORT)

    def rows():
        with session_scope(service.engine, read_only=True) as session:
            mine = [Model.id == model_id, *(table.model_id == model_id for table in (Unit, DrawBlock))]
            return sum(session.scalar(select(func.count()).where(which)) for which in mine)

    service.eventually(lambda: rows() == 0)
    assert service.ended(following).state == "succeeded"


@pytest.mark.parametrize(
    ("service", "phase"), [("embedded", "burn_in"), ("team", "sampling")], indirect=["service"]
)
def test_cancel_takes_effect_at_once(service, phase):
    """A cancel takes effect within 5 s; stored draws stay readable, and no more is written."""
    long = {"burn_in": {"num_burnin": 1_000_000}, "sampling": {"num_draws": 4000}}[phase]
    model_id = service.create_model(**LONG | long)
    service.start_worker()

    def under_way():
        chains = service.chains(model_id)
        return all(chain.phase == phase and (chain.num_draws or phase == "burn_in") for chain in chains)

    service.eventually(under_way)
    service.cancel(model_id)
    model = service.ended(model_id, 5)
    before = _everything(service, model_id)
    time.sleep(1.5)  # dozens of slices

    assert (model.state, model.error) == ("cancelled", None)
    assert _everything(service, model_id) == before
    history.check(service.engine, model_id, succeeded=False)
    num_draws = [chain.num_draws for chain in service.chains(model_id)]
    assert all(num_draws) if phase == "sampling" else not any(num_draws)


def _everything(service, model_id):
    """Return a model's state, units, draws and log."""
    with session_scope(service.engine, read_only=True) as session:
        log = [(event.sequence, event.kind) for event in events.page(session, model_id, 0, 1000)]
    rows = [(unit.token, unit.state, unit.iteration, unit.updated_at) for unit in service.chains(model_id)]
    return service.model(model_id).state, rows, log, service.digest(model_id)
