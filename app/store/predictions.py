"""Background predictions: queries, cancellation, deletion and their blocks.

Their state changes through `app.store.queue`.
"""

from collections.abc import Collection, Sequence

import pyarrow as pa
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.store import datasets, models
from app.store.column_codec import checksum
from app.store.datasets import BLOCK_ROWS
from app.store.engine import binary_results
from app.store.errors import CorruptBlockError
from app.store.queue import lifecycle
from app.store.queue.jobs import PREDICTIONS
from app.store.tables import (
    PREDICTION,
    QUEUED,
    TOTALS,
    BatchPrediction,
    Dataset,
    Json,
    PredictionBlock,
    new_id,
)

get, list_page, rows_done = PREDICTIONS.get, PREDICTIONS.list_page, PREDICTIONS.done
cancel, delete = PREDICTIONS.cancel, PREDICTIONS.delete

AS_TEXT = "as_text"  # in a prediction's request: columns of the dataset of which the text of its file is read
AGGREGATE = "aggregate"  # in a prediction's request: figures of sets of rows, in place of predictions of each
FORECAST = "forecast"  # in a prediction's request: later steps of series, in place of predictions of rows
SUMS = "sums"  # in a request of a forecast: steps and sets of totals, in place of single steps
GROUP = "group"  # in a request of a forecast of a set's group: the values that tell its rows, by column
COLUMNS = "columns"  # of the dataset that these figures take
UNITS = "units"  # in a prediction's request: rows of each, and how many are of one block
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


def create(
    session: Session,
    *,
    owner: str,
    model_id: str,
    dataset: Dataset | None,
    request: Json,
    unit_rows: int | None = None,
    num_rows: int | None = None,
) -> BatchPrediction:
    """Store a new background prediction: its row and its units of work.

    Parameters
    ----------
    unit_rows
        Rows of each unit, of a dataset a divisor of its block of 65,536 rows; None: such a block.
    num_rows
        Rows of the result; None: as the dataset has.

    Raises
    ------
    DatasetGoneError, ModelGoneError
        The owner no longer has this dataset or model.
    """
    if dataset is not None:
        datasets.hold(session, owner, dataset.id)
        num_rows = num_rows or dataset.num_rows
    models.hold(session, owner, model_id)
    count, rows = num_rows or 0, unit_rows or BLOCK_ROWS
    prediction = BatchPrediction(
        id=new_id("prd"),
        owner=owner,
        model_id=model_id,
        dataset_id=None if dataset is None else dataset.id,
        num_rows=count,
        request=request | {UNITS: [rows, BLOCK_ROWS // rows]},
        state=QUEUED,
    )
    session.add(prediction)
    session.flush()  # the units refer to the row
    kind = TOTALS if AGGREGATE in request else PREDICTION
    for number, first in enumerate(range(0, count, rows)):
        of_unit = min(rows, count - first)
        session.add(lifecycle.new_unit(owner, model_id, kind, number, of_unit, prediction_id=prediction.id))
    session.flush()  # fail here rather than at the commit
    return prediction


def read_rows(
    session: Session,
    prediction: BatchPrediction,
    columns: Sequence[str],
    number: int,
    exact: Collection[str] = (),
) -> tuple[pa.Table, int]:
    """Read the rows of a unit, and count those of the dataset before them; raises as `datasets.read`.

    They are part of one block, or all of it where the prediction doesn't give the size of its units. Columns
    in `exact` are text, as `datasets.read_block` reads them.
    """
    assert prediction.dataset_id is not None
    rows, of_block = prediction.request.get(UNITS, (BLOCK_ROWS, 1))
    block, part = divmod(number, of_block)
    table = datasets.read_block(session, prediction.dataset_id, columns, block, exact)
    return table.slice(part * rows, rows), number * rows


def encode(table: pa.Table) -> bytes:
    """Encode a block for storage; done outside any transaction."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def write_block(session: Session, prediction_id: str, seq: int, num_rows: int, data: bytes) -> None:
    """Store an encoded block in the transaction that checks the unit's fencing token."""
    block = PredictionBlock(
        prediction_id=prediction_id, seq=seq, num_rows=num_rows, data=data, checksum=checksum(data)
    )
    session.add(block)
    session.flush()


def num_blocks(session: Session, prediction_id: str) -> int:
    """Return the number of stored blocks."""
    query = select(func.count()).where(PredictionBlock.prediction_id == prediction_id)
    return session.scalar(query) or 0


def read_block(session: Session, prediction_id: str, seq: int) -> pa.Table | None:
    """Return a block's columns, or None when it doesn't exist.

    Raises
    ------
    CorruptBlockError
        Stored bytes differ from their checksum.
    """
    table = PredictionBlock
    query = select(table.data, table.checksum).where(table.prediction_id == prediction_id, table.seq == seq)
    row = session.execute(query, execution_options=binary_results(session)).first()
    if row is None:
        return None
    if checksum(row.data) != row.checksum:
        raise CorruptBlockError(f"Prediction {prediction_id}: block {seq} is damaged.")
    return pa.ipc.open_stream(row.data).read_all()
