"""Files as people have them: one table in 15 kinds of files and 4 looks (encoding, separator, locale)."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tests.support.workbooks import ods, xlsx

NAMES = ["shop", "zip", "day", "sales", "share", "open"]
DAYS = [datetime.fromisoformat(day) for day in ("2025-12-31", "2026-01-13", "2026-02-28", "2026-03-01")]
VALUES = {
    "shop": ["Café", "Éclair", "Nord", "Süd"],
    "zip": ["01067", "80331", "10115", "04109"],
    "day": DAYS,
    "sales": [1508.25, 12.5, 20980.75, 7.0],
    "share": [0.5, 0.25, None, 0.125],
    "open": [True, False, True, True],
}
ROWS = [list(row) for row in zip(*VALUES.values(), strict=True)]


@dataclass(frozen=True)
class Look:
    """Encoding, separator and forms of cells in the text of one locale."""

    encoding: str
    separator: str
    decimal: str
    day: str

    def cell(self, value: object) -> str:
        """Write a cell."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, datetime):
            return value.strftime(self.day)
        return str(value).replace(".", self.decimal) if isinstance(value, float) else str(value)

    def table(self) -> list[list[str]]:
        """Write the header and the rows."""
        return [NAMES, *([self.cell(value) for value in row] for row in ROWS)]

    def lines(self, table: list[list[str]], end: str = "\n", quoting: int = csv.QUOTE_MINIMAL) -> str:
        """Write rows as lines."""
        sink = io.StringIO()
        csv.writer(sink, delimiter=self.separator, lineterminator=end, quoting=quoting).writerows(table)
        return sink.getvalue()


LOOKS = {
    "English": Look("utf-8", ",", ".", "%Y-%m-%d"),
    "German": Look("utf-8-sig", ";", ",", "%d.%m.%Y"),
    "German in UTF-16": Look("utf-16", "\t", ",", "%d.%m.%Y"),
    "American in Windows-1252": Look("cp1252", "|", ".", "%m/%d/%Y"),
}


def _zipped(content: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", content)
        archive.writestr("__MACOSX/._table.csv", b"\0")
    return sink.getvalue()


def _text(write: Callable[[Look], str]) -> Callable[[Look], bytes]:
    return lambda look: write(look).encode(look.encoding)


def _plain(look: Look) -> str:
    return look.lines(look.table())


def _edged(look: Look) -> str:
    """Put a separator at the end of each line, as some programs do."""
    return "".join(f"{line}{look.separator}\n" for line in _plain(look).splitlines())


def _padded(look: Look) -> list[list[str]]:
    return [["Report of the shops", *[""] * 5], [""] * 6, *look.table()]


def _spelled(look: Look) -> list[list[str]]:
    return [[cell or "n/a" for cell in row] for row in look.table()]


def _typed(look: Look) -> list[list]:
    """Return typed cells, for a look of people who type texts the cells of those."""
    return [NAMES, *ROWS] if look.encoding == "utf-8" else look.table()


def _records(look: Look) -> list[dict]:
    return [
        {
            name: look.cell(value) if isinstance(value, datetime) else value
            for name, value in zip(NAMES, row, strict=True)
        }
        for row in ROWS
    ]


# By kind: the file, and what must be said of it.
KINDS: dict[str, tuple[Callable[[Look], bytes], str]] = {
    "plain": (_text(_plain), ""),
    "quoted": (_text(lambda look: look.lines(look.table(), quoting=csv.QUOTE_ALL)), ""),
    "of Windows": (_text(lambda look: look.lines(look.table(), "\r\n")), ""),
    "of an old Mac": (_text(lambda look: look.lines(look.table(), "\r")), ""),
    "with separators at the end": (_text(_edged), ""),
    "with a first line for Excel": (_text(lambda look: f"sep={look.separator}\n{_plain(look)}"), ""),
    "with a comment": (_text(lambda look: f"# made by hand\n{_plain(look)}"), ""),
    "with a title": (_text(lambda look: f"Report of the shops\n\n{_plain(look)}"), "above line 3"),
    "with an exported title": (_text(lambda look: look.lines(_padded(look))), "above line 3"),
    "with empty rows at the end": (
        _text(lambda look: _plain(look) + f"{look.separator * 5}\n" * 3),
        "3 rows without values",
    ),
    "with words for missing": (_text(lambda look: look.lines(_spelled(look))), ""),
    "in an archive": (lambda look: _zipped(gzip.compress(_plain(look).encode(look.encoding))), ""),
    "a workbook": (lambda look: xlsx({"Notes": [["by shop"]], "Data": _typed(look)}), ""),
    "an OpenDocument": (lambda look: ods({"Data": [["Report"], [], *_typed(look)]}), "above line 3"),
    "JSON": (lambda look: json.dumps(_records(look)).encode(), ""),
}
