"""Datasets: tables stored as checksummed blocks of single columns, so that a fit reads only what it uses."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from sqlalchemy import insert, select
from sqlalchemy.orm import Session, undefer

from app.store import column_codec as blocks
from app.store import deletion
from app.store.column_codec import Spelling, restored
from app.store.engine import binary_results
from app.store.errors import CorruptBlockError, DatasetGoneError, StillNeededError
from app.store.statements import After, lock_rows, page
from app.store.tables import (
    OPEN_STATES,
    BatchPrediction,
    Dataset,
    DatasetBlock,
    Json,
    Model,
    ModelSet,
    new_id,
)

BLOCK_ROWS = blocks.BLOCK_ROWS
_NAMED = 10  # models named in an error message
_BATCH_BYTES = 4 << 20  # block bytes sent to the database in one statement


class ColumnBlock(NamedTuple):
    """A block of rows of one column, encoded."""

    column: int
    seq: int
    data: bytes
    checksum: str


@dataclass(frozen=True)
class Encoded:
    """A table ready to be stored; encoded outside any transaction, because compression takes time."""

    names: list[str]
    num_rows: int
    blocks: Iterable[ColumnBlock]
    num_bytes: int
    sha256: str
    spellings: Json | None = None  # of columns whose blocks of kept cells come after those of the columns


def encode(table: pa.Table) -> Encoded:
    """Encode a table as compressed blocks.

    Parameters
    ----------
    table
        Columns of float64, bool, string or timestamp; other widths of those, and dictionaries of strings,
        are converted.

    Raises
    ------
    TypeError
        A column has another type.
    """
    encoded: list[ColumnBlock] = []
    for index, name in enumerate(table.column_names):
        cut = blocks.cut(blocks.storable(name, table.column(index)), BLOCK_ROWS)
        encoded += [ColumnBlock(index, seq, data, blocks.checksum(data)) for seq, data in enumerate(cut)]
    size = sum(len(block.data) for block in encoded)
    names = list(table.column_names)
    return Encoded(
        names, table.num_rows, encoded, size, blocks.digest(names, [block.checksum for block in encoded])
    )


def save(
    session: Session,
    encoded: Encoded,
    *,
    owner: str,
    name: str,
    columns: list[Json],
    warnings: list[str],
    profiles: list[Json] | None = None,
    read_as: Json | None = None,
) -> Dataset:
    """Store an encoded table and return its row.

    `columns` is the schema as the API shows it: a dict per column, in order, with its `name`. `profiles`
    holds longer column summaries, which are read only on request. Raises ValueError if the schema does not
    list the table's columns in their order.
    """
    if [column["name"] for column in columns] != encoded.names:
        raise ValueError("the schema must describe the table's columns, in their order")
    dataset = Dataset(
        id=new_id("ds"),
        owner=owner,
        name=name,
        num_rows=encoded.num_rows,
        columns=columns,
        profiles=profiles,
        read_as=read_as,
        warnings=warnings,
        num_bytes=encoded.num_bytes,
        sha256=encoded.sha256,
        spellings=encoded.spellings,
    )
    session.add(dataset)
    session.flush()  # the blocks refer to the row
    for batch in _batches(encoded.blocks):
        session.execute(insert(DatasetBlock), [_row(dataset.id, block) for block in batch])
    return dataset


def read(
    session: Session,
    dataset_id: str,
    columns: Sequence[str] | None = None,
    exact: Collection[str] = (),
) -> pa.Table:
    """Return the table, or only the given columns in the given order; those in `exact` as `read_block` does.

    Raises
    ------
    KeyError
        The dataset or a column does not exist.
    CorruptBlockError
        Stored bytes differ from their checksum.
    DatasetGoneError
        The dataset was deleted during the read.
    """
    return _read(session, dataset_id, columns, exact=exact)


def read_block(
    session: Session, dataset_id: str, columns: Sequence[str], seq: int, exact: Collection[str] = ()
) -> pa.Table:
    """Return one block of the given columns, up to `BLOCK_ROWS` rows from `seq * BLOCK_ROWS`.

    Those in `exact` are text, as it was in the file, empty for missing values without a spelling; where the
    dataset has no spellings, as their values are usually spelled. Raises as `read`.
    """
    return _read(session, dataset_id, columns, only=seq, exact=exact)


def head(session: Session, dataset_id: str, num_rows: int) -> pa.Table:
    """Return the first rows (at most 65,536) of every column; raises as `read`."""
    return _read(session, dataset_id, None, only=0).slice(0, num_rows)


def get(session: Session, owner: str, dataset_id: str, *, profiles: bool = False) -> Dataset | None:
    """Return the owner's dataset with this id, or None; loads `profiles` only on request."""
    query = select(Dataset).where(Dataset.id == dataset_id, Dataset.owner == owner)
    return session.scalar(query.options(undefer(Dataset.profiles)) if profiles else query)


def list_page(session: Session, owner: str, limit: int, after: After | None = None) -> list[Dataset]:
    """Return a page of the owner's datasets but the parts of sets of models, newest first.

    `after` is (created_at, id) of the last dataset of the previous page.
    """
    mine = select(Dataset).where(Dataset.owner == owner, Dataset.set_id.is_(None))
    return list(session.scalars(page(mine, Dataset, limit, after)))


def delete(session: Session, owner: str, dataset_id: str) -> bool:
    """Delete a dataset; return False when the owner has none with this id.

    Raises
    ------
    StillNeededError
        A model was or is being fitted to it, a set of models is made of it, or predictions of its rows are
        running.
    """
    lock_rows(session, ModelSet, ModelSet.dataset_id == dataset_id)
    # The lock keeps models from being created on the dataset meanwhile (`hold`).
    mine = select(Dataset.id).where(Dataset.id == dataset_id, Dataset.owner == owner).with_for_update()
    if session.scalar(mine) is None:
        return False
    needing = select(Model.id).where(Model.dataset_id == dataset_id).order_by(Model.created_at).limit(_NAMED)
    if model_ids := list(session.scalars(needing)):
        raise StillNeededError(dataset_id, model_ids)
    table = BatchPrediction
    open_ = select(table.id).where(table.dataset_id == dataset_id, table.state.in_(OPEN_STATES))
    if ids := list(session.scalars(open_.order_by(table.created_at).limit(_NAMED))):
        raise StillNeededError(dataset_id, ids, "let those predictions end, or cancel them, first")
    unmade = select(ModelSet.id).where(ModelSet.dataset_id == dataset_id, ModelSet.made < ModelSet.num_groups)
    if ids := list(session.scalars(unmade.order_by(ModelSet.created_at).limit(_NAMED))):
        raise StillNeededError(dataset_id, ids, "let all models of the set be made, or delete it, first")
    deletion.give_up_dataset(session, dataset_id)
    session.expire_all()  # the update bypassed the session's copies
    return True


def hold(session: Session, owner: str, dataset_id: str) -> None:
    """Keep a dataset from being deleted until this transaction ends.

    Raises
    ------
    DatasetGoneError
        The owner has no dataset with this id, or no longer.
    """
    query = select(Dataset.id).where(Dataset.id == dataset_id, Dataset.owner == owner)
    if session.scalar(query.with_for_update(read=True)) is None:
        raise DatasetGoneError(f"Dataset {dataset_id} was deleted.")


def _batches(blocks: Iterable[ColumnBlock]) -> Iterator[list[ColumnBlock]]:
    """Yield lists of blocks small enough that the whole table is never in memory."""
    batch: list[ColumnBlock] = []
    size = 0
    for block in blocks:
        batch.append(block)
        size += len(block.data)
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _row(dataset_id: str, block: ColumnBlock) -> Json:
    return {
        "dataset_id": dataset_id,
        "column_index": block.column,
        "seq": block.seq,
        "data": block.data,
        "checksum": block.checksum,
    }


def _read(
    session: Session,
    dataset_id: str,
    columns: Sequence[str] | None,
    only: int | None = None,
    exact: Collection[str] = (),
) -> pa.Table:
    dataset = session.get(Dataset, dataset_id)
    if dataset is None:
        raise KeyError(f"there is no dataset {dataset_id}")
    index = {column["name"]: number for number, column in enumerate(dataset.columns)}
    names = list(index) if columns is None else list(columns)
    if unknown := [name for name in names if name not in index]:
        raise KeyError(f"dataset {dataset_id} has no column {unknown[0]!r}")
    spellings = {name: Spelling(**(dataset.spellings or {}).get(name, {})) for name in names if name in exact}
    kept = {name: each.place for name, each in spellings.items() if each.place is not None}
    parts: dict[int, list[pa.Array]] = {
        place: [] for place in (*(index[name] for name in names), *kept.values())
    }
    block = DatasetBlock
    query = (
        select(block.column_index, block.seq, block.data, block.checksum)
        .where(block.dataset_id == dataset_id, block.column_index.in_(list(parts)))
        .order_by(block.column_index, block.seq)
    )
    if only is not None:
        query = query.where(block.seq == only)
    for column, seq, data, stored in session.execute(query, execution_options=binary_results(session)):
        if blocks.checksum(data) != stored:
            raise CorruptBlockError(f"Dataset {dataset_id}: block {seq} of column {column} is damaged.")
        parts[column].append(blocks.read(data))
    # Deletion works in batches: single blocks, or all blocks of a column, may be gone already.
    whole = only is not None or {sum(map(len, lengths)) for lengths in parts.values()} <= {dataset.num_rows}
    if not (whole and all(parts.values())):
        raise DatasetGoneError(f"Dataset {dataset_id} was deleted while it was being read.")
    read = {name: pa.chunked_array(parts[index[name]]) for name in names}
    for name, spelling in spellings.items():
        cells = None if spelling.place is None else pa.chunked_array(parts[spelling.place])
        read[name] = restored(read[name], cells, spelling)
    return pa.table(read)
