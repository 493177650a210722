"""Tables of predictions as an Excel workbook.

A cell of the user's file is a number, a date or a truth value of Excel where it then shows the letters of the
file, and text elsewhere. Nothing is a formula.
"""

import math
import re
from collections.abc import Iterable
from datetime import date, datetime, time
from itertools import repeat
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

import pyarrow as pa

from app.services.errors import Fault, TooLargeError
from app.services.predictions.csv_tables import Letters
from sampler.host.data import value_as_text as as_text

MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384  # of Excel
MAX_CELLS = 2_000_000  # about ten microseconds each
MAX_FORMS = 200  # different formats of cells, of which Excel takes 200 to 250 by its language
DIGITS = 15  # of a number, that Excel keeps
FIRST_DAY = datetime(1900, 3, 1)  # noqa: DTZ001  without a zone; before it, Excel's calendar has a day too many
INSTEAD = "ask for CSV or Parquet"
# Excel opens no workbook with a format of more than 255 characters.
AMOUNT = re.compile(r'(?P<sign>-?)(?P<before>[^\d"-]{0,99})(?P<number>\d[\d.,]*)(?P<after>[^\d"]{0,99})')
NUMBER = r"(0|[1-9]\d*|[1-9]\d{{0,2}}(?:{0}\d{{3}})+)(?:{1}(\d+))?"
NUMBERS = ((",", re.compile(NUMBER.format(",", r"\."))), (".", re.compile(NUMBER.format(r"\.", ","))))
DAY = re.compile(r"(\d+)([./-])(\d+)\2(\d+)(?:([T ])(\d\d):(\d\d)(?::(\d\d))?)?")
ORDERS, LENGTHS = ("ymd", "dmy", "mdy"), {"y": (4,), "m": (1, 2), "d": (1, 2)}
Piece = tuple[pa.Table, Letters]


def write_workbook(pieces: Iterable[Piece], num_rows: int) -> BinaryIO:
    """Write tables, one below the other, with `num_rows` rows in all, to a temporary file and return it.

    Raises
    ------
    TooLargeError
        A workbook, or one answer, can't hold the table; says what can.
    """
    import xlsxwriter  # noqa: PLC0415  few answers are workbooks

    file = cast("BinaryIO", TemporaryFile())  # noqa: SIM115  the caller closes it
    try:
        with xlsxwriter.Workbook(file, {"constant_memory": True}) as book:
            _Sheet(book).fill(pieces, num_rows)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


class _Sheet:
    def __init__(self, book: Any) -> None:
        self.book, self.sheet = book, book.add_worksheet("Predictions")
        self.sheet.freeze_panes(1, 0)
        self.forms: dict[str, Any] = {"": None}
        self.names: list[str] = []

    def fill(self, pieces: Iterable[Piece], num_rows: int) -> None:
        at = 0
        for table, letters in pieces:
            if at == 0:
                _check_size(num_rows, table.num_columns)
                self.names = table.column_names
                self.row(0, ((name, "") for name in self.names))
            texts = (letters[name].to_pylist() if name in letters else repeat(None) for name in self.names)
            values = (column.to_pylist() for column in table.columns)
            for cells in zip(*map(map, repeat(shown), values, texts), strict=True):
                at += 1
                self.row(at, cells)

    def row(self, at: int, cells: Iterable[tuple[Any, str]]) -> None:
        for column, (value, form) in enumerate(cells):
            if value is None or value == "":
                continue
            if form not in self.forms:
                if len(self.forms) > MAX_FORMS:
                    message = f"the numbers and dates have more than {MAX_FORMS} forms: {INSTEAD}"
                    raise TooLargeError(errors=[Fault(self.names[column], at, message)])
                self.forms[form] = self.book.add_format({"num_format": form})
            kind = type(value)
            write = self.sheet.write_boolean if kind is bool else self.sheet.write_number
            if kind is str:
                write = self.sheet.write_string
            elif isinstance(value, date):
                write = self.sheet.write_datetime
            if write(at, column, value, self.forms[form]):
                message = f"a text is longer than a cell of Excel may be: {INSTEAD}"
                raise TooLargeError(errors=[Fault(self.names[column], at, message)])


def _check_size(num_rows: int, num_columns: int) -> None:
    if num_rows >= MAX_ROWS or num_columns > MAX_COLUMNS:
        raise TooLargeError(
            f"The answer has {num_rows} rows and {num_columns} columns; a sheet of Excel has {MAX_ROWS} and "
            f"{MAX_COLUMNS} at most: {INSTEAD}."
        )
    if num_rows * num_columns > MAX_CELLS:
        raise TooLargeError(
            f"The answer has more than {MAX_CELLS // 10**6} million cells ({num_columns} columns of "
            f"{num_rows} rows), too many for a workbook: {INSTEAD}, or keep fewer columns."
        )


def shown(value: Any, text: str | None) -> tuple[Any, str]:
    """Return the value of a cell and its format, by which Excel shows the text, if one is given."""
    if text is None:
        return _plain(value)
    if isinstance(value, bool):
        return (value, "") if text == str(value).upper() else (text, "")
    if isinstance(value, (int, float)):
        form = form_of_number(value, text)
        return (value, form) if form else (text, "")
    if isinstance(value, date):
        moment = _moment(value)
        form = form_of_time(moment, text)
        return (moment, form) if form else (text, "")
    return text, ""


def _plain(value: Any) -> tuple[Any, str]:
    if value is None or isinstance(value, (bool, str)):
        return value, ""
    if isinstance(value, (int, float)):
        if isinstance(value, float) and math.isnan(value):
            return None, ""
        return (value, "") if abs(value) < 2**53 else (as_text(value), "")
    if isinstance(value, date):
        moment = _moment(value)
        if moment.tzinfo is None and moment >= FIRST_DAY:
            return moment, "yyyy-mm-dd" if moment.time() == time() else "yyyy-mm-dd hh:mm:ss"
    return as_text(value), ""


def _moment(day: date) -> datetime:
    return day if isinstance(day, datetime) else datetime.combine(day, time())


def form_of_number(value: float, text: str) -> str:
    """Return the format in which Excel shows a number as that text; empty if there is none."""
    if (parts := AMOUNT.fullmatch(text)) is None or bool(parts["sign"]) != (value < 0):
        return ""
    for mark, pattern in NUMBERS:
        if (read := pattern.fullmatch(parts["number"])) is None:
            continue
        whole, places = read[1].replace(mark, ""), read[2] or ""
        if float(f"{whole}.{places or 0}") == abs(value) and len(whole + places) <= DIGITS:
            core = ("#,##0" if mark in read[1] else "0") + ("." + "0" * len(places) if places else "")
            return "".join((_quoted(parts["before"]), core, _quoted(parts["after"])))
    return ""


def form_of_time(value: datetime, text: str) -> str:
    """Return the format in which Excel shows a time as that text; empty if there is none."""
    read = DAY.fullmatch(text)
    if read is None or value.tzinfo is not None or value < FIRST_DAY:
        return ""
    first, mark, middle, last, between, *clock = read.groups()
    hour, minute, second = (int(part or 0) for part in clock)
    if time(hour, minute, second) != value.time():
        return ""
    of = {"y": value.year, "m": value.month, "d": value.day}
    for order in ORDERS:
        parts = [*zip(order, (first, middle, last), strict=True)]
        if all(int(part) == of[name] and len(part) in LENGTHS[name] for name, part in parts):
            days = f"\\{mark}".join(name * len(part) for name, part in parts)
            hours = "hh:mm:ss" if clock[2] else "hh:mm"
            return days + (f"{_quoted(between)}{hours}" if between else "")
    return ""


def _quoted(text: str) -> str:
    return f'"{text}"' if text else ""
