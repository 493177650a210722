"""One order of locks: the watch over every test of the service (`lock_order`), and races of two clients."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, text, update

from app.services.access import quotas
from app.store import datasets, deletion, models
from app.store.engine import session_scope
from app.store.statements import lock_rows
from app.store.tables import NOBODY, BatchPrediction, Model, Unit
from tests.support.api_calls import bearer, make_key, post_csv, table
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, run_units
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving
from tests.support.store_factories import OWNER, create_model
from tests.support.waiting import eventually

LATE = {
    "quota after a model": (
        lambda s, m: models.hold(s, OWNER, m.id),
        lambda s, m: quotas.check_queued(s, OWNER),
    ),
    "units after a model": (
        lambda s, m: s.execute(update(Model).where(Model.id == m.id).values(name="b")),
        lambda s, m: lock_rows(s, Unit, Unit.model_id == m.id),
    ),
    "a dataset after its units": (
        lambda s, m: s.execute(update(Unit).values(iteration=1)),
        lambda s, m: datasets.hold(s, OWNER, m.dataset_id),
    ),
    "a prediction after a model": (
        lambda s, m: s.scalars(select(Model).with_for_update()).all(),
        lambda s, m: s.execute(update(BatchPrediction).values(state="failed")),
    ),
}


@pytest.mark.parametrize("case", LATE)
def test_a_lock_taken_too_late_is_seen(database, lock_order, case):
    """The watch, under which all tests of API, pages and store run, sees each lock in another order."""
    model = create_model(database.engine)
    for locks in (LATE[case], LATE[case][::-1]):
        with session_scope(database.engine) as session:
            for lock in locks:
                lock(session, model)
    assert len(lock_order.faults) == 1
    lock_order.faults.clear()


@only("postgres")
def test_a_removal_and_a_cancellation_lock_units_by_id(database):
    """A removal of a prediction's units and who locks all units of the model don't wait for each other."""
    model = create_model(database.engine, num_chains=1)
    with session_scope(database.engine) as session:
        prediction = BatchPrediction(
            id="prd_1", owner=NOBODY, model_id=model.id, num_rows=3, request={}, state="cancelled"
        )
        session.add(prediction)
        session.flush()
        for number, id_ in enumerate("cba"):  # stored in another order than that of their ids
            unit = {"kind": "prediction", "ordinal": number, "iterations": 1, "prediction_id": "prd_1"}
            session.add(Unit(id=id_, model_id=model.id, state="cancelled", **unit))
            session.flush()

    def remove():
        with session_scope(database.engine) as session:
            assert deletion.delete_next_batch(session)

    def cancel():
        with session_scope(database.engine) as session:
            models.cancel(session, OWNER, model.id)

    with ThreadPoolExecutor(2) as pool:
        with session_scope(database.engine) as session:
            lock_rows(session, Unit, Unit.id == "b")
            ends = []
            for work in (remove, cancel):
                ends.append(pool.submit(work))
                eventually(lambda: waiting(database.engine) == len(ends), 20)
        for end in ends:
            end.result()


def waiting(engine):
    """Return the number of transactions that wait for a lock."""
    query = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    with session_scope(engine, read_only=True) as session:
        return session.scalar(query)


@pytest.mark.slow
@only("postgres")
def test_clients_of_one_owner_never_wait_for_each_other(settings, database):
    """Reports, predictions, studies and extensions of one model at once are all accepted, under quotas."""
    limits = {"host": "0.0.0.0", "quota_stored_bytes": 1 << 30, "quota_queued": 10_000}
    changed = settings.model_copy(update=limits)
    key = bearer(make_key(database, "ann"))
    with serving(changed) as address, plain_http.Client(base_url=address, timeout=120, headers=key) as ann:
        dataset = post_csv(ann, table(60)).json()["id"]
        fit = {"dataset_id": dataset, "target": "y"} | SMALL
        model, other = (ann.post("/models", json=fit).json()["id"] for _ in range(2))
        run_units(changed)
        rows = [{"size": 3, "colour": "red", "y": 4.0}, {"size": 9, "colour": "blue", "y": 4.5}]
        requests = [
            (f"/models/{model}/outcomes", {"rows": rows}),
            (f"/models/{model}/predictions", {"dataset_id": dataset}),
            (f"/models/{model}/outcomes", {"rows": rows[::-1]}),
            (f"/models/{model}/studies", {"permutations": 20}),
            (f"/models/{model}/predictions", {"dataset_id": dataset}),
            (f"/models/{other}/extend", {"num_draws": 5}),
        ]

        def repeat(request):
            path, body = request
            with plain_http.Client(base_url=address, timeout=120, headers=key) as client:
                return [client.post(path, json=body) for _ in range(1 if "extend" in path else 12)]

        with ThreadPoolExecutor(len(requests)) as pool:
            responses = [each for part in pool.map(repeat, requests) for each in part]
    refused = [response.text for response in responses if response.status_code not in {201, 202}]
    assert refused == []
