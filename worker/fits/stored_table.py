"""Columns of a stored dataset as a table that reads them whenever they are asked for."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from sqlalchemy import Engine

from app.store import datasets
from app.store.datasets import BLOCK_ROWS
from app.store.engine import session_scope
from sampler.host.data import BlockReader, Table


def stored_table(engine: Engine, dataset_id: str, names: Sequence[str], num_rows: int) -> Table:
    """Open columns of a dataset without reading them; readers raise as `datasets.read`."""
    starts = np.append(np.arange(0, num_rows, BLOCK_ROWS), num_rows)

    def read_blocks(name: str, first: int, last: int) -> pa.ChunkedArray:
        with session_scope(engine, read_only=True) as session:
            if last - first == len(starts) - 1:
                return datasets.read(session, dataset_id, [name]).column(0)
            tables = [datasets.read_block(session, dataset_id, [name], seq) for seq in range(first, last)]
        return pa.concat_tables(tables).column(0)

    readers = {name: BlockReader(name, starts, partial(read_blocks, name)) for name in names}
    return Table(list(names), num_rows, readers)
