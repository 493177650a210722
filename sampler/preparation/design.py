"""Numeric coded columns of training rows, read from their table whenever they are needed.

A fit needs them one by one, or some rows of all: no copy of the whole table is held as floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.convert import to_floats
from sampler.data.encode import indicator, train_column
from sampler.data.level_means import LevelOutcomes
from sampler.data.schema import Column, FeatureKind
from sampler.data.table import ALL, RawColumn, Table
from sampler.definitions.design import Design
from sampler.errors import DataProblem


class TableDesign:
    """Coded columns of a table's rows (`sampler.definitions.design.Design`).

    Of categories the level of each row is kept, and the values of numbers that are text or a mixture of
    types; all other numbers are read from the table again.
    """

    def __init__(self, table: Table, outcomes: LevelOutcomes | None = None) -> None:
        self._table, self._outcomes = table, outcomes
        self._readers: list[Callable[[slice], Floats]] = []

    def add(self, raw: RawColumn, kind: FeatureKind, problems: list[DataProblem]) -> Column:
        """Add the coded columns of a feature; return it as the schema has it.

        Problems are appended to `problems`.
        """
        column, kept = train_column(raw, kind, problems, self._outcomes)
        if kind == "category":
            level = kept.astype(np.int16)
            self._readers += [partial(_indicator, column, level, name) for name in column.indicators]
        elif raw.numbers is None or kind == "encoded":
            self._readers.append(kept.__getitem__)
        else:
            self._readers.append(partial(_read, self._table, raw.name, kind))
        return column

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of columns and rows."""
        return len(self._readers), self._table.num_rows

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self._readers) * self._table.num_rows

    def __len__(self) -> int:
        return len(self._readers)

    def __iter__(self) -> Iterator[Floats]:
        return (read(ALL) for read in self._readers)

    def __getitem__(self, key: Any) -> Floats:
        """Read a column, or columns and rows as from an array, laid out in memory as NumPy would."""
        columns, rows = key if isinstance(key, tuple) else (key, ALL)
        in_turn = isinstance(rows, slice)
        if not isinstance(columns, slice | np.ndarray):
            reader = self._readers[columns]
            return reader(rows) if in_turn else reader(ALL)[rows]
        readers = [self._readers[k] for k in np.arange(len(self))[columns]]
        if in_turn:
            return np.stack([read(rows) for read in readers])
        return np.stack([read(ALL)[rows] for read in readers], axis=1).T


class ColumnsOfDesign:
    """Some columns of a design, in their order."""

    def __init__(self, design: Design, columns: NDArray[np.int64]) -> None:
        self._design, self._columns = design, columns

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of columns and rows."""
        return len(self._columns), self._design.shape[1]

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self._columns) * int(self._design.shape[1])

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[Floats]:
        return (self._design[column] for column in self._columns)

    def __getitem__(self, key: Any) -> Floats:
        """Read a column, or columns and rows as from an array."""
        columns, rows = key if isinstance(key, tuple) else (key, ALL)
        chosen = self._columns[columns]
        if not chosen.ndim:
            return np.asarray(self._design[int(chosen), rows])
        read = np.empty((len(chosen), len(np.arange(self.shape[1])[rows])))
        for own, column in zip(read, chosen.tolist(), strict=True):
            own[:] = self._design[column, rows]
        return read


class RowsOfDesign:
    """Some rows of a design, in their order, read from it whenever they are needed."""

    def __init__(self, design: Design, rows: NDArray[np.int64]) -> None:
        self._design, self._rows = design, rows

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of columns and rows."""
        return len(self._design), len(self._rows)

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self._design) * len(self._rows)

    def __len__(self) -> int:
        return len(self._design)

    def __iter__(self) -> Iterator[Floats]:
        return (column[self._rows] for column in self._design)

    def __getitem__(self, key: Any) -> Floats:
        """Read a column, or columns and rows; of successive rows only what lies between them is read."""
        columns, rows = key if isinstance(key, tuple) else (key, ALL)
        chosen = self._rows[rows]
        if not isinstance(rows, slice) or len(chosen) == 0:
            return np.asarray(self._design[columns, chosen])
        first = int(chosen[0])
        return np.asarray(self._design[columns, first : int(chosen[-1]) + 1][..., chosen - first])


def _read(table: Table, name: str, kind: FeatureKind, rows: slice) -> Floats:
    return to_floats(table.column(name, rows), kind, [], read_text=False)


def _indicator(column: Column, level: NDArray[np.int16], name: str | None, rows: slice) -> Floats:
    return indicator(column, level[rows], name)
