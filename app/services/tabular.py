"""New rows as a file has them (CSV, Arrow stream, Parquet): read as the model's columns, within bounds."""

import io
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.services.delimited import NUMBER, read_delimited
from app.services.errors import Fault, TooLargeError, UnusableDataError, enough
from app.services.parquet import read_parquet
from app.services.typing_text import MISSING
from sampler import Schema
from sampler.cells import as_text
from sampler.schema import Column

MAX_TEXT = 10_000  # letters of a value; a dictionary may repeat one in every row
MAX_COLUMNS = 10_000
PLAIN = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
TIMES = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_null)
TEXTS = (pa.types.is_string, pa.types.is_large_string)
COMPRESSED = "Its buffers are compressed: write the stream without compression."


def read_rows(kind: str, body: bytes, schema: Schema, max_rows: int) -> pa.Table:
    """The rows of a body of kind "csv", "arrow" or "parquet".

    In CSV everything is text: a cell is read as what the model's column of that name holds, so the text of a
    number is a number there. The other two have types of their own.

    Raises
    ------
    UnusableDataError
        It can't be read, or cells are not of their column's kind: with column and row.
    TooLargeError
        More rows than `max_rows`, or texts too long.
    """
    if kind == "csv":
        table = read_delimited(io.BytesIO(body), fewest_columns=1)
        check_size(table, max_rows)
        return _by_schema(table, schema)
    table = read_parquet(body, max_rows) if kind == "parquet" else _read_arrow(body)
    check_size(table, max_rows)
    return _plain(table)


def check_size(table: pa.Table, max_rows: int) -> None:
    """Raise for a table without rows, or with too many rows or columns."""
    if table.num_rows == 0:
        raise UnusableDataError("There are no rows to predict.")
    if table.num_rows > max_rows:
        raise TooLargeError(
            f"{table.num_rows} rows are too many for one request: send at most {max_rows}, or upload them "
            "as a dataset and ask for predictions in the background (POST /models/{id}/predictions)."
        )
    if table.num_columns > MAX_COLUMNS:
        raise TooLargeError(f"{table.num_columns} columns are more than the {MAX_COLUMNS} that are read.")


def _by_schema(table: pa.Table, schema: Schema) -> pa.Table:
    """A table of text as the kinds of the model's columns; what the model doesn't know stays text."""
    columns = {column.name: column for column in schema.columns}
    faults: list[Fault] = []
    typed = {}
    for name in table.column_names:
        text = pc.utf8_trim_whitespace(table.column(name)).combine_chunks()
        column = columns.get(name)
        if column is None:
            typed[name] = text
        elif column.kind == "category":
            typed[name] = _levels(text, column)
        else:
            typed[name] = _read[column.kind](name, _without_missing(text), faults)
    if faults:
        raise UnusableDataError(errors=faults)
    return pa.table(typed)


def _without_missing(text: pa.Array, but: Sequence[str] = ()) -> pa.Array:
    missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array(MISSING))
    if but:
        missing = pc.and_not(missing, pc.is_in(text, value_set=pa.array(but)))
    return pc.if_else(missing, pa.scalar(None, pa.string()), text)


def _numbers(name: str, text: pa.Array, faults: list[Fault]) -> pa.Array:
    fits = pc.match_substring_regex(text, f"^{NUMBER.pattern}$")
    _name_strangers(name, text, fits, "a number", faults)
    return pc.cast(pc.if_else(fits, text, pa.scalar(None, pa.string())), pa.float64())


def _booleans(name: str, text: pa.Array, faults: list[Fault]) -> pa.Array:
    lower = pc.utf8_lower(text)
    _name_strangers(
        name, text, pc.is_in(lower, value_set=pa.array(["true", "false", "1", "0"])), "true or false", faults
    )
    truth = pc.is_in(lower, value_set=pa.array(["true", "1"]))
    return pc.if_else(pc.is_valid(text), truth, pa.scalar(None, pa.bool_()))


def _dates(_name: str, text: pa.Array, _faults: list[Fault]) -> pa.Array:
    return text  # the sampler reads ISO 8601 text where the model has dates


_read: dict[str, Callable[[str, pa.Array, list[Fault]], pa.Array]] = {
    "number": _numbers,
    "boolean": _booleans,
    "date": _dates,
}


def _levels(text: pa.Array, column: Column) -> pa.Array:
    """The levels that text means: as it stands, else the number or boolean it spells as training did."""
    coded = _without_missing(text, column.levels).dictionary_encode()
    known = set(column.levels)
    spelled = [_spelled(level, known) for level in coded.dictionary.to_pylist()]
    return pa.array(spelled, pa.string()).take(coded.indices)


def _spelled(text: str, known: set[str]) -> str:
    if text in known:
        return text
    if NUMBER.fullmatch(text) and (number := as_text(float(text))) in known:
        return number
    return text.lower() if text.lower() in known & {"true", "false"} else text


def _name_strangers(name: str, text: pa.Array, fits: pa.Array, wanted: str, faults: list[Fault]) -> None:
    rows = pc.indices_nonzero(pc.fill_null(pc.invert(fits), fill_value=False)).to_pylist()
    told = ((row, text[row].as_py()) for row in rows)
    faults += enough(
        Fault(name, row + 1, f"the text {cell if len(cell) <= 40 else cell[:37] + '...'!r} is not {wanted}")
        for row, cell in told
    )


def _read_arrow(body: bytes) -> pa.Table:
    try:
        _refuse_compressed(body)
        with pa.ipc.open_stream(body) as reader:
            if reader.schema.names and len(reader.schema.names) > MAX_COLUMNS:
                raise TooLargeError(f"{len(reader.schema.names)} columns are more than are read.")
            table = reader.read_all()
        table.validate(full=True)  # offsets and indices that point elsewhere end here
    except (pa.ArrowException, struct.error, IndexError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else "it ends too early"
        raise UnusableDataError(f"The body is no Arrow stream that can be read: {reason}.") from None
    return table


def _refuse_compressed(body: bytes) -> None:
    """Compressed buffers state how much memory they want: nobody gets to ask for a terabyte."""
    for message in pa.ipc.MessageReader.open_stream(body):
        if message.type in {"record batch", "dictionary"} and _is_compressed(message.metadata.to_pybytes()):
            raise UnusableDataError(COMPRESSED)


def _is_compressed(metadata: bytes) -> bool:
    """Whether a message's record batch has a `compression`: format/Message.fbs of Arrow, read by hand."""
    message = struct.unpack_from("<I", metadata)[0]
    header = _follow(metadata, message, 2)
    kind_at = _field(metadata, message, 1)
    if header is None or kind_at is None:
        return False
    dictionary = 2
    if metadata[kind_at] == dictionary:
        header = _follow(metadata, header, 1)
    return header is not None and _field(metadata, header, 3) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a flatbuffers table is; None when it isn't there."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0 or table < 0:
        raise ValueError("its metadata are damaged")
    size = struct.unpack_from("<H", data, vtable)[0]
    if 4 + 2 * number >= size:
        return None
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else None


def _follow(data: bytes, table: int, number: int) -> int | None:
    at = _field(data, table, number)
    return None if at is None else at + int(struct.unpack_from("<I", data, at)[0])


def _plain(table: pa.Table) -> pa.Table:
    """Only types whose values are no longer than what was sent; texts plain and of bounded length."""
    faults: list[Fault] = []
    columns: list[Any] = []
    for name, given in zip(table.column_names, table.columns, strict=True):
        kind, column = given.type, given
        if pa.types.is_dictionary(kind) and any(is_(kind.value_type) for is_ in PLAIN):
            kind, column = kind.value_type, given.cast(kind.value_type)
        if pa.types.is_dictionary(kind) and any(is_(kind.value_type) for is_ in TEXTS):
            longest = max((_longest(chunk.dictionary) for chunk in column.chunks), default=0)
        elif any(is_(kind) for is_ in TEXTS) or pa.types.is_string_view(kind):
            longest = max((_longest(chunk) for chunk in column.chunks), default=0)
        elif any(is_(kind) for is_ in (*PLAIN, *TIMES)):
            columns.append(column)
            continue
        else:
            faults.append(Fault(name, None, f"columns of type {kind} can't be used".replace("\n", " ")[:200]))
            continue
        if longest > MAX_TEXT:
            faults.append(Fault(name, None, f"a text has {longest} bytes; at most {MAX_TEXT} are read"))
        else:
            columns.append(column.cast(pa.string()) if pa.types.is_string_view(kind) else column)
    if faults:
        raise UnusableDataError(errors=faults)
    return pa.Table.from_arrays(columns, names=table.column_names)


def _longest(texts: pa.Array) -> int:
    return int(pc.max(pc.binary_length(texts)).as_py() or 0)
