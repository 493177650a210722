"""One block of a stored column: an Arrow stream of one column, zstd inside, the same bytes on every database.

Numbers of a file are mostly decimals with few digits. Where every number of a block is a whole number divided
by a power of ten (which gives back the very float64: both are the nearest to the same decimal), the block
holds those whole numbers in the narrowest type, and the power in the field's metadata. Text is a dictionary
per block.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

BLOCK_ROWS = 65_536  # of float64: 512 KiB before compression
MAX_POWER = 6
SCALE = b"bartserve.power"
_OPTIONS = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 3))
_WIDTHS = (np.int8, np.int16, np.int32)


def checksum(data: bytes) -> str:
    """SHA-256 of stored bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest(names: Sequence[str], checksums: Iterable[str]) -> str:
    """What names a table's content: of the columns' names and of the blocks' checksums, in order."""
    return hashlib.sha256("".join([*names, *checksums]).encode()).hexdigest()


def cut(column: pa.ChunkedArray, rows: int) -> Iterator[bytes]:
    """The blocks of one storable column, at least one, of so many rows."""
    for start in range(0, max(len(column), 1), rows):
        yield write(column.slice(start, rows))


def storable(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as one of the types that a dataset holds: float64, bool, string, timestamp[us].

    Raises
    ------
    TypeError
        A column of another type.
    """
    kind = column.type
    if pa.types.is_dictionary(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column.cast(pa.float64(), safe=False)
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", tz=kind.tz))
    if not (pa.types.is_string(kind) or pa.types.is_boolean(kind)):
        raise TypeError(f"column {name!r} has type {kind}, which a dataset can't hold")
    return column


def write(column: pa.ChunkedArray) -> bytes:
    """The bytes of a block of at most `BLOCK_ROWS` rows of a storable column."""
    values = column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # of no chunk, or of several
        values = values.chunk(0) if values.num_chunks else pa.array([], column.type)
    metadata = None
    if pa.types.is_string(values.type):
        # A short level costs four bytes before compression.
        values = values.dictionary_encode()
    elif pa.types.is_float64(values.type):
        values, metadata = _narrowed(values)
    schema = pa.schema([pa.field("values", values.type, metadata=metadata)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
        writer.write_batch(pa.record_batch([values], schema=schema))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read(data: bytes) -> pa.Array:
    """The values of a block."""
    table = pa.ipc.open_stream(data).read_all()
    column = table.column("values").combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        return column.cast(pa.string())
    power = (table.schema.field("values").metadata or {}).get(SCALE)
    if power is None:
        return column
    numbers = column.fill_null(0).to_numpy() / 10.0 ** int(power)
    missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(numbers, mask=missing)


def _narrowed(values: pa.Array) -> tuple[pa.Array, dict[bytes, bytes] | None]:
    """Decimals as whole numbers; as they are where that isn't exact."""
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    numbers = values.fill_null(0.0).to_numpy() if missing is not None else values.to_numpy()
    power = next((p for p in range(MAX_POWER + 1) if _is_exact(numbers[:64], p)), None)
    while power is not None and power <= MAX_POWER:
        if _is_exact(numbers, power):
            whole = np.rint(numbers * 10.0**power)
            return pa.array(whole.astype(_width(whole)), mask=missing), {SCALE: str(power).encode()}
        power += 1
    return values, None


def _is_exact(numbers: NDArray[np.float64], power: int) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.rint(numbers * 10.0**power)
        if not np.all(np.abs(whole) < 2**31 - 1):
            return False
        # Compared as bits: minus zero is not zero.
        back = whole.astype(np.int32) / 10.0**power
    return bool(np.array_equal(back.view(np.int64), numbers.view(np.int64)))


def _width(whole: NDArray[np.float64]) -> type[np.signedinteger]:
    low, high = (whole.min(), whole.max()) if len(whole) else (0, 0)
    return next(kind for kind in _WIDTHS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
