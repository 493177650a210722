"""Parquet files, Arrow streams and Arrow files as a spooled table of plain types.

They are decoded batch by batch, so that the decoded size is measured as it grows. Metadata may be forged:
only measured values are trusted, and the process has limited memory.
"""

import errno
import re
import struct
from collections.abc import Collection, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.services.errors import ENOUGH, Fault, TooLargeError, UnusableDataError
from app.services.readers.dialect import name_fault
from app.services.readers.options import MAX_COLUMNS, MAX_NAME, Format, ReaderLimits
from app.services.readers.scratch import Scratch
from app.services.readers.spool import Spool, check_size

MAX_TEXT = 10_000  # bytes of a value; a dictionary may repeat one in every row
PIECE_ROWS = 8192  # rows converted at once
PIECE_CELLS = 1 << 20
UNNAMED = re.compile(r"__index_level_\d+__")  # the names that pandas gives to row labels
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def read_columnar(
    file: BinaryIO, kind: Format, limits: ReaderLimits, scratch: Scratch, levels: Collection[str] = ()
) -> Spool:
    """Read the table of a Parquet or Arrow file; integers of the columns in `levels` become text.

    Raises
    ------
    UnusableDataError
        The file can't be read, or columns are nested, duplicate or infinite; names column and row.
    TooLargeError
        It exceeds the limits or has excessively long texts.
    MemoryError
        Arrow ran out of memory.
    """
    title = "Parquet file" if kind == "parquet" else "Arrow stream or file"
    try:
        schema, batches = _parquet(file, limits) if kind == "parquet" else _arrow(file)
        return _spooled(batches, Spool(_plain_schema(schema, levels), limits, scratch))
    except (pa.ArrowMemoryError, pa.ArrowCapacityError) as error:
        raise MemoryError from error
    except (pa.ArrowException, struct.error, IndexError, OSError, ValueError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise  # our own disk is full
        reason = (str(error).splitlines() or ["it ends too early"])[0][:200]
        raise UnusableDataError(f"This {title} can't be read: {reason}. Write it again.") from None


def _parquet(file: BinaryIO, limits: ReaderLimits) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
    schema = parquet.schema_arrow
    _check_names(schema.names)
    check_size(parquet.metadata.num_rows, len(schema), limits)
    rows = max(1, min(PIECE_ROWS, PIECE_CELLS // max(len(schema), 1)))
    return schema, parquet.iter_batches(batch_size=rows, use_threads=False)


def _arrow(file: BinaryIO) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    file.seek(0)
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    options = pa.ipc.IpcReadOptions(use_threads=False)
    if not is_file:
        stream = pa.ipc.open_stream(file, options=options)
        _check_names(stream.schema.names)
        return stream.schema, iter(stream)
    opened = pa.ipc.open_file(file, options=options)
    _check_names(opened.schema.names)
    return opened.schema, (opened.get_batch(number) for number in range(opened.num_record_batches))


def _check_names(names: list[str]) -> None:
    if not names:
        raise UnusableDataError("The file has no columns.")
    if len(names) > MAX_COLUMNS:
        raise TooLargeError(f"The file has {len(names)} columns; at most {MAX_COLUMNS} are accepted.")
    faults = [
        fault
        for position, name in enumerate(names, 1)
        if (fault := name_fault(f"column {position}", name))
        or (not name.strip() and (fault := Fault(None, None, f"column {position} has no name: name it")))
    ]
    doubled = (
        sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    )
    faults += [
        Fault(name[:MAX_NAME], None, "there are several columns of this name: rename one") for name in doubled
    ]
    if faults:
        raise UnusableDataError(errors=faults)


def _plain_schema(schema: pa.Schema, levels: Collection[str]) -> pa.Schema:
    """Return the schema after conversion; raises UnusableDataError for unusable columns."""
    unusable = [
        Fault(field.name, None, f"columns of type {_named(field.type)} can't be used: leave it out")
        for field in schema
        if _plain_type(field.type) is None
    ]
    if unusable:
        raise UnusableDataError(errors=unusable)
    return pa.schema(
        [
            (
                field.name,
                pa.string() if field.name in levels and _is_whole(field.type) else _plain_type(field.type),
            )
            for field in schema
        ]
    )


def _is_whole(kind: pa.DataType) -> bool:
    """Return whether a type holds integers, which keep all digits as text."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0))


def _named(kind: pa.DataType) -> str:
    return str(kind).replace("\n", " ")[:80]


def _spooled(batches: Iterator[pa.RecordBatch], spool: Spool) -> Spool:
    faults: list[Fault] = []
    for batch in batches:
        batch.validate(full=True)  # rejects invalid offsets and indices
        for start in range(0, batch.num_rows, PIECE_ROWS):
            piece = batch.slice(start, PIECE_ROWS)
            columns = [
                _plain(name, column, kind, spool.num_rows, faults)
                for name, column, kind in zip(spool.names, piece.columns, spool.schema.types, strict=True)
            ]
            if len(faults) >= ENOUGH:
                break
            spool.add(pa.RecordBatch.from_arrays(columns, schema=spool.schema))
    if faults:
        raise UnusableDataError(errors=faults)
    if spool.num_rows == 0:
        raise UnusableDataError("The file has columns but no rows.")
    return spool


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the converted type of a column, None for an unusable one."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if any(is_(kind) for is_ in _NUMBERS):
        return pa.float64()
    if any(is_(kind) for is_ in _TEXTS):
        return pa.string()
    if pa.types.is_boolean(kind):
        return pa.bool_()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    return pa.timestamp("us") if pa.types.is_date(kind) else None


def _plain(name: str, column: pa.Array, kind: pa.DataType, before: int, faults: list[Fault]) -> pa.Array:
    if pa.types.is_string(kind):
        texts = column.dictionary if pa.types.is_dictionary(column.type) else column
        longest = pc.max(pc.binary_length(texts.cast(pa.large_string()))).as_py() or 0
        if longest > MAX_TEXT:
            message = f"a text has {longest} bytes; at most {MAX_TEXT} are read: shorten it"
            raise UnusableDataError(errors=[Fault(name, None, message)])
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column = column.cast(kind, safe=False)
    if pa.types.is_float64(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
        rows = pc.indices_nonzero(pc.fill_null(pc.is_inf(column), fill_value=False)).to_pylist()
        message = "the value is infinite or too large for a number: make it null"
        faults += [Fault(name, before + row + 1, message) for row in rows[:ENOUGH]]
    return column
