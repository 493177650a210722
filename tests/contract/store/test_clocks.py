"""Moments that a clock wrote which was ahead: leases, heartbeats and deadlines that mean nothing any more."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, update

from app.services.metrics import _of_workers
from app.settings import Settings
from app.store import clock, models, studies
from app.store.clock import db_now, utc_now
from app.store.engine import session_scope
from app.store.queue import claims, lifecycle, units, workers
from app.store.queue.snapshot import snapshot
from app.store.queue.units import Directive
from app.store.tables import Model, Study, Unit, Worker
from tests.support.store_factories import OWNER, a_slice, claim, create_model, state_of

AHEAD = 2 * 24 * 3600.0
SECOND = timedelta(seconds=1)  # SQLite's clock has milliseconds


def written_ahead(engine, column, row_id, seconds=AHEAD):
    """Set a moment as a clock writes it that is so many seconds ahead."""
    table = column.class_
    with session_scope(engine) as session:
        session.execute(update(table).where(table.id == row_id).values({column: db_now() + seconds}))


def test_a_lease_further_ahead_than_one_can_be_is_lost(database):
    """Its unit is claimed again, counts as no running one, and its former holder writes nothing."""
    create_model(database.engine, num_chains=2)
    held = claim(database.engine, "ahead", lease=lifecycle.LONGEST_LEASE)
    with session_scope(database.engine, read_only=True) as session:
        assert claims.count_claimable(session, 9) == 1
    written_ahead(database.engine, Unit.lease_until, held.unit_id)
    with session_scope(database.engine, read_only=True) as session:
        assert claims.count_claimable(session, 9) == 2
        assert claims._turns(session)[1].total() == 0
    heir = claim(database.engine, "heir")
    assert (heir.unit_id, heir.token, heir.recovered) == (held.unit_id, held.token + 1, True)
    with pytest.raises(units.LeaseLostError), session_scope(database.engine) as session:
        units.heartbeat(session, held)


def test_cancelling_frees_a_unit_whose_lease_is_too_far_ahead(database):
    """The sweep ends the unit, and with it the cancelled model, at once."""
    model = create_model(database.engine, num_chains=1)
    written_ahead(database.engine, Unit.lease_until, claim(database.engine).unit_id)
    with session_scope(database.engine) as session:
        models.cancel(session, OWNER, model.id)
    with session_scope(database.engine) as session:
        assert lifecycle.sweep(session) == 1
    assert state_of(database.engine, model.id) == ("cancelled", ["cancelled"])


def test_a_worker_of_a_heartbeat_ahead_is_not_alive(database):
    """It counts nowhere until its next heartbeat, and is forgotten if none comes."""
    with session_scope(database.engine) as session:
        for name in ("w1", "w2"):
            worker = Worker(id=name, host="h", pid=1, slots=2, beat_at=0.0, phase="ready", fit_memory=9)
            workers.register(session, worker)
    for ahead, alive in ((AHEAD, 0), (0.0, 2)):
        for name in ("w1", "w2"):
            written_ahead(database.engine, Worker.beat_at, name, ahead)
        with session_scope(database.engine, read_only=True) as session:
            assert workers.fresh_beat(session, 60.0) is bool(alive)
            assert workers.least_fit_memory(session, 60.0) == (9 if alive else None)
            newest, *_, slots = _of_workers(seen := snapshot(session), 60.0)
            assert slots.samples[0].value == 2 * alive
            assert newest.samples[0].value <= seen.now
    written_ahead(database.engine, Worker.beat_at, "w1")
    with session_scope(database.engine) as session:
        assert workers.beat(session, "w2", "ready")
        assert session.scalars(select(Worker.id)).all() == ["w2"]


def test_a_deadline_further_ahead_than_the_time_of_a_fit_is_set_again(database):
    """A fit with a time limit ends within it, whatever the clock was when it began."""
    model = create_model(database.engine, num_chains=1)
    with session_scope(database.engine) as session:
        stop = {"stop": {"max_seconds": 30.0}}
        session.execute(update(Model).where(Model.id == model.id).values(settings={"num_trees": 10} | stop))
    chain = claim(database.engine)
    for ahead, within, directive in (
        (AHEAD, (29.0, 30.0), Directive.CONTINUE),
        (7.0, (6.0, 7.0), Directive.CONTINUE),
        (-1.0, (-2.0, -1.0), Directive.TIME_UP),
    ):
        written_ahead(database.engine, Model.deadline, model.id, ahead)
        with session_scope(database.engine) as session:
            assert units.commit_slice(session, chain, a_slice()) is directive
            left = session.scalar(select(Model.deadline - db_now()))
        assert within[0] - 30 < left <= within[1]


def test_no_lease_may_be_longer_than_the_longest():
    """The setting refuses a lease that others would take for one of a clock that was ahead."""
    assert Settings(lease_seconds=lifecycle.LONGEST_LEASE)
    with pytest.raises(ValueError, match="lease_seconds"):
        Settings(lease_seconds=lifecycle.LONGEST_LEASE + 1)


def test_what_workers_date_is_by_the_databases_clock(database, monkeypatch):
    """Begin and end of fits and jobs, and turns, don't depend on the clock of the worker."""
    ends = (lambda s, c: units.fail(s, c, {"type": "x", "detail": "It failed."}), units.finish_part)
    model = create_model(database.engine, num_chains=1)
    with session_scope(database.engine) as session:
        asked = {"owner": OWNER, "model_id": model.id, "kind": "tuning", "request": {}, "fits": [1]}
        study = studies.create(session, **asked)

    class Wrong(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(hours=3)

    before = utc_now()
    with monkeypatch.context() as ahead:
        ahead.setattr(clock, "datetime", Wrong)
        for end, more in zip(ends, ((), (1, {})), strict=True):
            claimed = claim(database.engine)
            with session_scope(database.engine) as session:
                end(session, claimed, *more)
    with session_scope(database.engine, read_only=True) as session:
        for row in (session.get(Model, model.id), session.get(Study, study.id)):
            assert before - SECOND <= row.started_at <= row.finished_at <= utc_now() + SECOND
        served = session.scalars(select(Unit.served_at)).all()
    assert all(before - SECOND <= at <= utc_now() + SECOND for at in served)
