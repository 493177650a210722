"""From a file to typed columns, with a report of how it was read."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from app.services.errors import Fault, InvalidRequestError, UnusableDataError
from app.services.readers.columnar import read_columnar
from app.services.readers.delimited import read_delimited
from app.services.readers.dialect import NUMBER, Dialect
from app.services.readers.encodings import as_utf8
from app.services.readers.json_records import read_json
from app.services.readers.options import LONG, TEXTS, WORKBOOKS, WRITTEN, CsvStyle, Options, ReaderLimits
from app.services.readers.scratch import Scratch
from app.services.readers.spool import Spool
from app.services.readers.unpack import format_of, unpack
from app.services.readers.values import numbers
from app.services.readers.values.numbers import Style
from app.services.readers.values.typing_text import Typing, dates_of_typed, doubt_of_typed
from app.services.readers.wide import make_long
from app.services.readers.workbook import read_workbook
from app.store.column_codec import exact_numbers
from sampler.host.data import counted
from sampler.host.data import value_as_text as as_text
from sampler.host.wide import WideTimes, long_names, wide_times

FORMATS = {
    "csv": "CSV",
    "parquet": "Parquet",
    "arrow": "Arrow",
    "xlsx": "Excel",
    "xlsb": "Excel",
    "xls": "Excel",
    "ods": "OpenDocument",
    "json": "JSON",
}
# Options, with their names in requests, that other formats than text don't have.
OF_TEXT = {"separator": "separator", "quote": "quoting", "encoding": "encoding"}
OF_TABLES = {"header": "header", "sheet": "sheets"}
OF_MODEL = {"decimal": "decimal sign", "dates": "order of dates", "missing": "missing values"}
LABELS = 3  # columns in which the label of totals may stand
FEWEST_ABOVE_TOTALS = 3
TOTALS = re.compile(
    r"^\s*((grand|sub|sum)[ -]?)?totals?\b"
    r"|^\s*(sum(me)?|gesamt(summe)?|insgesamt|totale?|totaal|somme|suma)\s*:?\s*$",
    re.IGNORECASE,
)
WORDS = {"semicolon": "semicolons", "comma": "commas", "tab": "tabs", "bar": "bars", "space": "spaces"}


class ReadColumn(NamedTuple):
    """A column of a file, typed.

    `text` holds its cells as they were written, None in formats with types; `decimal` is the decimal sign
    that they show or the caller gives.
    """

    position: int
    name: str
    values: pa.ChunkedArray
    note: str
    text: pa.ChunkedArray | None
    decimal: Style | None


@dataclass
class ReadTable:
    """A table read from a file; `columns` types its columns one at a time.

    `read_as` and `warnings` are complete once all columns have been consumed.
    """

    spool: Spool
    options: Options
    read_as: dict[str, Any]
    dialect: Dialect | None = None
    warnings: list[str] = field(default_factory=list)
    leaves_out_totals: bool = False

    @cached_property
    def wide(self) -> WideTimes | None:
        """The columns that are named by times, of a table with a column for each; None for other tables."""
        return None if self.options.known or self.options.wide == "keep" else wide_times(self.spool.names)

    @property
    def num_rows(self) -> int:
        """Number of rows without the header and without totals that are left out."""
        return self.spool.num_rows - self.leaves_out_totals

    def columns(self) -> Iterator[ReadColumn]:
        """Yield the columns, not always in order; row labels are left out.

        Raises
        ------
        UnusableDataError
            Cells don't fit the requested kind or are infinite, or a column has no name; names the row.
        InvalidRequestError
            A kind is requested for a column that doesn't exist.
        """
        unknown = [name for name in self.options.kinds if name not in self.spool.names]
        if unknown and not self.options.known:
            message = "a kind is given for this column, which the file doesn't have"
            raise InvalidRequestError(errors=[Fault(name, None, message) for name in unknown])
        typing = Typing(self.options, self.read_as.get("separator"))
        later: list[int] = []
        for last in (False, True):
            for index, cells in self.spool.columns(None if not last else later):
                name, text = self.spool.names[index], cells.slice(0, self.num_rows)
                typed = self._typed(typing, name, text, last=last)
                if typed is None:
                    later.append(index)
                elif not self._is_left_out(typing, index, name, typed[0]):
                    yield self._described(typing, index, name, typed, text)
            if not later:
                break
        if typing.faults:
            raise UnusableDataError(errors=typing.faults)
        if self.dialect is not None or self.options.missing:
            missing = sorted(typing.missing.items(), key=lambda item: -item[1])
            self.read_as["missing"] = [{"text": text, "count": count} for text, count in missing[:20]]
            self.read_as["spellings"] = list(self.options.missing or ()) or None
        self.read_as["units"] = typing.units or None
        if self.dialect is not None:
            (order,) = typing.orders if len(typing.orders) == 1 else (None,)
            self.read_as["decimal"] = typing.decimal or ("point" if typing.guessed else None)
            self.read_as["decimal_guessed"] = typing.decimal is None and typing.guessed
            self.read_as["dates"] = self.options.dates or order

    def _described(
        self,
        typing: Typing,
        index: int,
        name: str,
        typed: tuple[pa.ChunkedArray, str],
        text: pa.ChunkedArray,
    ) -> ReadColumn:
        values, note = typed
        if not self._is_text(name):
            return ReadColumn(index, name, values, note, None, None)
        of_numbers = pa.types.is_floating(values.type)
        decimal = (self.options.decimal or typing.shown.get(name)) if of_numbers else None
        return ReadColumn(index, name, values, note, text, decimal)

    def _is_text(self, name: str) -> bool:
        """Return whether a column has cells as they were written."""
        return self.read_as["format"] == "csv" or name in self.options.as_text

    def _typed(
        self, typing: Typing, name: str, column: pa.ChunkedArray, *, last: bool
    ) -> tuple[pa.ChunkedArray, str] | None:
        kind = self.options.kinds.get(name)
        if self._is_text(name):
            return typing.read(name, column, last=last)
        if self.options.known:
            return column, ""  # as it is, since an answer may repeat it
        if numbers.is_numeric(column.type):
            column = exact_numbers(column)
        if self.options.missing:
            column = typing.without_missing(name, column)
        is_text = pa.types.is_string(column.type)
        are_levels = name in self.spool.categories
        if kind is None and is_text and not are_levels and (days := dates_of_typed(column)) is not None:
            return days, f"text that spells dates, read as such: ?kind={name}:category takes it as names"
        if kind is None or _is_already(kind, column.type):
            return column, doubt_of_typed(name, column) if kind is None and is_text else ""
        if is_text:
            return typing.read(name, column, last=True)
        return _converted(name, column, kind, typing.faults), ""

    def _is_left_out(self, typing: Typing, index: int, name: str, values: pa.ChunkedArray) -> bool:
        """Return whether to drop a column without a name: an empty one, or row numbers or names."""
        if self.dialect is None or index not in self.dialect.unnamed:
            return False
        position = f"column {index + 1} of the file has no name"
        if _is_blank(values):
            self.warnings.append(f"{position} and no values: it is left out")
            return True
        are_labels = values.null_count == 0 and pc.count_distinct(values).as_py() == len(values)
        if index == 0 and are_labels and _may_be_labels(values, consecutive=self.dialect.labels):
            self.warnings.append(f"{position} and identifies rows, like row numbers: it is left out")
            return True
        if name in self.options.known:
            return False
        if self.dialect.labels:
            width = len(self.dialect.names)
            message = f"the header names {width - 1} columns, the rows have {width} values: name every column"
            typing.faults.append(Fault(None, 1, f"{message}, row numbers too"))
        elif index > 0 and not self.options.known:
            message = f"column {index + 1} has no name in the header: name it, or take the column out"
            typing.faults.append(Fault(None, None, message))
        elif not self.options.known:
            self.warnings.append(f"{position}: it is called {name}")
            return False
        else:
            self.warnings.append(f"{position}: it is left out")
        return True

    @property
    def as_in_model(self) -> list[str]:
        """Parts of the reading that come from the file of the model: "decimal", "dates", "missing"."""
        if (model := self.options.model) is None:
            return []
        of_text = {"decimal": model.decimal, "dates": model.dates} if self.dialect is not None else {}
        told = of_text | {"missing": model.codes or model.missing}
        return [name for name, value in told.items() if value]

    def summary(self, kinds: list[str]) -> str:
        """Return how the file was read, in one line."""
        parts = [FORMATS[self.read_as["format"]]]
        if sheet := self.read_as.get("sheet"):
            parts.append(f"sheet {sheet!r}")
        if self.read_as["format"] == "csv":
            parts = [WORDS.get(self.read_as["separator"], "a single column"), self.read_as["encoding"]]
            parts += ["decimal commas"] if self.read_as["decimal"] == "comma" else []
        plural = {"category": "categories", "text": "text"}
        counted = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
        counts = ", ".join(
            f"{count} {kind if count == 1 else plural.get(kind, kind + 's')}"
            for kind, count in counted.items()
        )
        parts.append(f"{len(kinds)} column{'s' * (len(kinds) != 1)} ({counts})")
        line = f"read as: {', '.join(parts)}, {self.num_rows} row{'s' * (self.num_rows != 1)}"
        of_model = " and ".join(OF_MODEL[name] for name in self.as_in_model)
        return f"{line}; {of_model} as in the model's file" if of_model else line


@contextmanager
def open_table(file: BinaryIO, options: Options, limits: ReaderLimits) -> Iterator[ReadTable]:
    """Read a file of any format; temporary files are deleted with the context.

    Raises
    ------
    UnusableDataError, TooLargeError, InvalidRequestError
        The file can't be read, exceeds a limit, or an option doesn't fit; says what to do.
    """
    with Scratch(limits.leave) as scratch:
        yield _opened(file, options, limits, scratch)


def _opened(file: BinaryIO, options: Options, limits: ReaderLimits, scratch: Scratch) -> ReadTable:
    plain, compression = unpack(file, limits.bytes, scratch)
    kind = format_of(plain) or "csv"
    if options.format in {"parquet", "arrow"} and kind != options.format:
        title = "Parquet file" if options.format == "parquet" else "Arrow stream or file"
        raise UnusableDataError(f"This is not a {title}: it has another signature.")
    read_as: dict[str, Any] = {"format": kind, "compression": compression}
    read = _of_text if kind == "csv" else _of_cells
    table = read(plain, options, limits, scratch, read_as)
    if table.dialect is not None and table.dialect.title:
        line = table.dialect.line
        table.warnings.append(
            f"{table.dialect.title[:60]!r} and all else above line {line} is left out as a title: the header "
            f"is line {line}. If another line names the columns, say which (?header_line=...)"
        )
    _look_for_totals(table)
    _look_for_times(table, limits, scratch)
    return table


def _look_for_totals(table: ReadTable) -> None:
    """Tell of a last row that seems to sum the others, and leave it out if that is asked for."""
    spool = table.spool
    texts = [at for at, type_ in enumerate(spool.schema.types) if pa.types.is_string(type_)][:LABELS]
    if spool.num_rows < FEWEST_ABOVE_TOTALS or not texts or table.options.known:
        return
    cells = [column[-1].as_py() or "" for _, column in spool.columns(texts)]
    if (label := next((cell for cell in cells if TOTALS.match(cell)), None)) is None:
        return
    table.leaves_out_totals = table.options.totals == "leave-out"
    if table.options.totals is None:
        table.warnings.append(
            f"row {spool.num_rows}, the last, says {label[:40]!r}: if it sums the others, leave it out "
            "(?totals=leave-out)"
        )
    elif table.leaves_out_totals:
        table.warnings.append(f"row {spool.num_rows}, the last, with totals ({label[:40]!r}) is left out")


def _look_for_times(table: ReadTable, limits: ReaderLimits, scratch: Scratch) -> None:
    """Tell of columns named by times, and make a row of each of their cells if that is asked for."""
    wide, asked = table.wide, table.options.wide
    if wide is None:
        if asked == "long":
            raise UnusableDataError(
                "No four columns are named by times in equal steps, such as 2024-01, 2024-02, .. or week 1, "
                "week 2, ..: name them so, or leave out wide=long."
            )
        return
    if asked == "long":
        _make_long(table, wide, limits, scratch)
        return
    table.read_as["wide"] = {
        "columns": len(wide.columns), "first": wide.columns[0], "last": wide.columns[-1], "step": wide.step
    }  # fmt: skip
    time, value = long_names([name for name in table.spool.names if name not in wide.columns])
    table.warnings.append(
        f"{wide.in_words}: forecasts need a row for each time. Read the table so, with columns "
        f"{time} and {value} in their place {LONG}"
    )


def _make_long(table: ReadTable, wide: WideTimes, limits: ReaderLimits, scratch: Scratch) -> None:
    """Make a row of each cell of the columns of times; row labels and empty columns without a name go."""
    kept = {}
    for index, column in table.spool.columns([
        at for at, name in enumerate(table.spool.names) if name not in wide.columns
    ]):  # fmt: skip
        cells = column.slice(0, table.num_rows)
        if index in (table.dialect.unnamed if table.dialect else ()) and (
            _is_blank(cells) or (index == 0 and pc.count_distinct(cells).as_py() == len(cells))
        ):
            table.warnings.append(f"column {index + 1} of the file has no name: it is left out")
            continue
        kept[table.spool.names[index]] = cells
    if not kept and table.num_rows > 1:
        raise UnusableDataError(
            f"{wide.in_words} are all of the table, so nothing tells the series of its "
            f"{table.num_rows} rows: add a column that names them."
        )
    spool, as_text = make_long(table.spool, kept, wide, table.num_rows, limits, scratch)
    table.options = replace(table.options, as_text=(*table.options.as_text, *as_text))
    if table.read_as["format"] in {*WORKBOOKS, "json"}:
        table.read_as[TEXTS] = [field.name for field in spool.schema if pa.types.is_string(field.type)]
    if table.dialect is not None:
        unnamed = [table.spool.names[index] for index in table.dialect.unnamed]
        places = frozenset(at for at, name in enumerate(spool.names) if name in unnamed)
        table.dialect = replace(table.dialect, names=tuple(spool.names), unnamed=places, labels=False)
    table.spool, table.leaves_out_totals = spool, False
    time, value = spool.names[-2:]
    table.warnings.append(f"{wide.in_words}, are made rows: {time} has their names, {value} their cells")


def _of_cells(
    file: BinaryIO, options: Options, limits: ReaderLimits, scratch: Scratch, read_as: dict[str, Any]
) -> ReadTable:
    kind, dialect, unused = read_as["format"], None, OF_TEXT | OF_TABLES
    if kind in WORKBOOKS:
        dialect, spool, facts, warnings = read_workbook(file, options, limits, scratch)
        read_as |= facts
        unused = OF_TEXT
    elif kind == "json":
        spool, warnings = read_json(file, options, limits, scratch)
    else:
        spool, warnings = read_columnar(file, kind, limits, scratch, options)
    if kind in {*WORKBOOKS, "json"}:
        texts = tuple(field.name for field in spool.schema if pa.types.is_string(field.type))
        options, read_as[TEXTS] = replace(options, as_text=texts), list(texts)
    if dialect is not None and dialect.doubt:
        warnings = [*warnings, dialect.doubt]
    table = ReadTable(spool, options, read_as, dialect, warnings)
    if useless := [word for name, word in unused.items() if getattr(options, name) is not None]:
        table.warnings.append(f"A {FORMATS[kind]} file has no {' or '.join(useless)}: ignored")
    return table


def _of_text(
    file: BinaryIO, options: Options, limits: ReaderLimits, scratch: Scratch, read_as: dict[str, Any]
) -> ReadTable:
    text, start, encoding = as_utf8(file, options.encoding, limits.bytes, scratch)
    dialect, spool, empty = read_delimited(text, start, options, limits, scratch)
    read_as |= {"encoding": encoding.title, "encoding_guessed": encoding.guessed, **dialect.to_read_as()}
    style = CsvStyle(
        separator=dialect.separator,
        mark=encoding.mark,
        encoding=encoding.name,
        line_end=dialect.line_end,
        quote=dialect.quote,
        quoted=dialect.quoted,
        escape=dialect.escape,
    )
    read_as[WRITTEN] = {name: value for name, value in asdict(style).items() if name != "decimal"}
    table = ReadTable(spool, options, read_as, dialect)
    if encoding.guessed:
        table.warnings.append(
            f"The file is not UTF-8 and was read as {encoding.title}, for example {encoding.example!r}: if "
            "characters are wrong, upload it again with its encoding (?encoding=...)"
        )
    if dialect.doubt:
        table.warnings.append(dialect.doubt)
    times = table.wide.columns if table.wide else ()
    numeric = [name for name in dialect.names if dialect.header and NUMBER.fullmatch(name)]
    numeric = [name for name in numeric if name not in times]
    if numeric and not options.known:
        table.warnings.append(
            f"Column names are numbers ({', '.join(numeric[:3])}): if line {dialect.line} is not a header, "
            "insert one, or pass ?header=false"
        )
    if empty:
        end = f"{counted(empty, 'row')} without values at the end of the file"
        table.warnings.append(f"{end} {'is' if empty == 1 else 'are'} left out")
    return table


def _may_be_labels(values: pa.ChunkedArray, *, consecutive: bool) -> bool:
    """Return whether unique values can be row labels: text or integers; `consecutive` ones from 0 or 1."""
    if kind_of(values.type) != "number":
        return bool(pa.types.is_string(values.type))
    if not pc.all(pc.equal(pc.floor(values), values)).as_py():
        return False
    low, high = (figure.as_py() for figure in pc.min_max(values).values())
    return not consecutive or bool(low in {0, 1} and high == low + len(values) - 1)


def _is_blank(values: pa.ChunkedArray) -> bool:
    if values.null_count == len(values):
        return True
    if not pa.types.is_string(values.type):
        return False
    return bool(pc.all(pc.equal(values, ""), min_count=0).as_py())


def kind_of(type_: pa.DataType) -> str:
    """Return the kind of column that a stored type has: number, boolean, date or text."""
    checks = {"number": numbers.is_numeric, "boolean": pa.types.is_boolean, "date": pa.types.is_timestamp}
    return next((kind for kind, check in checks.items() if check(type_)), "text")


def _is_already(kind: str, type_: pa.DataType) -> bool:
    return kind_of(type_) == ("text" if kind == "category" else kind)


def _are_bits(column: pa.ChunkedArray) -> bool:
    bits = pc.is_in(column.drop_null(), value_set=pa.array([0.0, 1.0]))
    return bool(pc.all(bits, min_count=0).as_py())


def _converted(name: str, column: pa.ChunkedArray, kind: str, faults: list[Fault]) -> pa.ChunkedArray:
    """Convert a typed column to another kind where that changes no value."""
    if kind in {"category", "text"}:
        levels = column.combine_chunks().dictionary_encode()
        texts = pa.array([as_text(level) for level in levels.dictionary.to_pylist()], pa.string())
        return pa.chunked_array([texts.take(levels.indices)])
    if kind == "number" and pa.types.is_boolean(column.type):
        return column.cast(pa.float64())
    if kind == "boolean" and pa.types.is_float64(column.type) and _are_bits(column):
        return column.cast(pa.bool_())
    faults.append(Fault(name, None, f"a column of type {column.type} is not a {kind}: change it in the file"))
    return column
