"""Background predictions: queries, cancelling, deleting, and their blocks. State goes through `units`."""

import pyarrow as pa
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from app.store import datasets, deletion, models
from app.store.column_codec import checksum
from app.store.datasets import BLOCK_ROWS
from app.store.engine import binary_results
from app.store.errors import CorruptBlockError
from app.store.queue import lifecycle, prediction_lifecycle
from app.store.statements import After, page, rows_changed
from app.store.tables import (
    OPEN_STATES,
    PREDICTION,
    QUEUED,
    BatchPrediction,
    Dataset,
    Json,
    PredictionBlock,
    Unit,
    new_id,
)

_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


def create(
    session: Session, *, owner: str, model_id: str, dataset: Dataset, request: Json
) -> BatchPrediction:
    """Accept predictions of a dataset: the row, and a unit of work per block of 65,536 rows.

    Raises
    ------
    DatasetGoneError, ModelGoneError
        The owner has no such dataset or model any more.
    """
    datasets.hold(session, owner, dataset.id)
    models.hold(session, owner, model_id)
    made = BatchPrediction(
        id=new_id("prd"),
        owner=owner,
        model_id=model_id,
        dataset_id=dataset.id,
        num_rows=dataset.num_rows,
        request=request,
        state=QUEUED,
    )
    session.add(made)
    session.flush()  # the units refer to the row
    for block, first in enumerate(range(0, dataset.num_rows, BLOCK_ROWS)):
        rows = min(BLOCK_ROWS, dataset.num_rows - first)
        session.add(lifecycle.new_unit(model_id, PREDICTION, block, rows, made.id))
    session.flush()  # fail here, not at the edge
    return made


def get(session: Session, owner: str, prediction_id: str) -> BatchPrediction | None:
    """The prediction of that id, if it is the owner's."""
    mine = select(BatchPrediction).where(BatchPrediction.id == prediction_id, BatchPrediction.owner == owner)
    return session.scalar(mine)


def list_page(session: Session, owner: str, limit: int, after: After | None = None) -> list[BatchPrediction]:
    """The owner's predictions, newest first."""
    mine = select(BatchPrediction).where(BatchPrediction.owner == owner)
    return list(session.scalars(page(mine, BatchPrediction, limit, after)))


def rows_done(session: Session, prediction_id: str) -> int:
    """Rows predicted so far, those of blocks under way too."""
    done = select(func.sum(Unit.iteration)).where(
        Unit.prediction_id == prediction_id, Unit.phase.is_distinct_from("compiling")
    )
    return int(session.scalar(done) or 0)


def cancel(session: Session, owner: str, prediction_id: str) -> BatchPrediction | None:
    """Ask an open prediction to stop; one that has ended stays as it is. None when the owner has none."""
    if get(session, owner, prediction_id) is None:
        return None
    prediction_lifecycle.lock_all(session, prediction_id)
    table = BatchPrediction
    wish = update(table).where(table.id == prediction_id, table.state.in_(OPEN_STATES))
    if rows_changed(session, wish.values(cancel_requested=True)):
        prediction_lifecycle.cancel_queued(session, prediction_id)
        prediction_lifecycle.settle(session, prediction_id)
    session.expire_all()  # the updates went past the session's copies
    return get(session, owner, prediction_id)


def delete(session: Session, owner: str, prediction_id: str) -> bool:
    """Delete a prediction with its blocks; its running units find their lease gone. False for none."""
    if get(session, owner, prediction_id) is None:
        return False
    prediction_lifecycle.lock_all(session, prediction_id)
    deleted = deletion.give_up_prediction(session, prediction_id)
    session.expire_all()  # the updates went past the session's copies
    return deleted


def encode(table: pa.Table) -> bytes:
    """A block as it is stored; made outside any transaction."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def write_block(session: Session, prediction_id: str, seq: int, num_rows: int, data: bytes) -> None:
    """Store a block that `encode` made, under the fence of its unit."""
    block = PredictionBlock(
        prediction_id=prediction_id, seq=seq, num_rows=num_rows, data=data, checksum=checksum(data)
    )
    session.add(block)
    session.flush()


def num_blocks(session: Session, prediction_id: str) -> int:
    """Blocks stored."""
    query = select(func.count()).where(PredictionBlock.prediction_id == prediction_id)
    return session.scalar(query) or 0


def read_block(session: Session, prediction_id: str, seq: int) -> pa.Table | None:
    """A block's columns, None when it isn't there.

    Raises
    ------
    CorruptBlockError
        Stored bytes differ from their checksum.
    """
    table = PredictionBlock
    query = select(table.data, table.checksum).where(table.prediction_id == prediction_id, table.seq == seq)
    found = session.execute(query, execution_options=binary_results(session)).first()
    if found is None:
        return None
    if checksum(found.data) != found.checksum:
        raise CorruptBlockError(f"Prediction {prediction_id}: block {seq} is damaged.")
    return pa.ipc.open_stream(found.data).read_all()
