"""Outcomes in the store: keys, weeks, eras, the lock, deletion in batches, quotas, damage."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError

from app.store import deletion, models
from app.store.access import quotas
from app.store.engine import session_scope
from app.store.errors import CorruptBlockError, ModelGoneError
from app.store.outcomes import reports, watches
from app.store.predictions import encode
from app.store.queue.snapshot import snapshot
from app.store.tables import KnownOutcome, OutcomeReport, OutcomeWatch, OutcomeWeek, new_id
from tests.support.store_factories import OWNER, create_model, remove_all

START = datetime(2026, 3, 2, tzinfo=UTC)
TABLES = (KnownOutcome, OutcomeReport, OutcomeWeek, OutcomeWatch)


def outcome(i, key=None, week=10):
    facts = {"pit": i / 100, "score": i / 100, "log_score": -1.0, "error": None}
    marks = {"inside_50": True, "inside_90": True, "above": False}
    return {"key": key, "at": START + timedelta(hours=i), "era": 0, "week": week, **facts, **marks}


def add(engine, model_id, rows, draws=40):
    """Store a report of these rows, numbered from 0."""
    data = encode(pa.table({"y": [float(i) for i in range(len(rows))]}))
    report = reports.new_report(new_id("out"), model_id, len(rows), draws, data)
    with session_scope(engine) as session:
        reports.add(session, report, list(enumerate(rows)))
    return report.id


def counts(engine):
    with session_scope(engine, read_only=True) as session:
        return [session.scalar(select(func.count()).select_from(table)) for table in TABLES]


def test_keys_are_unique_per_model(database):
    """A key names one outcome of a model; rows without a key, and other models, are free."""
    first, second = (create_model(database.engine, num_chains=1).id for _ in range(2))
    add(database.engine, first, [outcome(1, "a"), outcome(2), outcome(3)])
    add(database.engine, second, [outcome(1, "a")])
    with pytest.raises(IntegrityError):
        add(database.engine, first, [outcome(1, "a")])
    with session_scope(database.engine) as session:
        assert {*reports.keyed(session, first, ["a", "b"])} == {"a"}
        reports.remove(session, first, ["a"])
    add(database.engine, first, [outcome(4, "a")])
    assert counts(database.engine)[0] == 4


def test_values_of_present_rows_come_back(database):
    """Tables have the rows that weren't replaced, the oldest report first, from a week on if asked."""
    model_id = create_model(database.engine, num_chains=1).id
    add(database.engine, model_id, [outcome(1, "a"), outcome(2, "b", week=11), outcome(3)])
    with session_scope(database.engine) as session:
        reports.remove(session, model_id, ["a"])
    add(database.engine, model_id, [outcome(4, "a", week=12)])
    with session_scope(database.engine, read_only=True) as session:
        values = [table.column("y").to_pylist() for table in reports.tables(session, model_id)]
        late = [table.column("y").to_pylist() for table in reports.tables(session, model_id, 11)]
    assert (values, late) == ([[1.0, 2.0], [0.0]], [[1.0], [0.0]])
    with session_scope(database.engine) as session:
        session.execute(update(OutcomeReport).values(data=b"rubbish"))
    with pytest.raises(CorruptBlockError), session_scope(database.engine, read_only=True) as session:
        list(reports.tables(session, model_id))


def test_scores_are_the_newest_of_these_draws(database):
    """Scores by other numbers of draws, and of earlier weeks, are left out; at most so many, the newest."""
    model_id = create_model(database.engine, num_chains=1).id
    add(database.engine, model_id, [outcome(i, week=i) for i in range(5)])
    add(database.engine, model_id, [outcome(50)], draws=20)
    with session_scope(database.engine, read_only=True) as session:
        scores = reports.newest_scores(session, model_id, 40, 1, 3)
    assert scores.scores == [0.04, 0.03, 0.02]
    assert (scores.first, scores.last) == (START + timedelta(hours=2), START + timedelta(hours=4))


def test_the_watch_has_eras_and_verdicts(database):
    """Weeks are kept by era; an alarm begins once, ends with a new era, and is counted by verdict."""
    model_id = create_model(database.engine, num_chains=1).id
    with session_scope(database.engine) as session:
        assert watches.lock(session, OWNER, model_id) is None
        watch = watches.begin(session, model_id, 10, "too_few")
        watches.save_weeks(session, model_id, 0, {10: {"rows": 1}, 11: {"rows": 2}})
        watches.save_weeks(session, model_id, 0, {11: {"rows": 3}})
        assert watches.judge(session, watch, "no_longer_hold", alarm=True)
        began = watch.alerted_at
        assert not watches.judge(session, watch, "no_longer_hold", alarm=True)
        assert watch.alerted_at == began
    with session_scope(database.engine) as session:
        assert snapshot(session).watches == {"no_longer_hold": 1}
        assert watches.weeks(session, model_id) == {0: {10: {"rows": 1}, 11: {"rows": 3}}}
        watch = watches.lock(session, OWNER, model_id)
        watches.begin_era(session, model_id)
        assert (watch.era, watch.alerted_at, watch.verdict) == (1, None, "too_few")
    with pytest.raises(ModelGoneError), session_scope(database.engine) as session:
        watches.lock(session, "another", model_id)
    with session_scope(database.engine) as session:
        models.delete(session, OWNER, model_id)
    with session_scope(database.engine) as session:
        assert snapshot(session).watches == {}
        with pytest.raises(ModelGoneError):
            watches.lock(session, OWNER, model_id)


def test_outcomes_go_with_their_model(database):
    """They count as stored bytes, and are removed in bounded batches after the model, or on request."""
    engine = database.engine
    kept, emptied = (create_model(engine, num_chains=1) for _ in range(2))
    dataset, kept, emptied = kept.dataset_id, kept.id, emptied.id
    many = deletion.BATCH_ROWS * deletion.SMALL_ROWS + 10
    empty = _stored(engine)
    add(engine, kept, [outcome(1)])
    one = _stored(engine) - empty
    assert one > quotas.OUTCOME_BYTES
    before = counts(engine)
    gone = create_model(engine, dataset, num_chains=1).id
    add(engine, gone, [outcome(i, str(i)) for i in range(many)])
    with session_scope(engine) as session:
        watches.begin(session, gone, 10, "holds")
        watches.save_weeks(session, gone, 0, {10: {}})
    add(engine, emptied, [outcome(1), outcome(2)])
    with session_scope(engine) as session:
        assert reports.delete_all(session, emptied) == 2
        assert models.delete(session, OWNER, gone)
    assert _stored(engine) == empty + one
    with session_scope(engine) as session:
        assert deletion.delete_next_batch(session)
    assert 1 < counts(engine)[0] < many  # the batch was bounded
    remove_all(engine)
    assert counts(engine) == before


def _stored(engine):
    with session_scope(engine, read_only=True) as session:
        return quotas.stored_bytes(session, OWNER)
