"""Deleted objects disappear at once; their rows are removed in batches, resumed after a crash."""

import pytest
from sqlalchemy import func, select

from app.store import datasets, deletion, draws, events, models, predictions, studies
from app.store.access import quotas
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError, LeaseLostError, ModelGoneError
from app.store.queue import claims, units
from app.store.queue.snapshot import snapshot
from app.store.tables import (
    BatchPrediction,
    Dataset,
    DatasetBlock,
    DrawBlock,
    Model,
    ModelEvent,
    PredictionBlock,
    Study,
    Unit,
)
from tests.support.processes.dying_processes import die_at_commit, in_a_child
from tests.support.store_factories import OWNER, a_slice, claim, create_model, remove_all, save_dataset

ALL = (Dataset, DatasetBlock, Model, DrawBlock, Unit, ModelEvent, BatchPrediction, PredictionBlock, Study)
BLOCKS = 50  # of draws in each chain
PREDICTED = 40  # blocks of predictions


def fill(engine):
    """Create a running model with many blocks of draws, a prediction with many blocks, and a study."""
    dataset = save_dataset(engine)
    model = create_model(engine, dataset.id, num_chains=2)
    blocks = [draws.StoredBlock(seq, seq * 5, 5, b"packed draws %d" % seq) for seq in range(BLOCKS)]
    for _ in range(2):
        claimed = claim(engine)
        with session_scope(engine) as session:
            units.commit_slice(session, claimed, a_slice(num_draws=5 * BLOCKS, blocks=blocks))
    with session_scope(engine) as session:
        prediction = predictions.create(session, owner=OWNER, model_id=model.id, dataset=dataset, request={})
        for seq in range(PREDICTED):
            predictions.write_block(session, prediction.id, seq, 1, b"figures")
        study = studies.create(
            session, owner=OWNER, model_id=model.id, kind="selection", request={}, fits=[1]
        )
    assert claim(engine).prediction_id == prediction.id
    assert claim(engine).study_id == study.id  # all units are in work
    return dataset.id, model.id, prediction.id


def rows(engine):
    with session_scope(engine, read_only=True) as session:
        return {
            table.__tablename__: session.scalar(select(func.count()).select_from(table)) or 0 for table in ALL
        }


def stored(engine):
    with session_scope(engine, read_only=True) as session:
        return quotas.stored_bytes(session, OWNER)


def forget(engine, dataset_id, model_id):
    with session_scope(engine) as session:
        assert models.delete(session, OWNER, model_id)
    with session_scope(engine) as session:
        assert datasets.delete(session, OWNER, dataset_id)


def test_what_is_deleted_is_gone_at_once(database):
    """From the deleting commit on, lists, ids, quotas, figures and the worker no longer find the object."""
    engine = database.engine
    dataset_id, model_id, prediction_id = fill(engine)
    with session_scope(engine, read_only=True) as session:
        unit = models.chains(session, [model_id])[model_id][0]
    claimed = claims.Claim(unit.id, unit.token, "chain", model_id, 0, "w1", 60.0, 0, unit.created_at)
    with session_scope(engine) as session:
        units.heartbeat(session, claimed)  # still its worker's
    assert stored(engine) > 0
    before = rows(engine)
    forget(engine, dataset_id, model_id)
    with session_scope(engine, read_only=True) as session:
        assert models.get(session, OWNER, model_id) is None
        assert models.meant(session, OWNER, "m") is None
        assert predictions.get(session, OWNER, prediction_id) is None
        assert datasets.get(session, OWNER, dataset_id) is None
        lists = (models.list_page, predictions.list_page, studies.list_page, datasets.list_page)
        assert [listed(session, OWNER, 10) for listed in lists] == [[], [], [], []]
        assert snapshot(session).models == {}
        assert claims.count_claimable(session, 10) == 0
        with pytest.raises(ModelGoneError):
            draws.read(session, model_id)
    assert stored(engine) == 0
    assert rows(engine) == before  # the request itself removed no row of it
    with session_scope(engine) as session:
        assert not models.delete(session, OWNER, model_id)
        assert not datasets.delete(session, OWNER, dataset_id)
    with pytest.raises(LeaseLostError), session_scope(engine) as session:
        units.heartbeat(session, claimed)


def test_no_transaction_removes_much(database):
    """Rows are removed in bounded batches to the last; other objects keep theirs."""
    engine = database.engine
    kept = fill(engine)
    others = rows(engine)
    dataset_id, model_id, _ = fill(engine)
    forget(engine, dataset_id, model_id)
    before = rows(engine)
    while True:
        with session_scope(engine) as session:
            if not deletion.delete_next_batch(session):
                break
        after = rows(engine)
        removed = sum(before.values()) - sum(after.values())
        assert 0 < removed <= deletion.BATCH_ROWS + 1  # and the object's own row
        before = after

    assert rows(engine) == others
    with session_scope(engine, read_only=True) as session:
        assert [len(blocks) for blocks in draws.read(session, kept[1])] == [BLOCKS, BLOCKS]
        assert events.last(session, kept[1]) > 0


def test_a_deleted_prediction_leaves_its_model(database):
    """A prediction's blocks and units are removed, its model and dataset stay."""
    engine = database.engine
    dataset_id, model_id, prediction_id = fill(engine)
    with session_scope(engine) as session:
        assert predictions.delete(session, OWNER, prediction_id)
    assert remove_all(engine) > 1
    left = rows(engine)
    assert (left["predictions"], left["prediction_blocks"], left["draw_blocks"]) == (0, 0, 2 * BLOCKS)
    with session_scope(engine, read_only=True) as session:
        assert models.get(session, OWNER, model_id).state == "running"
        assert datasets.read(session, dataset_id).num_rows == 20


def test_half_removed_is_never_read(database):
    """A reader of an object deleted meanwhile gets an error, never a part of it."""
    engine = database.engine
    dataset = save_dataset(engine)
    with session_scope(engine) as session:
        datasets.delete(session, OWNER, dataset.id)
        block = DatasetBlock.__table__
        session.execute(block.delete().where(block.c.column_index == 1))
    with session_scope(engine, read_only=True) as session:
        with pytest.raises(DatasetGoneError):
            datasets.read(session, dataset.id)
        with pytest.raises(DatasetGoneError):
            datasets.head(session, dataset.id, 3)


def test_nothing_is_created_from_deleted_objects(database):
    """No model is accepted on a deleted dataset, and no prediction by a deleted model."""
    engine = database.engine
    dataset_id, model_id, _ = fill(engine)
    other = save_dataset(engine)
    forget(engine, dataset_id, model_id)
    with pytest.raises(DatasetGoneError):
        create_model(engine, dataset_id)
    with pytest.raises(ModelGoneError), session_scope(engine) as session:
        predictions.create(session, owner=OWNER, model_id=model_id, dataset=other, request={})


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.sampled(quick=2)
def test_killed_while_removing(database, when):
    """After SIGKILL at any commit of a removal the next process completes it; others' draws stay."""
    engine = database.engine
    kept = fill(engine)
    others = rows(engine)
    dataset_id, model_id, _ = fill(engine)
    forget(engine, dataset_id, model_id)
    kills = 0
    while True:
        engine.dispose()  # before forking

        def victim():
            die_at_commit(when, 2)
            remove_all(engine)

        if in_a_child(victim) == 0:
            break
        kills += 1

    assert kills > (1 if when == "after" else 4)
    assert rows(engine) == others
    with session_scope(engine, read_only=True) as session:
        assert [len(blocks) for blocks in draws.read(session, kept[1])] == [BLOCKS, BLOCKS]
