"""Types of arrays that many modules name."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]  # bins of features, or other bytes by row
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]


class Axes(tuple[str, ...]):
    """Axes of an array, which stand in its annotation: ``Annotated[Floats, Axes("row", "class?")]``.

    One with a question mark may be absent, such as that of the classes where there are two, or none.
    """

    __slots__ = ()

    def __new__(cls, *names: str) -> Self:
        return super().__new__(cls, names)


ByRow = Annotated[Floats, Axes("row")]
ByRowAndClass = Annotated[Floats, Axes("row", "class?")]
ByPoint = Annotated[Floats, Axes("point", "point?", "point?", "class?")]  # of one to three features
ByClass = Annotated[Any, Axes("class?")]  # a number where there is no such axis
BoolsByRow = Annotated[Bools, Axes("row")]
