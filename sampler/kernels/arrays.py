"""The arrays that kernels share, their numba types, and the names of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numba import types

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Ints = NDArray[np.int32]
    Longs = NDArray[np.int64]
    Words = NDArray[np.uint64]
    Floats = NDArray[np.float64]
    # machine scalars, whose widths the kernels' signatures give; the names are for the reader
    Int = Any
    Float = Any
    Bool = Any
    Word = Any

MISSING = 255
ABSENT = -1  # no parent, no high plane, no pending move
BYTE_LEAVES = 255  # slots 0..254 fit a byte; 255 marks the rows that pad a column to a multiple of 64
PAD = 255
NO_LEAF = 254  # the trial leaf of a pass without a trial, for trees of 8 leaves at most
LANES = 64  # rows are padded to a multiple of this

# columns of Forest.node (splits) and Forest.leaf; a child >= 0 is a split, ~child is a leaf slot
FEATURE, CUT, SIDE, LEFT, RIGHT, PARENT = 0, 1, 2, 3, 4, 5


class Data(NamedTuple):
    """Training rows: codes uint8 [p, rows], padded; low, high, missing of each column; weights int32."""

    codes: Bytes
    low: Longs
    high: Longs
    missing: Bytes
    weights: Ints
    num_rows: int
    num_seen: int  # rows with a positive weight
    labels: Bytes  # [n] 0 or 1 for probit, else empty
    examples: Ints  # [p, 256, 8], some rows of each code


u1, i4, i8, u8, f8, void, boolean = (
    types.uint8,
    types.int32,
    types.int64,
    types.uint64,
    types.float64,
    types.void,
    types.boolean,
)


named: Any = types.NamedTuple


def pair(first: Any, second: Any, *more: Any) -> Any:
    """The type of a tuple returned."""
    return types.Tuple((first, second, *more))  # type: ignore[no-untyped-call]


def array(dtype: types.Type, dimensions: int = 1) -> types.Array:
    """A C-contiguous array type."""
    return types.Array(dtype, dimensions, "C")


bytes_1, ints_1, longs_1, words_1, floats_1 = (array(dtype) for dtype in (u1, i4, i8, u8, f8))
bytes_2, floats_2, longs_2 = array(u1, 2), array(f8, 2), array(i8, 2)
data_t = named((bytes_2, longs_1, longs_1, bytes_1, ints_1, i8, i8, bytes_1, array(i4, 3)), Data)
