"""Workbooks of spreadsheets (.xlsx, .xlsb, .xls, .ods): the first sheet with a table, or the one asked for.

Cells keep their types, and formulas have their stored values. Cells with errors have none.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from html import unescape
from itertools import islice
from typing import Any, BinaryIO

from app.services.errors import Fault, InvalidRequestError, UnusableDataError
from app.services.readers.dialect import Dialect, of_cells, titles
from app.services.readers.options import Options, ReaderLimits
from app.services.readers.records import spooled
from app.services.readers.scratch import Scratch
from app.services.readers.spool import Spool, check_size
from app.services.readers.unpack import contents_of
from sampler.host.data import counted
from sampler.host.data import value_as_text as as_text

LOOKED_AT = 60  # rows in which the header is looked for
MAX_SHEETS = 1000
SHOWN_SHEETS = 10
ERROR = re.compile(rb'<(?:\w+:)?c\b[^>]*\bt="e"|calcext:value-type="error"')
UNSTORED = re.compile(rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\b[^>]*/>)\s*</(?:\w+:)?c>")  # a formula without a value
SMALL = 8 << 20  # bytes of the files of formats and names that are looked at
CODE = re.compile(rb'\bformatCode="([^"]*)"')
FORMAT = re.compile(rb'\bnumFmtId="(\d+)"')
# A cell of a number, by whichever writer: its column and style, if it names them.
CELL = re.compile(
    rb'<(?:\w+:)?c\b(?:(?=[^>]*\br="([A-Z]{1,3})\d))?(?:(?=[^>]*\bs="(\d+)"))?(?![^>]*\bt="(?!n"))[^>]*(?<!/)>'
)
BESIDE = re.compile(r'\[[^]]*]|"[^"]*"|[\\_*].')  # colours, text and blanks of a format
# Formats in binary files: their length, then the characters; of .xls, and of .xlsb in UTF-16.
XLS_FORMAT = re.compile(rb"\x1e\x04..(?:..)(.)\x00\x00([\x20-\x7e]+)", re.DOTALL)
XLSB_FORMAT = re.compile(rb"\x2c...(.)\x00\x00\x00((?:[\x20-\x7e]\x00)+)", re.DOTALL)
PARTED = -1  # digits of numbers that are shown with zeros and signs between them: 000-00-0000
OPEN_ZEROS = re.compile(rb'number:min-integer-digits="(?:[3-9]|\d\d)"')
Area = tuple[tuple[int, int], tuple[int, int]]  # the first and the last cell, as row and column


@dataclass(frozen=True)
class _Sheet:
    """Cells of a sheet from row 1 on and from the first column in use on, and its merged areas among them."""

    name: str
    cells: Any
    width: int
    areas: tuple[Area, ...]
    codes: dict[int, int]  # digits of columns whose numbers are shown with zeros before them

    def rows(self) -> Iterator[list[Any]]:
        """Yield the rows; every cell of a merged area has its value, but in a title of full width."""
        of_row: dict[int, list[Area]] = {}
        for area in self.areas:
            of_row.setdefault(area[0][0], []).append(area)
        held: list[tuple[Area, Any]] = []
        for number, row in enumerate(self.cells.iter_rows()):
            held = [(area, value) for area, value in held if area[1][0] >= number]
            held += [(area, row[area[0][1]]) for area in of_row.get(number, ())]
            for ((_, left), (_, right)), value in held:
                row[left : right + 1] = [value] * (right + 1 - left)
            for column, digits in self.codes.items():
                row[column] = _code(row[column], digits)
            yield [_plain(cell) for cell in row]


def _plain(cell: Any) -> Any:
    if isinstance(cell, (time, timedelta)):
        return str(cell)
    return datetime.combine(cell, time()) if type(cell) is date else cell


def _code(cell: Any, digits: int) -> Any:
    """Return a whole number as a spreadsheet shows it, with zeros before it."""
    is_code = isinstance(cell, (int, float)) and not isinstance(cell, bool) and cell >= 0 and cell % 1 == 0
    return f"{int(cell):0{digits}d}" if is_code else cell


def read_workbook(
    file: BinaryIO, options: Options, limits: ReaderLimits, scratch: Scratch
) -> tuple[Dialect, Spool, dict[str, Any], list[str]]:
    """Return the names and the cells of a sheet, what is to be reported of it, and warnings.

    Cells of header rows that are merged are joined by level ("2026 Q1"); blank rows are ignored.

    Raises
    ------
    UnusableDataError
        The file can't be read, no sheet has a table, or names are missing or duplicate.
    InvalidRequestError
        There is no such sheet.
    TooLargeError
        It unpacks to too much, or has too many cells.
    """
    import python_calamine as calamine  # noqa: PLC0415  most files are no workbooks

    warnings, formats = _doubts(file, limits)
    try:
        book = calamine.CalamineWorkbook.from_filelike(file)
        shown = [
            each.name
            for each in book.sheets_metadata[:MAX_SHEETS]
            if each.typ == calamine.SheetTypeEnum.WorkSheet
            and each.visible == calamine.SheetVisibleEnum.Visible
        ]
        sheet = _chosen(book, shown, options, limits)
        codes, of_codes = _codes(file, limits, formats, sheet)
        sheet = replace(sheet, codes=codes)
        warnings += of_codes
        sample = list(islice(sheet.rows(), LOOKED_AT))
        first, levels = _header(sheet, sample, options)
        texts = [["" if cell == "" else as_text(cell).strip() for cell in row] for row in sample]
        names = [
            " ".join(" ".join(dict.fromkeys(filter(None, cells))).split())
            for cells in zip(*texts[first : first + levels], strict=True)
        ]
        above = [cell for row in texts[:first] for cell in row if cell]
        dialect = of_cells(names, texts[first + levels :], options, line=first + levels)
        dialect = replace(dialect, title=above[0] if above else "")
        body = first + levels if dialect.header else first
        spool, mixed = spooled(
            dialect.names,
            lambda: (row for row in islice(sheet.rows(), body, None) if any(cell != "" for cell in row)),
            options,
            limits,
            scratch,
        )
    except calamine.PasswordError:
        message = "The workbook is protected by a password: save it without one."
        raise UnusableDataError(message) from None
    except calamine.CalamineError as error:
        reason = " ".join(str(error).split())[:200]
        message = f"This workbook can't be read: {reason}. Save it again as .xlsx, or its sheet as CSV."
        raise UnusableDataError(message) from None
    facts = {"sheet": sheet.name, "sheets": shown, "header": dialect.header}
    return dialect, spool, facts | {"header_line": dialect.line if dialect.header else None}, warnings + mixed


def _doubts(file: BinaryIO, limits: ReaderLimits) -> tuple[list[str], dict[str, bytes]]:
    """Return warnings of cells without the value shown, of all sheets, and the files of formats and names.

    Raises TooLargeError for a forged archive.
    """
    errors = unstored = 0
    is_archive = has_zeros = False
    formats = dict.fromkeys(("xl/styles.xml", "xl/workbook.xml", "xl/_rels/workbook.xml.rels"), b"")
    for name, block in contents_of(file, limits.bytes):
        is_archive = True
        if name in formats and len(formats[name]) < SMALL:
            formats[name] += block
        has_zeros = has_zeros or (name == "content.xml" and OPEN_ZEROS.search(block) is not None)
        has_zeros = has_zeros or (name == "xl/styles.bin" and _has_codes(XLSB_FORMAT, block))
        if name.startswith("xl/worksheets/") or name == "content.xml":
            errors += len(ERROR.findall(block))
            unstored += len(UNSTORED.findall(block))
    warnings = []
    if errors:
        message = f"{counted(errors, 'cell')} of the workbook with an error, such as #DIV/0!"
        warnings.append(f"{message}: read as missing")
    if unstored:
        message = f"{counted(unstored, 'formula')} of the workbook without a stored value: read as missing"
        warnings.append(f"{message}; open it in a spreadsheet and save it, and they have one")
    if has_zeros or (not is_archive and _has_codes(XLS_FORMAT, file.read(limits.bytes))):
        warnings.append(
            "The workbook has a format that shows zeros before numbers, such as 01067. They are read without "
            "zeros: if they are codes, save the workbook as .xlsx, or make the cells text"
        )
    file.seek(0)
    return warnings, formats


def _shown_digits(code: str) -> int:
    """Return to how many digits a format fills numbers up with zeros, PARTED with signs between, else 0."""
    bare = BESIDE.sub("", code).partition(";")[0]  # of numbers that aren't negative
    if bare.count("0") < 2 or bare.strip("0 -/():+"):
        return 0
    plain = code.partition(";")[0]
    return len(plain) if plain == "0" * len(plain) else PARTED


def _has_codes(pattern: re.Pattern[bytes], block: bytes) -> bool:
    """Return whether a binary file of formats has one that fills numbers up with zeros."""
    found = ((length[0], text.replace(b"\0", b"")) for length, text in pattern.findall(block))
    return any(_shown_digits(text[:length].decode()) for length, text in found)


def _codes(
    file: BinaryIO, limits: ReaderLimits, formats: dict[str, bytes], sheet: _Sheet
) -> tuple[dict[int, int], list[str]]:
    """Return the digits of columns most of whose numbers are shown with zeros before them, by position.

    With warnings of columns that are shown so in part, or with signs between the digits.
    """
    styles, names, files = formats.values()
    own = {
        number[1]: shown_as
        for each in re.findall(rb"<(?:\w+:)?numFmt\b[^>]*>", styles)
        if (number := FORMAT.search(each)) and (code := CODE.search(each))
        if (shown_as := _shown_digits(unescape(code[1].decode(errors="replace"))))
    }
    cells = re.search(rb"<(?:\w+:)?cellXfs\b.*?</(?:\w+:)?cellXfs>", styles, re.DOTALL)
    if not own or cells is None:
        return {}, []
    ids = (FORMAT.search(each) for each in re.findall(rb"<(?:\w+:)?xf\b[^>]*>", cells[0]))
    digits = {b"%d" % at: own[found[1]] for at, found in enumerate(ids) if found and found[1] in own}
    path = _file_of(sheet.name, names, files)
    shown: dict[bytes, Counter[int]] = {}
    rest = b""
    for name, block in contents_of(file, limits.bytes):
        if name == path:
            text = rest + block
            for found in CELL.finditer(text):
                shown.setdefault(found[1] or b"", Counter())[digits.get(found[2], 0)] += 1
            rest = text[text.rfind(b"<") :]
    left = 0 if sheet.cells.start is None else sheet.cells.start[1]
    codes, warnings = {}, []
    for letters, counts in shown.items():
        most = counts.most_common(1)[0][0]
        if not {*counts} - {0}:
            continue
        if letters and most > 0 and 0 <= (at := _position(letters) - left) < sheet.width:
            codes[at] = most
        if len(counts) > 1 or most == PARTED or not letters:
            how = "so, as codes" if letters and most > 0 else "without them"
            of_all = f"{counted(counts.total() - counts[0], 'number')} of {counts.total()}"
            warnings.append(
                f"column {letters.decode() or '(without a name)'} of the sheet shows {of_all} with zeros "
                f"before them, or signs between: all are read {how}. If that is wrong, make the cells text"
            )
    return codes, warnings


def _position(letters: bytes) -> int:
    """Return the position of a column from 0 on, AA for 26."""
    return int(sum((letter - 64) * 26**power for power, letter in enumerate(reversed(letters)))) - 1


def _file_of(sheet: str, names: bytes, files: bytes) -> str:
    """Return the file of a sheet in the archive; empty if it isn't known."""
    for each in re.findall(rb"<(?:\w+:)?sheet\b[^>]*>", names):
        name, key = re.search(rb'\bname="([^"]*)"', each), re.search(rb'\b\w+:id="([^"]*)"', each)
        if name and key and unescape(name[1].decode(errors="replace")) == sheet:
            of_key = rb'<(?:\w+:)?Relationship\b(?=[^>]*\bId="%b")[^>]*\bTarget="/?(?:xl/)?([^"]*)"'
            target = re.search(of_key % re.escape(key[1]), files)
            return f"xl/{target[1].decode(errors='replace')}" if target else ""
    return ""


def _chosen(book: Any, shown: list[str], options: Options, limits: ReaderLimits) -> _Sheet:
    """Return the sheet that is asked for, by name or number, else the first one with a table."""
    wanted = options.sheet
    if wanted is not None and wanted not in book.sheet_names:
        number = int(wanted) if wanted.isascii() and wanted.isdigit() else 0
        if not 0 < number <= len(shown):
            listed = ", ".join(map(repr, shown[:SHOWN_SHEETS])) + ", ..." * (len(shown) > SHOWN_SHEETS)
            message = f"there is no sheet {wanted[:100]!r}: the sheets are {listed}"
            raise InvalidRequestError(errors=[Fault("sheet", None, message)])
        wanted = shown[number - 1]
    for name in shown if wanted is None else [wanted]:
        cells = book.get_sheet_by_name(name)
        width, height = cells.width, cells.height
        check_size(height, width, limits)
        if height > 1 and width >= limits.fewest_columns:
            left = 0 if cells.start is None else cells.start[1]
            return _Sheet(name, cells, width, tuple(_areas(cells, left, width)), {})
    where = "No sheet" if wanted is None else f"The sheet {wanted[:100]!r}"
    message = f"{where} has a table: a row of column names with values below it, in at least "
    message += f"{counted(limits.fewest_columns, 'column')}."
    raise UnusableDataError(message if wanted is None else message.replace(" has a", " has no", 1))


def _areas(cells: Any, left: int, width: int) -> Iterator[Area]:
    """Yield merged areas in columns from the first one in use on, but for titles of full width."""
    for (top, start), (bottom, end) in cells.merged_cell_ranges or ():
        first, last = max(start - left, 0), min(end - left, width - 1)
        if first <= last and not (top == bottom and last - first == width - 1):
            yield (top, first), (bottom, last)


def _header(sheet: _Sheet, sample: list[list[Any]], options: Options) -> tuple[int, int]:
    """Return the row where the table begins, and the number of header rows, 0 without a header."""
    # A title is merged from the first column on; a level of the header has other merged cells too.
    merged = [area[0][0] for area in sheet.areas if area[0][1] > 0 or area[1][0] > area[0][0]]
    texts = [["" if cell == "" else as_text(cell) for cell in row] for row in sample]
    first = titles(texts, options, min(merged, default=math.inf))
    if options.header_line is not None:
        first = min(options.header_line, len(sample)) - 1
    while first < len(sample) - 1 and not any(cell != "" for cell in sample[first]):
        first += 1
    if options.header is False:
        return first, 0
    begun = [area for area in sheet.areas if area[0][0] == first]
    last = max((end + (right > left) * (end == top) for (top, left), (end, right) in begun), default=first)
    return first, min(last, len(sample) - 2) - first + 1
