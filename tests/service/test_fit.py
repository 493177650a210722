"""A worker, embedded or in a team, completes an accepted model."""

import os
import signal

import pytest
from sqlalchemy import text

from app.store.engine import session_scope
from app.store.queue import workers
from tests.support.friedman import friedman_table
from tests.support.processes.worker_service import LONG, SHORT, alive, children
from worker.places import MORE_PROCESSES


def test_a_model_is_fitted(service):
    """A fit succeeds with every draw stored, a verdict, diagnostics and held-out scores."""
    model_id = service.create_model(**SHORT)
    service.start_worker()
    model = service.ended(model_id)

    assert (model.state, model.error) == ("succeeded", None)
    assert model.verdict in {"converged", "approximate", "not_converged"}
    assert {"verdict", "sigma", "log_likelihood", "f"} <= set(model.diagnostics)
    assert model.created_at <= model.started_at <= model.finished_at
    for chain in service.chains(model_id):
        assert (chain.state, chain.iteration, chain.iterations, chain.num_draws) == ("done", 200, 200, 50)
        assert chain.statistics["moves"]["grow"]["proposed"] > 0
    assert service.undisturbed_digest(model_id) == service.digest(model_id)


@pytest.mark.slow
def test_the_held_out_score(service):
    """Held-out scores have errors beside a linear model's, and a coverage near the nominal one."""
    model_id = service.create_model(friedman_table(500), **SHORT | {"num_draws": 100, "recalibrate": "off"})
    service.start_worker()
    holdout = service.ended(model_id).holdout

    assert holdout["rows"] == 100
    assert 0 < holdout["rmse"] < holdout["linear_rmse"] < 4
    coverage = {row["level"]: row["coverage"] for row in holdout["coverage"]}
    assert list(coverage) == [0.5, 0.8, 0.9, 0.95]
    # At 100 rows the standard error of a coverage of 0.9 is 0.03; six of these, for so short a fit.
    assert 0.2 < coverage[0.5] < 0.8
    assert coverage[0.9] > 0.72
    assert coverage[0.5] <= coverage[0.8] <= coverage[0.9] <= coverage[0.95]


@pytest.mark.slow
def test_units_that_follow_wait_for_no_poll(service):
    """A slot takes the next unit when one ends: a fit of several ends long before the second poll."""
    model_id = service.create_model(**SHORT | {"num_chains": 3})
    service.start_worker(slots=1, BARTSERVE_DISPATCH_SECONDS="100000")
    assert service.ended(model_id).state == "succeeded"


def test_what_cannot_be_fitted_fails_with_a_sentence(service):
    """A model with unusable data fails with the reason, and the worker continues."""
    failing = service.create_model(target="town", **SHORT)
    fine = service.create_model(**SHORT)
    service.start_worker()
    model = service.ended(failing)

    assert (model.state, model.error["type"]) == ("failed", "data")
    assert "town" in model.error["detail"]
    ends = {"failed", "cancelled"}
    service.eventually(lambda: ends >= {chain.state for chain in service.chains(failing)})
    assert service.ended(fine).state == "succeeded"


def test_the_worker_is_known_and_leaves_nothing(service):
    """A worker's heartbeat is fresh; after SIGTERM its row and children are gone, with exit code 0."""
    worker = service.start_worker()

    def beating():
        with session_scope(service.engine, read_only=True) as session:
            return workers.fresh_beat(session, 5.0)

    service.eventually(beating)
    (row,) = _rows(service)
    assert (worker.pid, 2) == (row.pid, row.slots)
    below = children(worker)
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(10) == 0
    assert _rows(service) == []
    service.eventually(lambda: not any(alive(pid) for pid in below), 2)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["sampling", "queued"])
def test_cancel(service, moment):
    """A cancel takes effect within 5 s, keeps the draws so far, and ends all writes."""
    model_id = service.create_model(**LONG)
    waiting = service.create_model(**LONG)
    service.start_worker()
    service.sampling(model_id)
    cancelled = model_id if moment == "sampling" else waiting
    service.cancel(cancelled)
    model = service.ended(cancelled, 5)
    digest = service.digest(cancelled)

    assert model.state == "cancelled"
    assert {"cancelled"} == {chain.state for chain in service.chains(cancelled)}
    assert (moment == "sampling") == any(chain.num_draws for chain in service.chains(cancelled))
    service.cancel(model_id)
    service.ended(model_id, 5)
    assert digest == service.digest(cancelled)


@pytest.mark.slow
def test_children_of_an_embedded_worker_are_nice(service):
    """An embedded worker's children run at low priority; a team worker's don't."""
    worker = service.start_worker()
    service.eventually(lambda: len(children(worker)) == 2 + MORE_PROCESSES)
    own = os.getpriority(os.PRIO_PROCESS, worker.pid)
    niceness = min(own + 10, 19) if service.environment.get("BARTSERVE_REDIS_URL") is None else own

    def nice():
        return {os.getpriority(os.PRIO_PROCESS, pid) for pid in children(worker)}

    service.eventually(lambda: nice() == {niceness}, 60)


@pytest.mark.slow
def test_a_database_of_another_version_is_left_alone(service):
    """A worker refuses a database of another schema with a sentence and writes nothing."""
    with service.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    worker = service.start_worker()

    assert worker.wait(20) == 1
    assert "bartserve migrate" in service.log.read_text()
    assert _rows(service) == []


def _rows(service):
    with session_scope(service.engine, read_only=True) as session:
        return [worker for worker, _ in workers.last_beats(session)]
