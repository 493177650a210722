"""Numba types of the kernels' arrays and scalars as annotations, training rows, and columns of the tables.

A kernel's signature and the numba type of a NamedTuple are read from their annotations: `Ints2` is a
C-contiguous int32 array of two dimensions to numba, and NDArray[np.int32] to a type checker.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np
from numba import types
from numpy.typing import NDArray

u1, i4, i8, u8, f8, void, boolean = (
    types.uint8,
    types.int32,
    types.int64,
    types.uint64,
    types.float64,
    types.void,
    types.boolean,
)


def array(dtype: types.Type, dimensions: int = 1) -> types.Array:
    """Make a C-contiguous array type."""
    return types.Array(dtype, dimensions, "C")


Byte = Annotated[Any, u1]
Int32 = Annotated[Any, i4]
Int = Annotated[Any, i8]
Word = Annotated[Any, u8]
Float = Annotated[Any, f8]
Bool = Annotated[Any, boolean]
Bytes = Annotated[NDArray[np.uint8], array(u1)]
Bytes2 = Annotated[NDArray[np.uint8], array(u1, 2)]
Ints = Annotated[NDArray[np.int32], array(i4)]
Ints2 = Annotated[NDArray[np.int32], array(i4, 2)]
Ints3 = Annotated[NDArray[np.int32], array(i4, 3)]
Longs = Annotated[NDArray[np.int64], array(i8)]
Longs2 = Annotated[NDArray[np.int64], array(i8, 2)]
Longs3 = Annotated[NDArray[np.int64], array(i8, 3)]
Shorts = Annotated[NDArray[np.uint16], array(types.uint16)]
Bools = Annotated[NDArray[np.bool_], array(boolean)]
Words = Annotated[NDArray[np.uint64], array(u8)]
Floats = Annotated[NDArray[np.float64], array(f8)]
Floats2 = Annotated[NDArray[np.float64], array(f8, 2)]
Floats3 = Annotated[NDArray[np.float64], array(f8, 3)]
Model = Annotated[Any, "leaf model"]  # whichever a group of kernels is compiled for


@cache
def numba_type(hint: Any, model: type | None = None) -> Any:
    """Find the numba type of an annotation: a name above, None, `Model`, a NamedTuple or a tuple of such."""
    if hint in (None, type(None)):
        return void
    if hint == Model:
        assert model, "a kernel that takes a leaf model needs one in its group"
        return numba_type(model)
    if hasattr(hint, "__metadata__"):
        return hint.__metadata__[0]
    if not hasattr(hint, "_fields"):
        pair: Any = types.Tuple
        return pair(tuple(numba_type(member, model) for member in get_args(hint)))
    hints = get_type_hints(hint, include_extras=True)
    kinds = [numba_type(hints[name], model) for name in hint._fields]
    named: Any = types.NamedTuple
    alike: Any = types.NamedUniTuple
    return named(kinds, hint) if len(set(kinds)) > 1 else alike(kinds[0], len(kinds), hint)


def signature_of(function: Any, model: type | None = None) -> Any:
    """Read a numba signature from a function's annotations, with a leaf model in place of `Model`."""
    hints = get_type_hints(function, include_extras=True)
    result = numba_type(hints.pop("return"), model)
    return result(*(numba_type(hint, model) for hint in hints.values()))


MISSING = 255
ABSENT = -1  # no parent, no high plane, no pending move
BYTE_LEAVES = 255  # slots 0..254 fit a byte; 255 marks the rows that pad a column to a multiple of 64
PAD = 255
NO_LEAF = 254  # the trial leaf of a pass without a trial, for trees of 8 leaves at most
LANES = 64  # rows are padded to a multiple of this

# columns of Forest.node (splits) and Forest.leaf; a child >= 0 is a split, ~child is a leaf slot
FEATURE, CUT, SIDE, LEFT, RIGHT, PARENT = 0, 1, 2, 3, 4, 5


class Data(NamedTuple):
    """Coded training rows, padded; lowest and highest code and whether any is missing, for each column."""

    codes: Bytes2
    low: Longs
    high: Longs
    missing: Bytes
    num_rows: Int
    examples: Ints3  # [p, 256, 8], some rows of each code
    most_equal: Int  # no more rows than this are equal: of more rows, two differ
