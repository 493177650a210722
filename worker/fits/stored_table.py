"""Columns of a stored dataset as a table that reads them whenever they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlalchemy import Engine

from app.store import datasets
from app.store.datasets import BLOCK_ROWS
from app.store.engine import session_scope
from sampler.host.data import RawColumn, Table, read_column


def stored_table(engine: Engine, dataset_id: str, names: Sequence[str], num_rows: int) -> Table:
    """Open columns of a dataset without reading them; readers raise as `datasets.read`."""
    readers = {name: _StoredColumn(engine, dataset_id, name, num_rows) for name in names}
    return Table(list(names), num_rows, readers)


@dataclass
class _StoredColumn:
    """Reader of one column, or of successive rows of it; it keeps the last block of those."""

    engine: Engine
    dataset_id: str
    name: str
    num_rows: int
    _kept: dict[int, pa.ChunkedArray] = field(default_factory=dict)

    def __call__(self, rows: slice) -> RawColumn:
        start, stop, _ = rows.indices(self.num_rows)
        if stop - start == self.num_rows:
            with session_scope(self.engine, read_only=True) as session:
                values = datasets.read(session, self.dataset_id, [self.name]).column(0)
            return read_column(values, self.name)
        first = start // BLOCK_ROWS
        blocks = [self._block(seq) for seq in range(first, max(stop - 1, start) // BLOCK_ROWS + 1)]
        values = pa.chunked_array([chunk for block in blocks for chunk in block.chunks])
        return read_column(values.slice(start - first * BLOCK_ROWS, stop - start), self.name)

    def _block(self, seq: int) -> pa.ChunkedArray:
        if seq not in self._kept:
            with session_scope(self.engine, read_only=True) as session:
                table = datasets.read_block(session, self.dataset_id, [self.name], seq)
            self._kept = {seq: table.column(0)}
        return self._kept[seq]
