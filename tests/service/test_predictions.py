"""Background predictions by real workers: killed, stopped or cancelled, with equal bytes."""

import hashlib
import os
import signal

import pytest

from app.settings import Settings
from app.store import datasets, predictions
from app.store.engine import session_scope
from app.store.queue import claims, workers
from app.store.tables import BatchPrediction, Dataset, Unit, Worker
from tests.support.friedman import friedman_table
from tests.support.processes.worker_service import OWNER, SHORT
from worker.context import Context
from worker.units import run_one

NUM_ROWS, BLOCK_ROWS = 24_000, 2_000
REQUEST = {
    "levels": [0.9],
    "interval": "predictive",
    "quantiles": [],
    "draws": 50,
    "mcse": True,
    "rhat": True,
    "verdict": None,
    "classes": None,
    "warnings": [],
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Shorten blocks; they are cut here, and workers take them as they are."""
    for module in ("datasets", "predictions"):
        monkeypatch.setattr(f"app.store.{module}.BLOCK_ROWS", BLOCK_ROWS)


@pytest.fixture
def model_id(service):
    model = service.create_model(**SHORT)
    worker = service.start_worker()
    assert service.ended(model, 120).state == "succeeded"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(15) == 0
    return model


def accept(service, model_id) -> tuple[str, str]:
    """Return a background prediction of new rows, and its dataset."""
    table = friedman_table(NUM_ROWS, seed=9)
    encoded = datasets.encode(table)
    columns = [{"name": name} for name in table.column_names]
    with session_scope(service.engine) as session:
        dataset = datasets.save(session, encoded, owner=OWNER, name="new", columns=columns, warnings=[])
    return again(service, model_id, dataset.id), dataset.id


def again(service, model_id, dataset_id) -> str:
    with session_scope(service.engine) as session:
        dataset = session.get_one(Dataset, dataset_id)
        prediction = predictions.create(
            session, owner=OWNER, model_id=model_id, dataset=dataset, request=REQUEST
        )
    return prediction.id


def state(service, prediction_id) -> BatchPrediction:
    with session_scope(service.engine, read_only=True) as session:
        return predictions.get(session, OWNER, prediction_id)


def blocks(service, prediction_id) -> int:
    with session_scope(service.engine, read_only=True) as session:
        return predictions.num_blocks(session, prediction_id)


def ended(service, prediction_id, seconds=120.0) -> BatchPrediction:
    service.eventually(lambda: state(service, prediction_id).finished_at is not None, seconds)
    return state(service, prediction_id)


def digest(service, prediction_id) -> str:
    """Return a digest of every stored byte of the result."""
    checksum = hashlib.sha256()
    for seq in range(blocks(service, prediction_id)):
        with session_scope(service.engine, read_only=True) as session:
            checksum.update(predictions.encode(predictions.read_block(session, prediction_id, seq)))
    return checksum.hexdigest()


def undisturbed_digest(service, model_id, dataset_id) -> str:
    """Return the digest of the same predictions made in this process."""
    prediction = again(service, model_id, dataset_id)
    environment = service.environment
    settings = Settings(database_url=environment["BARTSERVE_DATABASE_URL"], redis_url=None)
    context = Context(settings, "tests")
    while run_one(context):
        pass
    context.close()
    assert state(service, prediction).state == "succeeded"
    return digest(service, prediction)


@pytest.mark.slow
def test_a_killed_worker_costs_time_only(service, model_id):
    """After SIGKILL of the worker in mid-block the next one completes equal bytes."""
    prediction, dataset_id = accept(service, model_id)
    first = service.start_worker()
    service.eventually(lambda: blocks(service, prediction) >= 2)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert blocks(service, prediction) < NUM_ROWS // BLOCK_ROWS
    assert state(service, prediction).state == "running"
    second = service.start_worker()
    done = ended(service, prediction)

    assert (done.state, done.error) == ("succeeded", None)
    assert blocks(service, prediction) == NUM_ROWS // BLOCK_ROWS
    second.send_signal(signal.SIGTERM)
    assert second.wait(15) == 0
    assert undisturbed_digest(service, model_id, dataset_id) == digest(service, prediction)


@pytest.mark.slow
def test_a_stopped_worker_gives_its_blocks_back(service, model_id):
    """On SIGTERM a worker releases its blocks within seconds, and none is made twice."""
    prediction, _ = accept(service, model_id)
    worker = service.start_worker()
    service.eventually(lambda: blocks(service, prediction) >= 1)
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(15) == 0
    with session_scope(service.engine, read_only=True) as session:
        units = session.query(Unit).where(Unit.prediction_id == prediction).all()
    assert {unit.state for unit in units} <= {"queued", "done"}
    service.start_worker()
    assert ended(service, prediction).state == "succeeded"


@pytest.mark.slow
def test_a_cancel_is_heard(service, model_id):
    """A cancel takes effect within seconds in mid-block, and no further block is stored."""
    prediction, dataset_id = accept(service, model_id)
    service.start_worker()
    service.eventually(lambda: blocks(service, prediction) >= 1)
    with session_scope(service.engine) as session:
        predictions.cancel(session, OWNER, prediction)

    assert ended(service, prediction, 10).state == "cancelled"
    kept = blocks(service, prediction)
    following = again(service, model_id, dataset_id)
    assert ended(service, following).state == "succeeded"
    assert blocks(service, prediction) == kept < NUM_ROWS // BLOCK_ROWS


@pytest.mark.slow
def test_a_block_that_kills_its_workers_ends_as_failed(service, model_id):
    """A block lost three times without progress fails the prediction; the model stays."""
    prediction, _ = accept(service, model_id)
    from app.store.queue import lifecycle

    with session_scope(service.engine) as session:
        workers.register(session, Worker(id="w", host="h", pid=1, slots=1, beat_at=0, phase="ready"))
    for _ in range(lifecycle.MAX_STALLED):
        with session_scope(service.engine) as session:
            claim = claims.claim(session, "w", 60)
            assert (claim.prediction_id, claim.ordinal) == (prediction, 0)
            session.query(Unit).where(Unit.id == claim.unit_id).update({"lease_until": 0.0})
    with session_scope(service.engine) as session:
        assert lifecycle.sweep(session) == 1

    failed = state(service, prediction)
    assert (failed.state, failed.error["type"]) == ("failed", "worker_lost")
    assert service.model(model_id).state == "succeeded"
