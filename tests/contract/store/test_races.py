"""Races between threads on both databases."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, event, func, select, update
from sqlalchemy.exc import DBAPIError

from app.services import webhooks
from app.services.errors import NotFoundError
from app.store import datasets, draws, models, predictions, studies
from app.store.clock import db_now
from app.store.engine import session_scope
from app.store.errors import LeaseLostError, StoreError
from app.store.queue import restarts, units, workers
from app.store.sets import model_sets
from app.store.tables import Base, Dataset, Model, ModelEvent, Unit, Webhook, WebhookDelivery, Worker
from app.store.webhooks import outbox
from tests.support.store_factories import (
    OWNER,
    a_slice,
    claim,
    create_model,
    remove_all,
    save_dataset,
    state_of,
)
from tests.support.waiting import stretched

THREADS = 8


def together(work, count=THREADS):
    """Run `work(number)` in threads that start at once; return their results, exceptions raised."""
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_a_forecaster_is_read_with_the_models_of_its_header(database, monkeypatch):
    """An extension that ends between the header's read and that of the members' models mixes nothing."""
    model = create_model(database.engine, num_chains=1)

    def write(of):
        with session_scope(database.engine) as session:
            session.execute(update(Model).where(Model.id == model.id).values(header=of))
            draws.write(session, model.id, 0, [draws.StoredBlock(0, 0, 1, of)])

    plain, ended = draws.read, []

    def read(session, model_id):
        if not ended:
            ended.append(write(b"new"))
        return plain(session, model_id)

    write(b"old")
    monkeypatch.setattr(draws, "read", read)
    with session_scope(database.engine, read_only=True) as session:
        header, (members,) = draws.read_forecaster(session, model.id)
    assert header == members
    assert ended


def test_nothing_is_claimed_twice(database):
    """Eight threads claiming at once share forty chains, each claimed once."""
    for _ in range(10):
        create_model(database.engine)

    def take_all(number):
        units = []
        while (claimed := claim(database.engine, f"w{number}")) is not None:
            units.append(claimed.unit_id)
        return units

    unit_ids = [unit for part in together(take_all) for unit in part]
    assert 40 == len(unit_ids) == len(set(unit_ids))


def test_exactly_one_finish_unit(database):
    """Exactly one finish unit exists however the last chains of a model end together."""
    models = [create_model(database.engine, num_chains=THREADS) for _ in range(5)]
    for model in models:
        claims = [claim(database.engine) for _ in range(THREADS)]
        assert {model.id} == {each.model_id for each in claims}

        def finish(number, claims=claims):
            with session_scope(database.engine) as session:
                units.finish_chain(session, claims[number], a_slice())

        together(finish)
        finishing = claim(database.engine)
        assert ("finish", model.id) == (finishing.kind, finishing.model_id)
    with session_scope(database.engine, read_only=True) as session:
        assert len(models) == session.scalar(
            select(func.count()).select_from(Unit).where(Unit.kind == "finish")
        )


def test_one_heir_of_an_expired_lease(database):
    """One claimer gets an expired unit, and its former holder's writes all fail."""
    create_model(database.engine, num_chains=1)
    dead = claim(database.engine, "dead", lease=0.05)
    time.sleep(0.1)

    def inherit_or_come_back(number):
        if number:
            return claim(database.engine, f"w{number}")
        try:
            with session_scope(database.engine) as session:
                units.commit_slice(session, dead, a_slice())
        except LeaseLostError:
            return None
        return dead

    holders = [claimed for claimed in together(inherit_or_come_back) if claimed is not None]
    with session_scope(database.engine, read_only=True) as session:
        token = session.scalar(select(Unit.token))
    # If the former holder comes first, its slice counts and its lease, renewed, is the only one.
    assert [token] == [claimed.token for claimed in holders if claimed.token == token]
    assert len(holders) <= 2


def test_cancel_delete_and_work_at_once_do_not_deadlock(database):
    """Slices, finishes, cancels and deletes of the same models interleave without deadlock."""
    ids = [create_model(database.engine, num_chains=4) for _ in range(4)]

    def work(number):
        for turn in range(6):
            model = ids[(number + turn) % len(ids)]
            if number == 0:
                with session_scope(database.engine) as session:
                    models.cancel(session, OWNER, model.id)
            elif number == 1 and turn > 3:
                with session_scope(database.engine) as session:
                    models.delete(session, OWNER, model.id)
            elif (claimed := claim(database.engine, f"w{number}")) is not None:
                try:
                    with session_scope(database.engine) as session:
                        units.commit_slice(session, claimed, a_slice())
                    with session_scope(database.engine) as session:
                        units.finish_chain(session, claimed, a_slice())
                except LeaseLostError:
                    pass

    together(work)
    with session_scope(database.engine, read_only=True) as session:
        running = session.scalar(select(func.count()).select_from(Unit).where(Unit.state == "running"))
    assert running == 0


def test_read_then_write_loses_nothing(database):
    """Transactions that read and then write all succeed: SQLite's begin takes the write lock.

    (With a plain BEGIN two such threads lost 189 of 300 to "database is locked".)
    """
    model = create_model(database.engine, num_chains=1)

    def add(_number):
        for _ in range(25):
            with session_scope(database.engine) as session:
                query = select(Unit).where(Unit.model_id == model.id).with_for_update()
                unit = session.scalar(query)
                session.execute(update(Unit).where(Unit.id == unit.id).values(iteration=unit.iteration + 1))

    together(add, 4)
    with session_scope(database.engine, read_only=True) as session:
        assert session.scalar(select(Unit.iteration).where(Unit.model_id == model.id)) == 100


def test_readers_do_not_wait_for_a_writer(database):
    """A read succeeds while another transaction is writing."""
    model = create_model(database.engine)
    with session_scope(database.engine) as session:
        session.execute(update(Unit).values(iteration=7))
        before = time.monotonic()
        assert state_of(database.engine, model.id) == ("queued", ["queued"] * 4)
        assert time.monotonic() - before < stretched(5.0)


def test_read_only_sessions_cannot_write(database):
    """A read-only session refuses writes on either database; the next session can write."""
    create_model(database.engine)
    with pytest.raises(DBAPIError), session_scope(database.engine, read_only=True) as session:
        session.execute(update(Unit).values(iteration=7))
    for _ in range(3):
        with session_scope(database.engine) as session:
            session.execute(update(Unit).values(iteration=8))


def test_a_failing_transaction_leaves_nothing(database):
    """An exception rolls back its whole transaction."""
    with pytest.raises(RuntimeError), session_scope(database.engine) as session:  # noqa: PT012  all of it
        workers.register(session, Worker(id="w", host="h", pid=1, slots=1, beat_at=0.0, phase="ready"))
        raise RuntimeError
    with session_scope(database.engine, read_only=True) as session:
        assert workers.last_beats(session) == []


def test_the_databases_clock_goes_on_within_a_transaction(database):
    """The clock for leases is the database's, in seconds since 1970, and advances within a transaction."""
    with session_scope(database.engine) as session:
        first = session.scalar(select(db_now()))
        time.sleep(0.05)
        second = session.scalar(select(db_now()))

    assert 0.02 < second - first < 5
    assert abs(time.time() - second) < 60


def test_only_fresh_heartbeats_count(database):
    """Readiness needs a recent heartbeat of a worker that isn't draining."""
    with session_scope(database.engine) as session:
        workers.register(session, Worker(id="w", host="h", pid=1, slots=1, beat_at=0.0, phase="ready"))
    with session_scope(database.engine) as session:
        assert workers.fresh_beat(session, 5.0)
        assert workers.fresh_beat(session, 5.0, host="h")
        assert not workers.fresh_beat(session, 5.0, host="elsewhere")
        session.execute(update(Worker).values(beat_at=db_now() - 10))
        assert not workers.fresh_beat(session, 5.0)
        assert workers.beat(session, "w", "ready")
        assert workers.fresh_beat(session, 5.0)
        workers.drain(session, "w")
        assert workers.draining(session, "w")
        assert not workers.fresh_beat(session, 5.0)
        workers.forget(session, "w")
        assert not workers.beat(session, "w", "ready")


def add_webhook(engine, number=1):
    hook = Webhook(id=f"wh_{number}", owner=OWNER, url="https://example.org", events=[*outbox.EVENTS])
    hook.secret = "whsec_AAAA"
    with session_scope(engine) as session:
        session.add(hook)
    return hook.id


def predict(session, model):
    dataset = session.get(Dataset, model.dataset_id)
    return predictions.create(session, owner=OWNER, model_id=model.id, dataset=dataset, request={})


def cancelled_fit(engine):
    add_webhook(engine)
    model = create_model(engine)
    return "wh_1", lambda session: models.cancel(session, OWNER, model.id)


def failed_fit(engine):
    add_webhook(engine)
    create_model(engine)
    claimed = claim(engine)
    return "wh_1", lambda session: units.fail(session, claimed, {"type": "x", "detail": "It failed."})


def succeeded_fit(engine):
    add_webhook(engine)
    create_model(engine, num_chains=1)
    chain = claim(engine)
    with session_scope(engine) as session:
        units.finish_chain(session, chain, a_slice())
    finish = claim(engine)
    return "wh_1", lambda session: units.finish_model(
        session, finish, verdict="converged", diagnostics={}, holdout=None
    )


def ended_prediction(engine):
    add_webhook(engine)
    model = create_model(engine)
    with session_scope(engine) as session:
        made = predict(session, model)
    return "wh_1", lambda session: predictions.cancel(session, OWNER, made.id)


def failed_study(engine):
    add_webhook(engine)
    model = create_model(engine)
    with session_scope(engine) as session:
        studies.create(session, owner=OWNER, model_id=model.id, kind="tuning", request={}, fits=[1])
    with session_scope(engine) as session:
        models.cancel(session, OWNER, model.id)
    claimed = claim(engine)
    return "wh_1", lambda session: units.fail(session, claimed, {"type": "x", "detail": "It failed."})


def sent_test(engine):
    return add_webhook(engine), lambda session: webhooks.test(session, OWNER, "wh_1")


def rotated_webhook(engine):
    return add_webhook(engine), lambda session: webhooks.rotate(session, OWNER, "wh_1")


def new_prediction(engine):
    model = create_model(engine)
    return model.id, lambda session: predict(session, model)


def new_study(engine):
    model = create_model(engine)
    asked = {"owner": OWNER, "model_id": model.id, "kind": "tuning", "request": {}, "fits": [1, 1]}
    return model.id, lambda session: studies.create(session, **asked)


def retried_fit(engine):
    model = create_model(engine)
    with session_scope(engine) as session:
        models.cancel(session, OWNER, model.id)

    def retry(session):
        if (locked := restarts.locked(session, OWNER, model.id)) is not None:
            restarts.retry(session, locked)

    return model.id, retry


def new_model(engine):
    dataset = save_dataset(engine)
    asked = {"owner": OWNER, "name": "m", "dataset_id": dataset.id, "target": "y", "settings": {}}
    return dataset.id, lambda session: models.create(session, **asked, num_chains=1, iterations=1)


def new_set(engine):
    dataset = save_dataset(engine)
    asked = {"owner": OWNER, "name": "s", "dataset_id": dataset.id, "target": "y", "by": ["town"]}
    return dataset.id, lambda session: model_sets.create(
        session, **asked, request={}, settings={}, num_groups=1
    )


# What refers to a parent that was made before, and the statement at which the parent goes.
REFERRING = {
    cancelled_fit: "INSERT INTO webhook_deliveries",
    failed_fit: "INSERT INTO webhook_deliveries",
    succeeded_fit: "INSERT INTO webhook_deliveries",
    ended_prediction: "INSERT INTO webhook_deliveries",
    failed_study: "INSERT INTO webhook_deliveries",
    sent_test: "INSERT INTO webhook_deliveries",
    rotated_webhook: "UPDATE webhooks",
    new_prediction: "INSERT INTO predictions",
    new_study: "INSERT INTO studies",
    retried_fit: "INSERT INTO model_events",
    new_model: "INSERT INTO models",
    new_set: "INSERT INTO model_sets",
}
# Rows whose parent is made in the same transaction, or which are written under a lock on the parent or one of
# its units (`models.lock`, `watches.lock`, a fenced unit); keys are never deleted.
WITH_ITS_PARENT = {
    "dataset_blocks",
    "units",
    "draw_blocks",
    "prediction_blocks",
    "outcome_reports",
    "outcomes",
    "outcome_weeks",
    "outcome_watches",
    "weekly_tables",
    "drift_watches",
    "drift_weeks",
    "sessions",
}


def test_every_reference_is_made_under_a_lock_on_its_parent():
    """A new table that refers to another is named above, with what keeps the other from going."""
    referring = {table.name for table in Base.metadata.tables.values() if table.foreign_keys}
    asked = {statement.split()[-1] for statement in REFERRING.values() if statement.startswith("INSERT")}
    assert referring == asked | WITH_ITS_PARENT
    assert not asked & WITH_ITS_PARENT


@pytest.mark.parametrize("refer", REFERRING, ids=lambda refer: refer.__name__)
@pytest.mark.sampled(quick=8)
def test_a_parent_that_goes_takes_down_nothing(database, refer):
    """Whatever refers to a row waits for its deletion, or is waited for; the change itself always stands."""
    engine = database.engine
    parent, act = refer(engine)
    deletion = threading.Thread(target=lambda: remove(engine, parent))

    def at(_connection, _cursor, statement, *_):
        if statement.startswith(REFERRING[refer]) and deletion.ident is None:
            deletion.start()
            deletion.join(0.2)  # long enough, unless it has to wait for this transaction

    event.listen(Engine, "before_cursor_execute", at)
    try:
        with session_scope(engine) as session:
            act(session)
    except (StoreError, NotFoundError):
        pass  # a refusal; anything else is a fault
    finally:
        event.remove(Engine, "before_cursor_execute", at)
    assert deletion.ident is not None, "the parent was deleted in the midst"
    deletion.join()
    with session_scope(engine, read_only=True) as session:
        assert session.get(Webhook, "wh_1") is None
        assert session.scalar(select(func.count()).select_from(WebhookDelivery)) == 0


def remove(engine, parent):
    """Delete an object as a request does, then its rows as workers do."""
    with session_scope(engine) as session:
        if parent.startswith("wh_"):
            webhooks.delete(session, OWNER, parent)
        elif parent.startswith("mdl_"):
            models.delete(session, OWNER, parent)
        else:
            try:
                datasets.delete(session, OWNER, parent)
            except StoreError:
                return  # it is needed by now
    remove_all(engine)


def test_a_fault_in_the_telling_of_webhooks_leaves_the_event(database):
    """A webhook that can't be told, here by a damaged row, undoes its deliveries alone."""
    for number in (1, 2):
        add_webhook(database.engine, number)
    model = create_model(database.engine)
    with session_scope(database.engine) as session:
        session.execute(update(Webhook).where(Webhook.id == "wh_2").values(events=5))
    with session_scope(database.engine) as session:
        models.cancel(session, OWNER, model.id)
    assert state_of(database.engine, model.id) == ("cancelled", ["cancelled"] * 4)
    with session_scope(database.engine, read_only=True) as session:
        assert session.scalar(select(ModelEvent.kind).order_by(ModelEvent.sequence.desc())) == "cancelled"
        assert session.scalar(select(func.count()).select_from(WebhookDelivery)) == 0
