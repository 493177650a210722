"""Killed, paused or moved fits end with the same bits."""

import contextlib
import os
import signal
import time

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.settings import Settings
from app.store.engine import make_engine, session_scope
from app.store.queue import workers
from tests.support.databases import Database
from tests.support.processes.servers import folder, redis_client, valkey_in
from tests.support.processes.worker_service import LONG, SHORT, children, make_service
from tests.support.waiting import stretched
from worker.context import Context
from worker.places import MORE_PROCESSES


@pytest.mark.slow
def test_a_killed_child_costs_time_only(service):
    """After SIGKILL of its children a worker continues from the last slices with equal draws."""
    model_id = service.create_model(**LONG)
    worker = service.start_worker()
    service.sampling(model_id)
    for pid in children(worker):
        os.kill(pid, signal.SIGKILL)
    model = service.ended(model_id, 120)

    assert (model.state, model.error) == ("succeeded", None)
    assert any(chain.attempts > 1 for chain in service.chains(model_id))
    assert service.undisturbed_digest(model_id) == service.digest(model_id)


@pytest.mark.slow
def test_killed_idle_children_are_replaced(service):
    """After SIGKILL of idle children the worker still receives doorbells."""
    worker = service.start_worker()
    first = service.eventually(lambda: len(children(worker)) == 2 + MORE_PROCESSES and children(worker))
    model_id = service.create_model(**SHORT)
    service.ended(model_id)
    for pid in first:
        os.kill(pid, signal.SIGKILL)
    service.eventually(lambda: len(set(children(worker)) - set(first)) == len(first))

    assert service.ended(service.create_model(**SHORT)).state == "succeeded"


def test_a_killed_worker_costs_time_only(service):
    """After SIGKILL of a worker the next one continues from the last slices with equal draws."""
    model_id = service.create_model(**LONG)
    worker = service.start_worker()
    before = {chain.ordinal: chain.iteration for chain in service.sampling(model_id)}
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    service.start_worker()
    model = service.ended(model_id, 120)

    assert model.state == "succeeded"
    assert max(before.values()) > 0
    assert service.undisturbed_digest(model_id) == service.digest(model_id)


def test_a_stopped_worker_gives_its_units_back(service):
    """On SIGTERM a worker releases its units at their last slices within seconds; draws stay equal."""
    model_id = service.create_model(**LONG)
    worker = service.start_worker()
    service.sampling(model_id)
    before = time.monotonic()
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(30) == 0
    assert time.monotonic() - before < stretched(25)
    given_back = service.chains(model_id)
    assert "running" not in {chain.state for chain in given_back}
    assert {0} == {chain.stalled_attempts for chain in given_back}
    service.start_worker()
    assert service.ended(model_id, 120).state == "succeeded"
    assert service.undisturbed_digest(model_id) == service.digest(model_id)


def test_a_worker_back_from_the_dead_writes_nothing(service):
    """A worker paused beyond its lease writes nothing after another took over; draws stay equal."""
    model_id = service.create_model(**LONG)
    sleeper = service.start_worker()
    service.sampling(model_id)
    service.freeze(sleeper)
    heir = service.start_worker()

    def taken_over():
        return any(chain.attempts > 1 and chain.state == "running" for chain in service.chains(model_id))

    service.eventually(taken_over, 60)
    os.killpg(sleeper.pid, signal.SIGCONT)
    model = service.ended(model_id, 120)

    assert heir.poll() is None
    assert model.state == "succeeded"
    assert service.undisturbed_digest(model_id) == service.digest(model_id)


@pytest.mark.parametrize("service", ["team"], indirect=True)
def test_a_wiped_broker_loses_nothing(service, valkey_url):
    """With repeated FLUSHALL of the broker every model is fitted."""
    broker = redis_client(valkey_url)
    models = [service.create_model(**LONG | {"seed": seed}) for seed in range(3)]
    service.start_worker()
    while not all(service.model(model_id).finished_at for model_id in models):
        broker.flushall()
        time.sleep(0.1)

    assert {"succeeded"} == {service.model(model_id).state for model_id in models}


@pytest.mark.slow
@pytest.mark.parametrize("service", ["team"], indirect=True)
def test_workers_share_the_chains_of_a_model(service):
    """Two workers of one slot each run chains of one model at the same time."""
    for _ in range(2):
        service.start_worker(slots=1)

    def both_are_there():
        with session_scope(service.engine, read_only=True) as session:
            return len(workers.last_beats(session)) == 2

    service.eventually(both_are_there)
    model_id = service.create_model(**LONG | {"num_chains": 16})  # a worker looks every 2 s

    def on_two_workers():
        running = [chain for chain in service.chains(model_id) if chain.state == "running"]
        return len({chain.worker_id for chain in running}) == 2

    service.eventually(on_two_workers)
    assert service.ended(model_id, 120).state == "succeeded"


@pytest.mark.slow
def test_a_broker_that_went_away_costs_time_only(postgres_server, postgres_template, tmp_path):
    """After the broker restarts empty in mid-work, the worker reconnects and fits every model."""
    url = postgres_server.create(template=postgres_template)
    database = Database("postgres", url, make_engine(url))
    with folder("bartserve-valkey-") as place, contextlib.ExitStack() as stack:
        with valkey_in(place) as broker:
            service = stack.enter_context(make_service(database, broker, tmp_path))
            models = [service.create_model(**LONG | {"seed": seed}) for seed in range(3)]
            worker = service.start_worker()
            service.sampling(models[0])
        time.sleep(1.0)
        with valkey_in(place):
            ends = {service.ended(model_id, 120).state for model_id in models}

            assert ends == {"succeeded"}
            assert worker.poll() is None
            service.stop()
    database.engine.dispose()
    postgres_server.drop(url)


def test_a_worker_stopped_in_mid_transaction_gives_way(postgres_server, postgres_template):
    """The database ends a stopped worker's transaction before the lease, which frees its rows."""
    url = postgres_server.create(template=postgres_template)
    context = Context(Settings(database_url=url, lease_seconds=1.0), "wrk_stopped")
    with contextlib.closing(context), context.engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        time.sleep(2.5)
        with pytest.raises(DBAPIError, match="idle-in-transaction"):
            connection.execute(text("SELECT 1"))
