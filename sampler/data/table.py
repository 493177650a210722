"""Tables of any supported library as plain typed columns.

NumPy, pandas, polars, pyarrow (its Parquet files too) and mappings of columns are supported. A column is read
on request, as a float64 array with NaN for missing (numbers, booleans as 0 and 1, dates as days since 1970),
or as a list of Python objects with None for missing (text and mixed types, so that an error can name the
row).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from sampler.data.scalars import (
    BEYOND,
    MICROSECONDS_A_DAY,
    as_float,
    as_text,
    date_to_days,
    days_since_1970,
    has_zone,
    is_missing,
    type_of_cell,
)
from sampler.errors import DataError, DataProblem

Type = Literal["number", "boolean", "date", "text", "mixed", "other"]
ALL = slice(None)  # rows
KEPT_BLOCKS = 2


@dataclass(frozen=True)
class RawColumn:
    """One column as read: `numbers` (float64 [n], NaN missing), or `cells` (Python objects, None missing).

    A column of numbers has `cells` too where float64 doesn't tell all of its integers apart.
    """

    name: str
    type: Type
    numbers: NDArray[np.float64] | None = None
    cells: list[Any] | None = None
    dtype: str = ""  # the source library's name of an unusable type
    levels: tuple[str, ...] = ()  # its levels in order, where that was given
    categories: tuple[str, ...] = ()  # of a categorical of pandas, in their order, which may mean nothing
    zone: str | None = None  # of its dates and times: "" without one, None where only some have one

    def __len__(self) -> int:
        if self.numbers is not None:
            return len(self.numbers)
        return len(self.cells or ())

    @property
    def is_missing(self) -> NDArray[np.bool_]:
        """Whether each cell is missing, bool [n]."""
        if self.numbers is not None:
            return np.isnan(self.numbers)
        return np.array([cell is None for cell in self.cells or ()], dtype=bool)

    @cached_property
    def labelled(self) -> tuple[NDArray[np.intp], list[str]]:
        """Number of each cell among the different ones, intp [n], -1 for missing, and these as text."""
        cells, position = self.cells or [], dict[str, int]()
        plain = set(map(type, cells)) <= {str, type(None)}
        names = cells if plain else [cell if cell is None else as_text(cell) for cell in cells]
        index = [-1 if name is None else position.setdefault(name, len(position)) for name in names]
        return np.array(index, dtype=np.intp), list(position)

    def equals(self, other: RawColumn) -> bool:
        """Tell whether another column has the same values; true and false are 1 and 0."""
        if self.numbers is None or other.numbers is None:
            return self.numbers is None and other.numbers is None and self.cells == other.cells
        return np.array_equal(self.numbers, other.numbers, equal_nan=True)

    def part(self, rows: NDArray[np.int64] | slice) -> RawColumn:
        """Select some of the rows."""
        numbers, cells = self.numbers, self.cells
        if cells is not None:
            cells = cells[rows] if isinstance(rows, slice) else [cells[i] for i in rows]
        return replace(self, numbers=None if numbers is None else numbers[rows], cells=cells)

    @property
    def zones(self) -> frozenset[bool]:
        """Whether its dates and times, also as ISO 8601 text, have a zone: both, if only some have."""
        if self.type == "date":
            return frozenset({bool(self.zone)} if self.zone is not None and self.missing < len(self) else ())
        return frozenset(has_zone(cell) for cell in self.cells or () if isinstance(cell, str))

    @property
    def missing(self) -> int:
        """Number of missing cells."""
        return int(np.count_nonzero(self.is_missing))


class _Once:
    """Reader of a column that keeps it when it is first asked for."""

    def __init__(self, reader: Callable[[slice], RawColumn]) -> None:
        self._reader = reader
        self._whole: RawColumn | None = None

    def __call__(self, rows: slice) -> RawColumn:
        self._whole = self._reader(ALL) if self._whole is None else self._whole
        return self._whole if rows == ALL else self._whole.part(rows)


class BlockReader:
    """Reader of a column that lies in blocks of rows, of which it keeps the one or two read last.

    Parameters
    ----------
    name
        Name of the column.
    starts
        First row of each block, and the number of rows, int64 [block + 1].
    read
        Reads a chunked column of Arrow: blocks from a first one up to, and without, a last one.

    """

    def __init__(self, name: str, starts: NDArray[np.int64], read: Callable[[int, int], Any]) -> None:
        self._name, self._starts, self._read = name, starts, read
        self._kept: tuple[int, int, Any] = (0, 0, None)

    def __call__(self, rows: slice) -> RawColumn:
        start, stop, _ = rows.indices(int(self._starts[-1]))
        first = max(int(np.searchsorted(self._starts, start, "right")) - 1, 0)
        last = max(int(np.searchsorted(self._starts, stop)), first + 1)
        low, high, values = self._kept
        if not low <= first < last <= high:
            low, high, values = first, last, self._read(first, last)
            self._kept = (low, high, values) if last - first <= KEPT_BLOCKS else (0, 0, None)
        return read_column(values.slice(start - int(self._starts[low]), stop - start), self._name)


@dataclass(frozen=True)
class Table:
    """Columns of equal length, by name; `column(name)` reads one. `labels` is the index of a pandas table."""

    names: list[str]
    num_rows: int
    readers: Mapping[str, Callable[[slice], RawColumn]]
    labels: Any = None

    def column(self, name: str, rows: slice = ALL) -> RawColumn:
        """Read the column of that name, which must be among `names`, or some successive rows of it.

        Where a column has `numbers`, its parts have the same ones. Other types are those of the cells read.
        """
        return self.readers[name](rows)

    def reading_once(self, names: Collection[str]) -> Table:
        """Read some columns once, however often they are asked for."""
        readers = {name: _Once(each) if name in names else each for name, each in self.readers.items()}
        return replace(self, readers=readers)

    def part(self, rows: NDArray[np.int64]) -> Table:
        """Select some of the rows; columns are still read on request."""

        def select(reader: Callable[[slice], RawColumn], of_these: slice) -> RawColumn:
            chosen = rows[of_these]
            if of_these == ALL or not len(chosen):
                return reader(ALL).part(chosen)
            first, last = int(chosen.min()), int(chosen.max())
            return reader(slice(first, last + 1)).part(chosen - first)

        readers = {name: partial(select, each) for name, each in self.readers.items()}
        return Table(self.names, len(rows), readers, None if self.labels is None else self.labels[rows])

    def without(self, names: Collection[str]) -> Table:
        """Leave out some columns."""
        readers = {name: each for name, each in self.readers.items() if name not in names}
        return replace(self, names=list(readers), readers=readers)

    def with_columns(self, columns: Mapping[str, RawColumn]) -> Table:
        """Add columns that were read, in place of those of their names."""
        readers = dict(self.readers)
        for name, column in columns.items():
            readers[name] = partial(read_column, column, name)
        return replace(self, names=list(readers), readers=readers)


def read(table: Any) -> Table:
    """Open a table of any supported library.

    The columns of a 2-D NumPy array are called x1, x2, ... from left to right.

    Returns
    -------
    Table
        The table; its columns are read when asked for.

    Raises
    ------
    DataError
        For anything that is not a table, and for repeated column names.

    """
    if isinstance(table, Table):
        return table
    if isinstance(table, Mapping):
        return _from_mapping(table)
    if hasattr(table, "read_row_groups"):
        return _from_parquet(table)
    if is_array(table):
        table = np.asanyarray(table)  # a masked one keeps its mask
        return _from_mapping({f"x{j + 1}": table[:, j] for j in range(table.shape[1])}, len(table))
    if isinstance(table, np.ndarray):
        raise DataError(f"a table has two dimensions, rows and columns; this array has {table.ndim}")
    return _from_frame(table)


def read_rows(rows: Any) -> Table:
    """Open new rows: a table, one row as a mapping or pandas series of values by name, or a list of such.

    Returns
    -------
    Table
        The rows.

    Raises
    ------
    DataError
        As `read`, and for a row of a list without a value that others have.

    """
    if _is_row(rows):
        return _from_rows([rows])
    if isinstance(rows, list | tuple) and rows and all(map(_is_row, rows)):
        return _from_rows(list(rows))
    return read(rows)


def is_array(table: Any) -> bool:
    """Tell whether a table is a 2-D array, whose columns have no names."""
    return hasattr(table, "__array__") and getattr(table, "ndim", None) == 2 and not hasattr(table, "columns")


def _is_row(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(isinstance(v, str) or not hasattr(v, "__len__") for v in value.values())
    pandas = type(value).__module__.partition(".")[0] == "pandas"
    return pandas and getattr(value, "ndim", None) == 1 and hasattr(value, "items")


def _from_rows(rows: list[Any]) -> Table:
    named = [{str(name): value for name, value in row.items()} for row in rows]
    names = dict.fromkeys(name for row in named for name in row)
    problems = [
        DataProblem(name, i + 1, "this row lacks the column, which other rows have; give None where unknown")
        for i, row in enumerate(named)
        for name in names
        if name not in row
    ]
    if problems:
        raise DataError(problems)
    return _from_mapping({name: [row[name] for row in named] for name in names})


def read_column(values: Any, name: str, rows: slice = ALL) -> RawColumn:
    """Read a 1-D column: a NumPy array, a pandas, polars or pyarrow column, a list, or one that was read.

    Of all its rows, or of successive ones.

    Returns
    -------
    RawColumn
        The column.

    Raises
    ------
    DataError
        For anything else.

    """
    if isinstance(values, RawColumn):
        column = values if values.name == name else replace(values, name=name)
        return column if rows == ALL else column.part(rows)
    if rows != ALL:
        values = getattr(values, "iloc", values)[rows]
    values = one_column(_unwrapped(values))
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise DataError(f"{name!r} must have one dimension; this array has {values.ndim}")
        return _from_array(values, name)
    if isinstance(values, list | tuple):
        return from_cells(list(values), name)
    try:
        return _from_series(nw.from_native(values, series_only=True), name)
    except TypeError:
        kind = type(values).__name__
        raise DataError(f"{name!r} must be one column: an array, a series or a list, not {kind}") from None


def one_column(values: Any) -> Any:
    """Return the column of a table with a single column; any other value is returned unchanged."""
    if isinstance(values, np.ndarray):
        return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    names: Any = getattr(values, "columns", None)
    if isinstance(values, Mapping) or not hasattr(names, "__len__") or len(names) != 1:
        return values
    frame = nw.from_native(values, eager_only=True, pass_through=True)
    return frame[:, 0].to_native() if isinstance(frame, nw.DataFrame) else values


def row_labels(values: Any) -> Any:
    """Return the index of a pandas object; None for any other."""
    labels: Any = getattr(values, "index", None)
    return labels if hasattr(labels, "equals") else None


def check_row_labels(named: Mapping[str, Any]) -> None:
    """Raise DataError where indexes of pandas objects, by the objects' names, differ; None is no index."""
    known = [(name, labels) for name, labels in named.items() if labels is not None]
    for name, labels in known[1:]:
        if not labels.equals(known[0][1]):
            raise DataError(
                f"{known[0][0]} and {name} have different row labels (pandas index), so which rows belong "
                "together is unclear: align them by .loc[X.index], or give arrays (.to_numpy()) where the "
                "order is the same"
            )


def _unwrapped(values: Any) -> Any:
    """Convert columns that narwhals does not take as series: pyarrow arrays, pandas indexes and arrays."""
    kind, module = type(values).__name__, type(values).__module__.partition(".")[0]
    if module == "pyarrow" and kind.endswith("Array") and kind != "ChunkedArray":
        if kind == "DictionaryArray":
            values = values.dictionary_decode()
        if str(values.type).startswith("timestamp"):  # numpy has no zones
            return sys.modules["pyarrow"].chunked_array([values])
        if values.null_count and "int" in str(values.type):  # numpy would have floats
            return values.to_pylist()
        return values.to_numpy(zero_copy_only=False)
    if module == "pandas" and hasattr(values, "_from_sequence"):  # an array of nullable integers, say
        return sys.modules["pandas"].Series(values)
    return np.asarray(values) if module == "pandas" and kind.endswith("Index") else values


def _from_mapping(columns: Mapping[Any, Any], num_rows: int = 0) -> Table:
    names = [str(name) for name in columns]
    _reject_doubled(names)
    lengths = {}
    for name, values in zip(names, columns.values(), strict=True):
        if not hasattr(values, "__len__") or isinstance(values, str):
            raise DataError([DataProblem(name, None, "a column must be an array or a list of values")])
        lengths[name] = len(values)
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns differ in length: {lengths}")
    readers = {}
    for name, values in zip(names, columns.values(), strict=True):
        reader = partial(read_column, values, name)
        readers[name] = _Once(reader) if isinstance(values, list | tuple) else reader
    labels = {f"column {name!r}": row_labels(values) for name, values in columns.items()}
    check_row_labels(labels)
    first = next((each for each in labels.values() if each is not None), None)
    return Table(names, next(iter(lengths.values()), num_rows), readers, first)


def _from_parquet(file: Any) -> Table:
    """Open a Parquet file of pyarrow, whose columns are read by groups of rows."""
    names = list(file.schema_arrow.names)
    _reject_doubled(names)
    groups = (file.metadata.row_group(k).num_rows for k in range(file.num_row_groups))
    starts = np.cumsum([0, *groups])

    def read_groups(name: str, first: int, last: int) -> Any:
        return file.read_row_groups(range(first, last), columns=[name]).column(0)

    readers = {name: BlockReader(name, starts, partial(read_groups, name)) for name in names}
    return Table(names, file.metadata.num_rows, readers)


def _from_frame(table: Any) -> Table:
    if hasattr(table, "toarray") and hasattr(table, "nnz"):
        raise DataError("a sparse matrix can't be used as it is: give its .toarray()")
    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        allowed = "a pandas, polars or pyarrow table, a ParquetFile, a 2-D array or a mapping of columns"
        raise DataError(f"a table must be {allowed}, not {type(table).__name__}") from None
    except nw.exceptions.DuplicateError:
        frame = None  # named below
    own_names = list(getattr(table, "column_names", None) or table.columns)
    names = [str(name) for name in own_names]
    _reject_doubled(names)
    if names != own_names and hasattr(table, "set_axis"):  # pandas takes any object for a name
        frame = nw.from_native(table.set_axis(names, axis=1), eager_only=True)
    readers = {name: partial(_read_frame_column, frame, name) for name in names}
    return Table(names, len(frame), readers, row_labels(table))


def _read_frame_column(frame: Any, name: str, rows: slice) -> RawColumn:
    series = frame.get_column(name)
    return _from_series(series if rows == ALL else series[rows], name)


def _reject_doubled(names: list[str]) -> None:
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise DataError(
            [DataProblem(name, None, "there are several columns of this name") for name in doubled]
        )


def _from_array(values: NDArray[Any], name: str) -> RawColumn:
    kind = values.dtype.kind
    if isinstance(values, np.ma.MaskedArray):
        return _from_masked(values, name)
    if kind in "iuf":
        return _from_numbers(values.astype(np.float64), name, None if kind == "f" else values.tolist)
    if kind == "b":
        return RawColumn(name, "boolean", values.astype(np.float64))
    if kind == "M":
        return RawColumn(name, "date", days_since_1970(values), zone="")
    if kind in "OUT":
        return from_cells(values.tolist(), name)
    return RawColumn(name, "other", cells=[None] * len(values), dtype=str(values.dtype))


def _from_masked(values: np.ma.MaskedArray[Any, Any], name: str) -> RawColumn:
    """Read a masked array; masked cells are missing, whatever their values."""
    hidden = np.ma.getmaskarray(values)
    if values.dtype.kind in "OUT":
        return from_cells(_without(hidden, values.data.tolist()), name)
    filled = _from_array(np.asarray(values.filled(np.zeros(1, values.dtype)[0])), name)
    if filled.numbers is not None:
        filled.numbers[hidden] = math.nan
    return filled if filled.cells is None else replace(filled, cells=_without(hidden, filled.cells))


def _without(hidden: NDArray[np.bool_], cells: list[Any]) -> list[Any]:
    return [None if gone else cell for gone, cell in zip(hidden.tolist(), cells, strict=True)]


def _from_numbers(
    numbers: NDArray[np.float64], name: str, cells: Callable[[], list[Any]] | None
) -> RawColumn:
    """Make a column of numbers, with the integers as `cells` where some are too large for float64."""
    if cells is None or not np.any(np.abs(numbers) >= BEYOND):
        return RawColumn(name, "number", numbers)
    return RawColumn(name, "number", numbers, [None if is_missing(cell) else cell for cell in cells()])


def _from_series(series: Any, name: str) -> RawColumn:
    native: Any = series.to_native()
    if type(getattr(native, "dtype", None)).__name__ == "PeriodDtype":  # of pandas: by their first moments
        series = nw.from_native(native.dt.to_timestamp(), series_only=True)
    dtype = series.dtype
    family = str(dtype).partition("(")[0]
    if dtype.is_numeric():
        return _from_numbers(_floats(series), name, None if dtype.is_float() else series.to_list)
    if family == "Boolean":
        return RawColumn(name, "boolean", _floats(series))
    if family in {"Datetime", "Date"}:
        return RawColumn(name, "date", _dates(series), zone=getattr(dtype, "time_zone", None) or "")
    if family in {"Categorical", "Enum"}:  # whatever its levels are made of
        return RawColumn(
            name,
            "text",
            cells=[None if is_missing(c) else as_text(c) for c in series.to_list()],
            levels=tuple(as_text(level) for level in _in_order(native)),
            categories=tuple(map(as_text, native.dtype.categories))
            if hasattr(getattr(native, "dtype", None), "ordered")
            else (),
        )
    if family in {"String", "Object", "Unknown"}:
        is_arrow = family == "String" and hasattr(native, "chunks")
        return from_cells(_texts(native) if is_arrow else series.to_list(), name)
    return RawColumn(name, "other", cells=[None] * len(series), dtype=family)


def _texts(column: Any) -> list[str | None]:
    """List the texts of a chunked column of Arrow: equal ones are one object, as they are often many."""
    known: dict[str, str] = {}
    cells: list[str | None] = []
    for chunk in column.chunks:
        coded = chunk.dictionary_encode()
        names = [known.setdefault(text, text) for text in coded.dictionary.to_pylist()]
        cells += [None if place is None else names[place] for place in coded.indices.to_pylist()]
    return cells


def _in_order(native: Any) -> Any:
    """Return the categories of a column of pandas or polars whose type puts them in order; else none."""
    dtype: Any = getattr(native, "dtype", None)  # a column of Arrow has none
    if getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum":
        return dtype.categories
    return ()


def _floats(series: Any) -> NDArray[np.float64]:
    try:
        series = series.cast(nw.Float64)
    except ValueError:  # Arrow casts no integers that it would round
        cells = series.to_list()
        return np.array([math.nan if is_missing(cell) else as_float(cell) for cell in cells])
    if series.null_count():
        series = series.fill_null(math.nan)
    return np.asarray(series.to_numpy(), dtype=np.float64)


def _dates(series: Any) -> NDArray[np.float64]:
    zone = getattr(series.dtype, "time_zone", None)
    if zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    missing = np.asarray(series.is_null().to_numpy(), dtype=bool)
    series = series.cast(nw.Datetime("us")).dt.timestamp("us")
    # In integers: Arrow refuses to cast microseconds of the year 9999 (often meaning "never") to float64.
    moments = series.fill_null(0) if missing.any() else series
    days = np.asarray(moments.to_numpy(), dtype=np.int64) / MICROSECONDS_A_DAY
    days[missing] = math.nan
    return days


def from_cells(cells: list[Any], name: str) -> RawColumn:
    """Make a column of Python objects: typed where all present cells agree, else "mixed"."""
    if set(map(type, cells)) <= {float, type(None)}:  # as most are in JSON: no look at each
        return _from_numbers(np.array(cells, dtype=np.float64), name, lambda: cells)
    cells = [None if is_missing(cell) else cell for cell in cells]
    types = {type_of_cell(cell) for cell in cells if cell is not None}
    if types <= {"number"}:
        return _from_numbers(
            np.array([as_float(cell) for cell in cells], dtype=np.float64), name, lambda: cells
        )
    if types == {"boolean"}:
        return RawColumn(name, "boolean", np.array([as_float(cell) for cell in cells], dtype=np.float64))
    if types == {"date"}:
        days = np.array(
            [math.nan if cell is None else date_to_days(cell) for cell in cells], dtype=np.float64
        )
        aware = {isinstance(cell, datetime) and cell.tzinfo is not None for cell in cells if cell is not None}
        return RawColumn(name, "date", days, zone=None if len(aware) > 1 else "UTC" if True in aware else "")
    if types == {"text"}:
        return RawColumn(name, "text", cells=cells)
    return RawColumn(name, "mixed", cells=cells)
