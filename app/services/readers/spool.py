"""A table that grows by batches, moves to disk once it is large, and is read back column by column.

Only a group of its columns is in memory at any time, however long or wide the table is.
"""

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from app.services.errors import TooLargeError
from app.services.readers.options import ReaderLimits
from app.services.readers.scratch import Scratch

IN_MEMORY_BYTES = 48 << 20
GROUP_BYTES = 48 << 20  # size of the columns read at once


class Spool:
    """Spooled batches of one schema.

    Parameters
    ----------
    schema
        Schema of every batch.
    limits
        Maximum of rows and cells, and of a quarter of the bytes.
    scratch
        Context that closes the file on disk.
    """

    def __init__(self, schema: pa.Schema, limits: ReaderLimits, scratch: Scratch) -> None:
        self.schema = schema
        self.names: list[str] = list(schema.names)  # kept: pyarrow makes them anew for each caller
        self.orders: dict[str, list[str]] = {}  # of classes, of columns whose type says it
        self.categories: set[str] = set()  # columns whose type says that they have levels
        self.num_rows = 0
        self._limits = limits
        self._scratch = scratch
        self._bytes = [0] * len(schema)
        self._batches: list[pa.RecordBatch] = []
        self._file: BinaryIO | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch; raises TooLargeError when the table exceeds its limits."""
        self.num_rows += batch.num_rows
        check_size(self.num_rows, len(self.schema), self._limits)
        for index, column in enumerate(batch.columns):
            self._bytes[index] += column.nbytes
        total = sum(self._bytes)
        if total > 4 * self._limits.bytes:
            raise TooLargeError(
                f"The texts take more than {4 * self._limits.bytes >> 20} MB: send fewer rows, or omit the "
                "columns of long texts."
            )
        if self._writer is not None:
            self._writer.write_batch(batch)
            return
        self._batches.append(batch)
        if total > IN_MEMORY_BYTES:
            self._file = self._scratch.file()
            # Measured on numbers and words: half the room on disk, for 1.2 ms of each MB.
            packed = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)
            self._writer = pa.ipc.new_file(self._file, self.schema, options=packed)
            for earlier in self._batches:
                self._writer.write_batch(earlier)
            self._batches.clear()

    def columns(self, indices: list[int] | None = None) -> Iterator[tuple[int, pa.ChunkedArray]]:
        """Yield (position, values) of all or the given columns, in order; call it after the last batch."""
        indices = list(range(len(self.schema))) if indices is None else sorted(indices)
        if self._writer is not None:
            self._writer.close()
        for group in self._groups(indices):
            table = self._read(group)
            for place, index in enumerate(group):
                yield index, table.column(place)

    def _groups(self, indices: list[int]) -> Iterator[list[int]]:
        group: list[int] = []
        size = 0
        for index in indices:
            if group and size + self._bytes[index] > GROUP_BYTES:
                yield group
                group, size = [], 0
            group.append(index)
            size += self._bytes[index]
        if group:
            yield group

    def _read(self, group: list[int]) -> pa.Table:
        if self._file is None:
            return pa.Table.from_batches(self._batches, self.schema).select(group)
        self._file.seek(0)
        options = pa.ipc.IpcReadOptions(included_fields=group, use_threads=False)
        return pa.ipc.open_file(self._file, options=options).read_all()


def check_size(num_rows: int, num_columns: int, limits: ReaderLimits) -> None:
    """Raise TooLargeError for more rows or cells than the limits allow."""
    if num_rows > limits.rows:
        raise TooLargeError(
            f"There are more than {limits.rows} rows, which are too many for one request: send fewer, or "
            "upload them as a dataset and ask for background predictions (POST /models/{id}/predictions)."
        )
    if num_rows * num_columns > limits.cells:
        raise TooLargeError(
            f"The table has more than {limits.cells // 10**6} million cells ({num_columns} columns of more "
            f"than {limits.cells // max(num_columns, 1)} rows): send fewer rows or columns."
        )
