"""Deletion in batches, which keeps every transaction short however much is deleted.

The request's own transaction only changes the owner to `NOBODY`: the object becomes invisible, counts against
no quota, and no worker continues it. The workers' dispatchers remove its rows afterwards, one batch per
transaction (`some`); after a crash they continue with the remaining rows.

A deletion locks in the order of all (`app.store.tables.LOCK_ORDER`). The removal of rows alone locks the
prediction, study or model before its units, by id. That is safe because nobody else waits for the row of a
deleted object: writers find it by its owner or its state, and its units' tokens are raised.
"""

from collections.abc import Sequence
from math import ceil
from typing import Any

from sqlalchemy import ColumnElement, and_, case, delete, exists, select, tuple_, update
from sqlalchemy import inspect as inspect_table
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.store.clock import utc_now
from app.store.statements import lock_rows, rows_changed
from app.store.tables import (
    CANCELLED,
    NOBODY,
    OPEN_STATES,
    BatchPrediction,
    Dataset,
    DatasetBlock,
    DrawBlock,
    DriftWatch,
    DriftWeek,
    Job,
    KnownOutcome,
    Model,
    ModelEvent,
    ModelSet,
    OutcomeReport,
    OutcomeWatch,
    OutcomeWeek,
    PredictionBlock,
    Study,
    Unit,
    WeeklyTable,
)

BATCH_ROWS = 32  # mostly blocks of half a megabyte
SMALL_ROWS = 64  # outcomes that count as one block

Parts = Sequence[tuple[Any, InstrumentedAttribute[Any]]]  # tables; columns with the deleted id
_OF_PREDICTION: Parts = ((PredictionBlock, PredictionBlock.prediction_id), (Unit, Unit.prediction_id))
_OF_STUDY: Parts = ((Unit, Unit.study_id),)
_OF_MODEL: Parts = (
    (DrawBlock, DrawBlock.model_id),
    (ModelEvent, ModelEvent.model_id),
    (KnownOutcome, KnownOutcome.model_id),  # before their reports
    (OutcomeReport, OutcomeReport.model_id),
    (OutcomeWeek, OutcomeWeek.model_id),
    (OutcomeWatch, OutcomeWatch.model_id),
    (WeeklyTable, WeeklyTable.model_id),
    (DriftWeek, DriftWeek.model_id),
    (DriftWatch, DriftWatch.model_id),
    (Unit, Unit.model_id),
)
_DELETED: dict[str, Any] = {  # values of a model
    "owner": NOBODY,
    "dataset_id": None,
    "set_id": None,
    "state": CANCELLED,
    "cancel_requested": True,
}
_OF_DATASET: Parts = ((DatasetBlock, DatasetBlock.dataset_id),)


def give_up_dataset(session: Session, dataset_id: str) -> None:
    """Mark a dataset as deleted; the caller has locked it and the sets made of it, and nothing needs it."""
    sets = update(ModelSet).where(ModelSet.dataset_id == dataset_id)
    rows_changed(session, sets.values(dataset_id=None))
    mine = BatchPrediction.dataset_id == dataset_id
    lock_rows(session, BatchPrediction, mine)
    predicted = update(BatchPrediction).where(mine)
    rows_changed(session, predicted.values(dataset_id=None))  # the predictions themselves stay
    rows_changed(session, update(Dataset).where(Dataset.id == dataset_id).values(owner=NOBODY))


def mark_deleted(session: Session, model_id: str) -> bool:
    """Mark a model, its predictions and its studies as deleted; return False when it was deleted before.

    The caller holds a lock on all units of the model.
    """
    _end_units(session, Unit.model_id == model_id)
    for table in (BatchPrediction, Study):
        _give_up_jobs(session, table, table.model_id == model_id)
    gone = update(Model).where(Model.id == model_id, Model.owner != NOBODY)
    return rows_changed(session, gone.values(_DELETED)) == 1


def mark_set_deleted(session: Session, set_id: str) -> None:
    """Mark the models of a set as deleted, with their predictions and studies, and the groups' rows."""
    parts = select(Dataset.id).where(Dataset.set_id == set_id)
    models = select(Model.id).where(Model.set_id == set_id)
    lock_rows(session, Dataset, Dataset.set_id == set_id)
    lock_rows(session, Unit, Unit.model_id.in_(models))
    _end_units(session, Unit.model_id.in_(models))
    for table in (BatchPrediction, Study):
        _give_up_jobs(session, table, table.model_id.in_(models))
    others = update(BatchPrediction).where(BatchPrediction.dataset_id.in_(parts))
    rows_changed(session, others.values(dataset_id=None))
    lock_rows(session, Model, Model.set_id == set_id)
    rows_changed(session, update(Model).where(Model.set_id == set_id).values(_DELETED))
    rows_changed(session, update(Dataset).where(Dataset.set_id == set_id).values(owner=NOBODY))


def give_up_job(
    session: Session, table: type[Job], column: InstrumentedAttribute[str | None], job_id: str
) -> bool:
    """Mark a prediction or study as deleted; return False when it was deleted before.

    The caller holds a lock on all of its units, whose `column` has its id.
    """
    _end_units(session, column == job_id)
    return _give_up_jobs(session, table, table.id == job_id) == 1


def delete_next_batch(session: Session) -> bool:
    """Remove one batch of a deleted object's rows that no other process removes; False when none is left."""
    # A model goes after its predictions and studies, which another worker may be removing.
    predicted = exists().where(BatchPrediction.model_id == Model.id)
    studied = exists().where(Study.model_id == Model.id)
    return (
        _some_of(session, BatchPrediction, _OF_PREDICTION)
        or _some_of(session, Study, _OF_STUDY)
        or _some_of(session, Model, _OF_MODEL, ~predicted, ~studied)
        or _some_of(session, Dataset, _OF_DATASET)
    )


def _some_of(session: Session, table: Any, parts: Parts, *conditions: ColumnElement[bool]) -> bool:
    deleted = select(table.id).where(table.owner == NOBODY, *conditions)
    key = session.scalar(deleted.limit(1).with_for_update(of=table, skip_locked=True))
    if key is None:
        return False
    left = BATCH_ROWS
    for part, column in parts:
        left -= _remove(session, part, column == key, left)
        if left == 0:
            return True  # the next batch finds out whether that was all
    rows_changed(session, delete(table).where(table.id == key))
    return True


def _remove(session: Session, part: Any, mine: ColumnElement[bool], most: int) -> int:
    key = inspect_table(part).primary_key
    small = SMALL_ROWS if part is KnownOutcome else 1
    batch = select(*key).where(mine).limit(most * small)
    if part is Unit:  # whose rows others lock, by id, with those of the model's other jobs
        batch = batch.order_by(Unit.id).with_for_update()
    removed = rows_changed(session, delete(part).where(mine, tuple_(*key).in_(batch)))
    return ceil(removed / small)


def _give_up_jobs(session: Session, table: type[Job], which: ColumnElement[bool]) -> int:
    state = case((table.state.in_(OPEN_STATES), CANCELLED), else_=table.state)
    values = {"owner": NOBODY, "state": state, "cancel_requested": True}
    if table is BatchPrediction:
        values["dataset_id"] = None
    still = and_(which, table.owner != NOBODY)
    lock_rows(session, table, still)
    return rows_changed(session, update(table).where(still).values(values))


def _end_units(session: Session, which: ColumnElement[bool]) -> None:
    """Cancel open units and raise their tokens, so that workers lose their leases."""
    open_ = update(Unit).where(which, Unit.state.in_(OPEN_STATES))
    values = {"state": CANCELLED, "token": Unit.token + 1, "lease_until": None, "updated_at": utc_now()}
    rows_changed(session, open_.values(values))
