"""Deletion in batches, so that no transaction is long, however much is deleted.

In the request's own transaction what is deleted goes to `NOBODY`: nobody sees it, it counts against no quota,
and no worker goes on with it. Its rows are removed afterwards, a batch a transaction (`some`), by the
dispatchers of the workers; after a crash they go on with what is left.

Lock order: that of `app.store.tables` to delete. Whoever removes holds the row of the prediction, model or
dataset first, but nobody else wants its units any more: they have ended, with their tokens raised.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, case, delete, exists, select, tuple_, update
from sqlalchemy import inspect as inspect_table
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.store.clock import utc_now
from app.store.statements import rows_changed
from app.store.tables import (
    CANCELLED,
    NOBODY,
    OPEN_STATES,
    BatchPrediction,
    Dataset,
    DatasetBlock,
    DrawBlock,
    Model,
    ModelEvent,
    PredictionBlock,
    Unit,
)

BATCH_ROWS = 32  # blocks mostly, of half a megabyte

Parts = Sequence[tuple[Any, InstrumentedAttribute[Any]]]  # tables, and whose column names the whole
_OF_PREDICTION: Parts = ((PredictionBlock, PredictionBlock.prediction_id), (Unit, Unit.prediction_id))
_OF_MODEL: Parts = (
    (DrawBlock, DrawBlock.model_id),
    (ModelEvent, ModelEvent.model_id),
    (Unit, Unit.model_id),
)
_OF_DATASET: Parts = ((DatasetBlock, DatasetBlock.dataset_id),)


def give_up_dataset(session: Session, dataset_id: str) -> None:
    """Delete a dataset that nothing needs any more, under a lock of its row."""
    predicted = update(BatchPrediction).where(BatchPrediction.dataset_id == dataset_id)
    rows_changed(session, predicted.values(dataset_id=None))  # their results stay
    rows_changed(session, update(Dataset).where(Dataset.id == dataset_id).values(owner=NOBODY))


def give_up_model(session: Session, model_id: str) -> bool:
    """Delete a model and the predictions by it, under a lock of all of its units; False when it has been."""
    _end_units(session, Unit.model_id == model_id)
    _give_up_predictions(session, BatchPrediction.model_id == model_id)
    gone = update(Model).where(Model.id == model_id, Model.owner != NOBODY)
    values = {"owner": NOBODY, "dataset_id": None, "state": CANCELLED, "cancel_requested": True}
    return rows_changed(session, gone.values(values)) == 1


def give_up_prediction(session: Session, prediction_id: str) -> bool:
    """Delete a prediction, under a lock of all of its units; False when it has been."""
    _end_units(session, Unit.prediction_id == prediction_id)
    return _give_up_predictions(session, BatchPrediction.id == prediction_id) == 1


def some(session: Session) -> bool:
    """Remove a batch of something deleted that nobody else is removing; False when there is nothing."""
    # A model goes after the predictions by it, which may be in another worker's hands.
    predicted = exists().where(BatchPrediction.model_id == Model.id)
    return (
        _some_of(session, BatchPrediction, _OF_PREDICTION)
        or _some_of(session, Model, _OF_MODEL, ~predicted)
        or _some_of(session, Dataset, _OF_DATASET)
    )


def _some_of(session: Session, table: Any, parts: Parts, *conditions: ColumnElement[bool]) -> bool:
    deleted = select(table.id).where(table.owner == NOBODY, *conditions)
    found = session.scalar(deleted.limit(1).with_for_update(of=table, skip_locked=True))
    if found is None:
        return False
    left = BATCH_ROWS
    for part, column in parts:
        left -= _remove(session, part, column == found, left)
        if left == 0:
            return True  # the next batch sees whether that was all
    rows_changed(session, delete(table).where(table.id == found))
    return True


def _remove(session: Session, part: Any, mine: ColumnElement[bool], most: int) -> int:
    key = inspect_table(part).primary_key
    batch = select(*key).where(mine).limit(most)
    return rows_changed(session, delete(part).where(mine, tuple_(*key).in_(batch)))


def _give_up_predictions(session: Session, which: ColumnElement[bool]) -> int:
    table = BatchPrediction
    state = case((table.state.in_(OPEN_STATES), CANCELLED), else_=table.state)
    values = {"owner": NOBODY, "dataset_id": None, "state": state, "cancel_requested": True}
    return rows_changed(session, update(table).where(which, table.owner != NOBODY).values(values))


def _end_units(session: Session, which: ColumnElement[bool]) -> None:
    """Whoever works on one has lost it."""
    open_ = update(Unit).where(which, Unit.state.in_(OPEN_STATES))
    values = {"state": CANCELLED, "token": Unit.token + 1, "lease_until": None, "updated_at": utc_now()}
    rows_changed(session, open_.values(values))
