"""Codec for one block of a stored column: an Arrow stream of one batch with zstd inside.

The bytes are the same on every database. Most numbers in files are decimals with few digits. Where every
number of a block is a whole number divided by a power of ten (which restores the same float64, since both are
the nearest to the same decimal; minus zero becomes zero), the block holds the whole numbers in the narrowest
integer type. Times are stored likewise, divided by a unit. Bytes of equal significance are similar, so each
gets a column of its own. Text is stored as a dictionary per block where values repeat, otherwise as lengths
and characters.

Values have one usual spelling each, which needs no storage. Cells of a file that were written otherwise
("007", "12.50", "13.04.2025", "n/a") are kept in a column of text beside, which is null elsewhere.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

BLOCK_ROWS = 65_536  # 512 KiB of float64 before compression
MAX_POWER = 6
UNITS = (86_400_000_000, 60_000_000, 1_000_000, 1_000, 1)  # microseconds: days, minutes, ...
# On this thread: to wait for others takes longer than to compress a block.
_OPTIONS = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 3), use_threads=False)
_WIDTHS = ("<i1", "<i2", "<i4", "<i8")
POINT, COMMA = ".", ","


@dataclass(frozen=True)
class Spelling:
    """Spelling of a column.

    Attributes
    ----------
    sign
        Decimal sign of its usual spelling: a comma where a cell has one.
    place
        Place of the kept cells among a dataset's blocks, after its columns; None where no cell is kept.
    exact
        Type that keeps all digits of numbers: "text" (leading zeros), "integer" (long ones) or None.
    decimal
        Decimal sign that the column alone shows, or that the upload named; None where it may be either.

    """

    sign: str = POINT
    place: int | None = None
    exact: Literal["text", "integer"] | None = None
    decimal: Literal["point", "comma"] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is not the usual as JSON values."""
        usual = Spelling()
        return {name: value for name, value in asdict(self).items() if value != getattr(usual, name)}


def checksum(data: bytes) -> str:
    """Return the SHA-256 of stored bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest(names: Sequence[str], checksums: Iterable[str]) -> str:
    """Return the SHA-256 over a table's column names and block checksums, which identifies its content."""
    return hashlib.sha256("".join([*names, *checksums]).encode()).hexdigest()


def cut(column: pa.ChunkedArray, rows: int) -> Iterator[bytes]:
    """Yield the encoded blocks, of `rows` rows each, of a storable column; at least one even when empty."""
    for start in range(0, max(len(column), 1), rows):
        yield write(column.slice(start, rows))


def storable(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to a type that a dataset can hold: float64, bool, string or timestamp[us].

    Integers that float64 would round are int64 or uint64.

    Raises
    ------
    TypeError
        A column of another type.
    """
    kind = column.type
    if pa.types.is_dictionary(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return exact_numbers(column)
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", tz=kind.tz))
    if not (pa.types.is_string(kind) or pa.types.is_boolean(kind)):
        raise TypeError(f"column {name!r} has type {kind}, which a dataset can't hold")
    return column


def exact_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert numbers to float64, or to int64 or uint64 where float64 would round integers.

    Decimals that are no integers of 64 bits are rounded.
    """
    kind = column.type
    if pa.types.is_decimal(kind) and kind.scale == 0:
        with suppress(pa.ArrowInvalid):
            return exact_numbers(column.cast(pa.int64()))
    if pa.types.is_integer(kind):
        low, high = (end.as_py() for end in pc.min_max(column).values())
        if low is not None and max(-low, high) > 2**53:
            return column.cast(pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64())
    return column.cast(pa.float64(), safe=False)


def write(column: pa.ChunkedArray) -> bytes:
    """Encode at most `BLOCK_ROWS` rows of a storable column as a block."""
    values = _whole(column)
    kind = values.type
    if pa.types.is_float64(kind):
        numbers, facts = _of_numbers(_filled(values))
        block = _write_planes(values, numbers, facts)
        # Repeated values compress better without splitting the bytes.
        return block if facts else min(block, _stream([values], ["values"], None), key=len)
    if pa.types.is_timestamp(kind):
        return _write_planes(values, *_of_times(_filled(values.cast(pa.int64())), kind.tz))
    if pa.types.is_string(kind):
        coded = values.dictionary_encode()
        if 2 * len(coded.dictionary) > len(values) > 0:
            return _write_letters(values)
        values = _narrow_places(coded)
    return _stream([values], ["values"], None)


def read(data: bytes) -> pa.Array:
    """Decode a block into the values that `write` encoded."""
    table = pa.ipc.open_stream(data).read_all()
    facts = table.schema.metadata or {}
    first = _whole(table.column(0))
    if b"dtype" not in facts:
        return first.cast(pa.string()) if pa.types.is_dictionary(first.type) else first
    ranks = np.dtype(facts[b"dtype"].decode()).itemsize
    planes = [_whole(plane).fill_null(0).to_numpy() for plane in table.columns[:ranks]]
    numbers = np.ascontiguousarray(np.stack(planes, axis=1)).view(facts[b"dtype"].decode()).reshape(-1)
    missing = first.is_null().to_numpy(zero_copy_only=False) if first.null_count else None
    if b"letters" in facts:
        return _texts(numbers, table.column(table.num_columns - 1), first)
    if b"unit" in facts:
        times = pa.array(numbers.astype(np.int64) * int(facts[b"unit"]), mask=missing)
        return times.cast(pa.timestamp("us", facts[b"zone"].decode() or None))
    power = int(facts.get(b"power", b"0"))
    return pa.array(numbers / 10.0**power if b"power" in facts else numbers, mask=missing)


def _of_numbers(numbers: NDArray[np.float64]) -> tuple[NDArray[Any], dict[str, str]]:
    """Scale decimals to whole numbers where that is exact, else return them unchanged."""
    for power in range(MAX_POWER + 1):
        # Checking a few numbers first rejects most powers cheaply.
        if _is_exact(numbers[:64], power) and _is_exact(numbers, power):
            return _narrow(np.rint(numbers * 10.0**power).astype(np.int64)), {"power": str(power)}
    return numbers.astype("<f8"), {}


def _is_exact(numbers: NDArray[np.float64], power: int) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.rint(numbers * 10.0**power)
        if not np.all(np.abs(whole) < 2**31 - 1):
            return False
    return bool(np.array_equal(whole.astype(np.int32) / 10.0**power, numbers))


def _of_times(times: NDArray[np.int64], zone: str | None) -> tuple[NDArray[Any], dict[str, str]]:
    unit = next(unit for unit in UNITS if not np.any(times % unit))
    return _narrow(times // unit), {"unit": str(unit), "zone": zone or ""}


def _narrow(whole: NDArray[np.int64]) -> NDArray[Any]:
    low, high = (int(whole.min()), int(whole.max())) if len(whole) else (0, 0)
    fits = (kind for kind in _WIDTHS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return whole.astype(next(fits))


def _write_planes(values: pa.Array, numbers: NDArray[Any], facts: dict[str, str]) -> bytes:
    """Encode the numbers with one column per byte position; the first column carries the missing values."""
    planes = _planes(values, numbers)
    return _stream(planes, _names(planes), {"dtype": numbers.dtype.str, **facts})


def _planes(values: pa.Array, numbers: NDArray[Any]) -> list[pa.Array]:
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    width = numbers.dtype.itemsize
    split = np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, width)
    return [
        pa.array(np.ascontiguousarray(split[:, rank]), mask=missing if rank == 0 else None)
        for rank in range(width)
    ]


def _names(columns: list[pa.Array]) -> list[str]:
    return [str(rank) for rank in range(len(columns))]


def _write_letters(values: pa.Array) -> bytes:
    """Encode lengths as numbers, and all characters as one value in the first row of a last column.

    Lengths compress better than offsets.
    """
    lengths = _narrow(_filled(pc.binary_length(values)).astype(np.int64))
    letters = b"".join(values.drop_null().cast(pa.binary()).to_pylist())
    places = np.full(len(values) + 1, len(letters), np.int32)
    places[0] = 0
    last = pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(places), pa.py_buffer(letters)]
    )
    columns = [*_planes(values, lengths), last]
    return _stream(columns, _names(columns), {"dtype": lengths.dtype.str, "letters": "1"})


def _texts(lengths: NDArray[Any], letters: pa.ChunkedArray, first: pa.Array) -> pa.Array:
    places = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=places[1:])
    valid = pc.is_valid(first).buffers()[1] if first.null_count else None
    data = pa.py_buffer(_whole(letters)[0].as_py())
    return pa.Array.from_buffers(pa.string(), len(lengths), [valid, pa.py_buffer(places), data])


def _narrow_places(coded: pa.DictionaryArray) -> pa.Array:
    """Return the dictionary array with the narrowest index type."""
    size = len(coded.dictionary)
    place = pa.int8() if size <= 127 else pa.int16() if size <= 32_767 else pa.int32()
    return pa.DictionaryArray.from_arrays(coded.indices.cast(place), coded.dictionary)


def _stream(columns: list[pa.Array], names: list[str], facts: dict[str, str] | None) -> bytes:
    batch = pa.record_batch(columns, names=names).replace_schema_metadata(facts)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _filled(values: pa.Array) -> NDArray[Any]:
    return np.asarray(values.fill_null(0).to_numpy() if values.null_count else values.to_numpy())


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array, whether or not it was chunked."""
    if isinstance(column, pa.Array):
        return column
    values = column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks else pa.array([], column.type)
    return values


def unusual(values: pa.ChunkedArray, text: pa.ChunkedArray) -> tuple[Spelling, pa.ChunkedArray | None]:
    """Return how a column is spelled, and the cells that its values don't give back; None if there are none.

    Parameters
    ----------
    values
        A storable column.
    text
        The cells as they were written; empty where there was nothing.
    """
    bare = pc.utf8_trim_whitespace(text)
    numeric = pa.types.is_floating(values.type) or pa.types.is_integer(values.type)
    sign = COMMA if numeric and _any(pc.match_substring(text, COMMA)) else POINT
    spelled, nothing = usual(values, sign), pa.scalar(None, pa.string())
    kept = pc.if_else(pc.equal(text, spelled), nothing, text)
    if kept.null_count == len(kept):
        return Spelling(sign), None
    exact: Literal["text", "integer"] | None = None
    odd = pc.if_else(pc.equal(bare, spelled), nothing, bare)
    if numeric and _any(pc.match_substring_regex(odd, r"^[+-]?0\d")):
        exact = "text"
    elif numeric and _all_match(pc.filter(odd, pc.is_valid(values)), r"^-?[1-9]\d{0,17}$"):
        exact = (
            "integer" if _all_match(pc.filter(bare, pc.is_valid(values)), r"^(0|-?[1-9]\d{0,17})$") else None
        )
    return Spelling(sign, exact=exact), kept


def usual(values: pa.ChunkedArray, sign: str = POINT) -> pa.ChunkedArray:
    """Spell values as text: numbers by the fewest digits, true or false, ISO 8601; missing ones are empty."""
    if pa.types.is_floating(values.type):
        text = pc.cast(pc.add(values, 0.0), pa.string())  # minus zero is stored as zero
        text = pc.replace_substring(text, POINT, sign) if sign != POINT else text
    elif pa.types.is_integer(values.type):
        text = values.cast(pa.string())
    elif pa.types.is_boolean(values.type):
        text = pc.if_else(values, "true", "false")
    elif pa.types.is_timestamp(values.type):
        days = pc.cast(values, pa.date32(), safe=False)
        seconds = pc.cast(pc.cast(values, pa.timestamp("s", values.type.tz), safe=False), pa.string())
        at_midnight = pc.and_(pc.equal(pc.cast(days, values.type), values), values.type.tz is None)
        text = pc.if_else(at_midnight, pc.cast(days, pa.string()), seconds)
    else:
        text = values
    return pc.fill_null(text, "")


def restored(values: pa.ChunkedArray, kept: pa.ChunkedArray | None, spelling: Spelling) -> pa.ChunkedArray:
    """Return a column's cells as they were written."""
    text = usual(values, spelling.sign)
    return text if kept is None else pc.coalesce(kept, text)


def _any(found: pa.ChunkedArray) -> bool:
    return bool(pc.any(found, min_count=0).as_py())


def _all_match(text: pa.ChunkedArray, pattern: str) -> bool:
    """Return whether some cell is present and all present cells match."""
    found = pc.match_substring_regex(text, pattern)
    return _any(found) and not _any(pc.invert(found))
