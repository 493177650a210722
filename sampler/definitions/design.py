"""Design of a fit: the numeric coded columns of its rows before binning, as an array or read on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol


class Design(Protocol):
    """Coded columns, float64 [column, n], NaN where missing: a NumPy array, or what is indexed like one.

    An index is a column, or a pair of columns and rows. Reading successive rows is quick; all else may read
    columns in whole, so that each loop over columns should do much with them.
    """

    @property
    def shape(self) -> Any:
        """Numbers of columns and rows."""

    @property
    def size(self) -> int:
        """Number of cells."""

    def __len__(self) -> int:
        """Count the columns."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over columns, float64 [n] each."""

    def __getitem__(self, key: Any, /) -> Any:
        """Read a column, float64 [row], or several, float64 [column, row]."""
