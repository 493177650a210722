"""Parquet files, Arrow streams and Arrow files as a spooled table of plain types.

They are decoded batch by batch, so that the decoded size is measured as it grows. Metadata may be forged:
only measured values are trusted, and the process has limited memory. No value changes on the way: integers
keep all digits, times that microseconds of the years 1 to 9999 can't express are refused.
"""

import errno
import json
import math
import resource
import struct
import time
from collections.abc import Collection, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.services.errors import ENOUGH, Fault, TooLargeError, UnusableDataError
from app.services.readers.dialect import name_fault
from app.services.readers.options import MAX_COLUMNS, MAX_NAME, Format, Options, ReaderLimits
from app.services.readers.scratch import Scratch
from app.services.readers.spool import Spool, check_size
from app.services.readers.values.dates import YEARS
from app.services.readers.values.typing_text import RAW
from sampler.host.data import MAX_LEVELS, ROW_LABELS, is_missing
from sampler.host.data import value_as_text as as_text

MAX_TEXT = 10_000  # bytes of a value; a dictionary may repeat one in every row
PIECE_ROWS = 8192  # rows converted at once
PIECE_CELLS = 1 << 20
LEVELS = {"category", "text", RAW}  # kinds of columns whose values are spelled
EXTENSION = b"ARROW:extension:name"
_FLOATS = (pa.types.is_floating, pa.types.is_null)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
# Types besides texts that are repeated as they are.
_REPEATED = (*_FLOATS, pa.types.is_boolean, pa.types.is_temporal)
# Types of the values of categories besides texts.
_SPELLED = (*_REPEATED, pa.types.is_integer, pa.types.is_decimal)
SECONDS_A_DAY = 86_400
# For a Parquet file, beside a time for each cell some twenty times the usual: its pages may be tiny.
READ_SECONDS, CELL_SECONDS = 10.0, 1e-5
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}  # per second


def read_columnar(
    file: BinaryIO, kind: Format, limits: ReaderLimits, scratch: Scratch, options: Options
) -> tuple[Spool, list[str]]:
    """Read the table of a Parquet or Arrow file; return it and warnings of columns that are left out.

    Integers become text in columns that are to be categories or text, and so do values of any type of
    columns that are categories in the file (as of pandas) unless their kind is given. Columns that a model
    doesn't know keep their type, since an answer may repeat them.

    Raises
    ------
    UnusableDataError
        The file can't be read, columns are duplicate or infinite, a time is out of range, or a column that is
        asked for, or every column, has a type that can't be used; names column and row.
    TooLargeError
        It exceeds the limits or has excessively long texts.
    MemoryError
        Arrow ran out of memory.
    """
    title = "Parquet file" if kind == "parquet" else "Arrow stream or file"
    try:
        schema, batches = _parquet(file, limits) if kind == "parquet" else _arrow(file)
        plain, left_out = _plain_schema(schema, options)
        repeated = {name for name in plain.names if _is_repeated(name, options)}
        spool = Spool(plain, limits, scratch)
        spool.categories = _categories(schema)
        return _spooled(batches, spool, repeated), left_out
    except (pa.ArrowMemoryError, pa.ArrowCapacityError) as error:
        raise MemoryError from error
    except (pa.ArrowException, struct.error, IndexError, OSError, ValueError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise  # our own disk is full
        reason = (str(error).splitlines() or ["it ends too early"])[0][:200]
        raise UnusableDataError(f"This {title} can't be read: {reason}. Write it again.") from None


def _parquet(file: BinaryIO, limits: ReaderLimits) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20, coerce_int96_timestamp_unit="us")
    schema = parquet.schema_arrow
    check_names(schema.names)
    check_size(parquet.metadata.num_rows, len(schema), limits)
    _limit_time(READ_SECONDS + CELL_SECONDS * parquet.metadata.num_rows * len(schema))
    rows = max(1, min(PIECE_ROWS, PIECE_CELLS // max(len(schema), 1)))
    return schema, parquet.iter_batches(batch_size=rows, use_threads=False)


def _limit_time(seconds: float) -> None:
    """Leave a confined process that many more seconds of a processor at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if soft != resource.RLIM_INFINITY:  # it is confined
        most = math.ceil(time.process_time() + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (min(soft, most), hard))


def _arrow(file: BinaryIO) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    file.seek(0)
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    options = pa.ipc.IpcReadOptions(use_threads=False)
    if not is_file:
        stream = pa.ipc.open_stream(file, options=options)
        check_names(stream.schema.names)
        return stream.schema, iter(stream)
    opened = pa.ipc.open_file(file, options=options)
    check_names(opened.schema.names)
    return opened.schema, (opened.get_batch(number) for number in range(opened.num_record_batches))


def check_names(names: list[str]) -> None:
    """Raise UnusableDataError for missing, invalid or duplicate names, TooLargeError for too many."""
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


def _plain_schema(schema: pa.Schema, options: Options) -> tuple[pa.Schema, list[str]]:
    """Return the usable columns after conversion, and warnings of the others.

    Raises UnusableDataError where one of the others is asked for, and where there are only such.
    """
    usable, faults, left_out = [], [], []
    categories = _categories(schema)
    for field in schema:
        if ROW_LABELS.fullmatch(field.name) and field.name not in (*options.known, *options.kinds):
            left_out.append(
                f"{field.name}: left out, since it identifies rows, like row numbers (pandas' index)"
            )
        elif (kind := _plain_type(field, options, category=field.name in categories)) is not None:
            usable.append((field.name, kind))
        else:
            message = f"columns of type {_named(field)} can't be used"
            left_out.append(f"{field.name}: left out, since {message}")
            faults.append(Fault(field.name, None, f"{message}: leave it out"))
    if usable:
        faults = [fault for fault in faults if fault.column in options.kinds]
    if faults:
        raise UnusableDataError(errors=faults)
    return pa.schema(usable), left_out


def _is_whole(kind: pa.DataType) -> bool:
    """Return whether a type holds integers, which keep all digits as text."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0))


def _categories(schema: pa.Schema) -> set[str]:
    """Return the columns whose type has levels, or that were categories in pandas by a file's metadata."""
    of_type = {field.name for field in schema if pa.types.is_dictionary(field.type)}
    try:
        columns = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["columns"]
        return of_type | {str(each["name"]) for each in columns if each["pandas_type"] == "categorical"}
    except (ValueError, KeyError, TypeError, RecursionError):
        return of_type  # another program's, or damaged


def _has_periods(field: pa.Field) -> bool:
    """Return whether a column has periods of pandas, which are stored as their numbers since 1970."""
    own: str = getattr(field.type, "extension_name", "")
    return "pandas.period" in (own, (field.metadata or {}).get(EXTENSION, b"").decode(errors="replace"))


def _named(field: pa.Field) -> str:
    if _has_periods(field):
        return "period (of pandas; .dt.to_timestamp() makes dates of them)"
    return str(field.type).replace("\n", " ")[:80]


def _spooled(batches: Iterator[pa.RecordBatch], spool: Spool, repeated: Collection[str]) -> Spool:
    faults: list[Fault] = []
    places: list[int] = []
    for batch in batches:
        places = places or [batch.schema.names.index(name) for name in spool.names]
        batch.validate(full=True)  # rejects invalid offsets and indices
        _note_orders(batch, spool)
        for start in range(0, batch.num_rows, PIECE_ROWS):
            piece = batch.slice(start, PIECE_ROWS)
            columns = [
                _plain(name, piece.column(at), kind, spool.num_rows, faults, exact=name in repeated)
                for at, name, kind in zip(places, spool.names, spool.schema.types, strict=True)
            ]
            if len(faults) >= ENOUGH:
                break
            spool.add(pa.RecordBatch.from_arrays(columns, schema=spool.schema))
    if faults:
        raise UnusableDataError(errors=faults)
    if spool.num_rows == 0:
        raise UnusableDataError("The file has columns but no rows.")
    return spool


def _note_orders(batch: pa.RecordBatch, spool: Spool) -> None:
    """Note the order of classes of ordered dictionaries; none where later batches have another."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if not (pa.types.is_dictionary(column.type) and column.type.ordered and name in spool.names):
            continue
        if not pa.types.is_string(spool.schema.field(name).type) or len(column.dictionary) > MAX_LEVELS:
            continue
        own = [as_text(level) for level in column.dictionary.to_pylist() if not is_missing(level)]
        known = spool.orders.get(name, own)
        shorter, longer = sorted((own, known), key=len)
        spool.orders[name] = longer if longer[: len(shorter)] == shorter else []


def _plain_type(field: pa.Field, options: Options, *, category: bool) -> pa.DataType | None:
    """Return the converted type of a column, None for an unusable one."""
    if _has_periods(field):
        return None
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    wanted = options.kinds.get(field.name)
    if any(is_(kind) for is_ in _TEXTS) or (_is_whole(kind) and wanted in LEVELS):
        return pa.string()
    if _is_repeated(field.name, options) and any(is_(kind) for is_ in _REPEATED):
        return kind
    plain = None
    if category and (wanted is None or wanted in LEVELS) and any(is_(kind) for is_ in _SPELLED):
        plain = pa.string()
    elif pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        plain = kind
    elif any(is_(kind) for is_ in _FLOATS):
        plain = pa.float64()
    elif pa.types.is_timestamp(kind):
        plain = pa.timestamp("us", kind.tz and "UTC")
    elif pa.types.is_date(kind):
        plain = pa.timestamp("us")
    return plain


def _is_repeated(name: str, options: Options) -> bool:
    """Return whether an answer may repeat a column, which the model doesn't read."""
    return bool(options.known) and name not in options.kinds


def _plain(
    name: str, column: pa.Array, kind: pa.DataType, before: int, faults: list[Fault], *, exact: bool
) -> pa.Array:
    if pa.types.is_string(kind):
        texts = column.dictionary if pa.types.is_dictionary(column.type) else column
        longest = pc.max(pc.binary_length(texts.cast(pa.large_string()))).as_py() or 0
        if longest > MAX_TEXT:
            message = f"a text has {longest} bytes; at most {MAX_TEXT} are read: shorten it"
            raise UnusableDataError(errors=[Fault(name, None, message)])
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    is_spelled = pa.types.is_integer(column.type) or any(is_(column.type) for is_ in _TEXTS)
    if pa.types.is_string(kind) and not is_spelled:
        column = _as_levels(column)
    if pa.types.is_timestamp(kind):
        column = _within_years(name, column, before, faults)
    column = column.cast(kind, safe=False)
    if pa.types.is_float64(kind) and not exact:
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
        message = "the value is infinite or too large for a number: make it null"
        faults += _faults(name, pc.is_inf(column), before, message)
    return column


def _within_years(name: str, column: pa.Array, before: int, faults: list[Fault]) -> pa.Array:
    """Report times outside the years 1 to 9999, which text of dates can't express, and make them null."""
    if pa.types.is_date32(column.type):
        ticks, numbers = 1 / SECONDS_A_DAY, column.cast(pa.int32())
    else:
        ticks = _TICKS["ms" if pa.types.is_date64(column.type) else column.type.unit]
        numbers = column.cast(pa.int64())
    low, high = (round(year * ticks) for year in YEARS)
    if low < -(1 << 63):
        return column  # 64 bits of nanoseconds don't reach that far
    odd = pc.or_(pc.less(numbers, low), pc.greater_equal(numbers, high))
    if pc.any(odd).as_py():
        message = "the time is before the year 1 or after 9999: make it null, or write another"
        faults += _faults(name, odd, before, message)
        column = pc.if_else(odd, pa.scalar(None, column.type), column)
    return column


def _faults(name: str, odd: pa.Array, before: int, message: str) -> list[Fault]:
    rows = pc.indices_nonzero(pc.fill_null(odd, fill_value=False)).to_pylist()
    return [Fault(name, before + row + 1, message) for row in rows[:ENOUGH]]


def _as_levels(column: pa.Array) -> pa.Array:
    """Spell values as levels are spelled: 1.0 is "1", true is "true", dates are ISO 8601."""
    coded = column.dictionary_encode()
    values = (None if is_missing(value) else as_text(value) for value in coded.dictionary.to_pylist())
    return pa.array(values, pa.string()).take(coded.indices)
