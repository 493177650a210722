"""CSV, TSV and their like as a table of text, with every malformed row named.

Reading as text first and typing afterwards keeps each cell's row at hand, so that a refusal can name it.
"""

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv

from app.services.errors import ENOUGH, Fault, UnusableDataError

DELIMITERS = ",;\t|"  # tried in this order
BLOCK_BYTES = 8 * 1024 * 1024  # read at once; a row must fit
SAMPLE_BYTES = 64 * 1024  # of the beginning, to find the delimiter
SAMPLE_ROWS = 50
MAX_COLUMNS = 10_000
NO_ROWS = "The file has a header but no rows."
SINGLE_COLUMN = (
    "The file has a single column: none of comma, semicolon, tab and bar divides its first line. "
    "A table needs a target and at least one feature."
)
MAX_NAME = 200
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
KNOWN_FORMATS = (
    (b"PK\x03\x04", "an Excel workbook or another zip archive: save the sheet as CSV"),
    (b"PAR1", "a Parquet file: save it as CSV"),
    (b"ARROW1", "an Arrow file: save it as CSV"),
    (b"\x1f\x8b", "compressed: unpack it first"),
    (b"%PDF", "a PDF document"),
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text: save it as UTF-8"),
)


@dataclass(frozen=True)
class _Start:
    """Where the header begins, and whether a row's line is known (no quote may hide a line break)."""

    offset: int
    first_line: int
    lines_are_rows: bool
    ends_with_quote: bool


def read_delimited(file: BinaryIO, fewest_columns: int = 2) -> pa.Table:
    """A file with a header as a table of text columns, cells as they stand.

    The delimiter is the one of comma, semicolon, tab and bar that cuts the first rows most alike.
    Values may be quoted by ``"`` and then hold line breaks. Empty lines are ignored.

    Raises
    ------
    UnusableDataError
        Not text, not UTF-8, empty, no header, doubled or absent names, ragged rows: with the row, and the
        line where it is known.
    """
    start = _check_text(file)
    file.seek(start.offset)
    sample = file.read(SAMPLE_BYTES)
    delimiter, first, second = _sniff(sample)
    names = _header(first, second, start.first_line)
    if len(names) < fewest_columns:
        raise UnusableDataError(SINGLE_COLUMN)
    if not second and len(sample) < SAMPLE_BYTES:
        raise UnusableDataError(NO_ROWS)
    ragged: list[Fault] = []

    def note_ragged(row: pacsv.InvalidRow) -> str:
        ragged.append(_ragged(row, start))
        return "skip" if len(ragged) < ENOUGH else "error"

    file.seek(start.offset)
    try:
        table = pacsv.read_csv(
            file,
            # One thread: only then does pyarrow know the numbers of bad rows.
            pacsv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, column_names=names, skip_rows_after_names=1
            ),
            pacsv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                invalid_row_handler=note_ragged,
                # Of a single column an empty line is a missing value.
                ignore_empty_lines=len(names) > 1,
            ),
            pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), check_utf8=False),
        )
    except pa.ArrowInvalid as error:
        if not ragged:
            raise UnusableDataError(_reason(str(error))) from None
    if ragged:
        raise UnusableDataError(errors=ragged)
    _check_rows(table, start)
    return table


def _check_text(file: BinaryIO) -> _Start:
    """One pass over the bytes: is it UTF-8 text, where does it begin, are lines rows?"""
    file.seek(0)
    head = file.read(16)
    for magic, what in KNOWN_FORMATS:
        if head.startswith(magic):
            raise UnusableDataError(f"This is no CSV file: it is {what}.")
    offset = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    file.seek(offset)
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, quotes, blank, last = 1, False, False, b""
    first_text: int | None = None
    first_line, position = 1, offset
    while block := file.read(1 << 20):
        _check_block(block, decoder, line)
        if first_text is None and (stripped := block.lstrip(b" \t\r\n")):
            skipped = block[: len(block) - len(stripped)]
            # Only whole lines are skipped: a tab may be a delimiter.
            keep = max(skipped.rfind(b"\n"), skipped.rfind(b"\r")) + 1
            first_text, first_line = position + keep, line + skipped[:keep].count(b"\n")
        quotes = quotes or b'"' in block
        blank = blank or b"\n\n" in block.rstrip() or b"\n\r\n" in block.rstrip() or b"\n" not in block
        line += block.count(b"\n")
        position += len(block)
        last = (last + block)[-16:]
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise UnusableDataError(
            f"The file is not UTF-8: it ends within a character, in line {line}."
        ) from None
    if first_text is None:
        raise UnusableDataError("The file is empty: send a header line with the columns' names, then rows.")
    return _Start(first_text, first_line, not (quotes or blank), last.rstrip(b"\r\n").endswith(b'"'))


def _check_block(block: bytes, decoder: codecs.IncrementalDecoder, line: int) -> None:
    if (zero := block.find(b"\0")) >= 0:
        line += block.count(b"\n", 0, zero)
        raise UnusableDataError(f"This is no CSV file: line {line} holds a NUL byte, as binary files do.")
    try:
        decoder.decode(block)
    except UnicodeDecodeError as error:
        line += error.object.count(b"\n", 0, error.start)
        raise UnusableDataError(
            f"The file is not UTF-8: line {line} holds the byte 0x{error.object[error.start]:02x} where no "
            "character begins. Save it as UTF-8 (in Excel: 'CSV UTF-8')."
        ) from None


def _sniff(sample: bytes) -> tuple[str, list[str], list[str]]:
    """The delimiter, and the first two rows as it cuts them."""
    text = sample.decode("utf-8", errors="ignore")
    best: tuple[tuple[float, int], str, list[list[str]]] | None = None
    for delimiter in DELIMITERS:
        rows = _rows(text, delimiter)
        width = len(rows[0])
        alike = sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0
        # One row more or less ragged says little; half of them does. Then more columns win.
        score = (round(alike, 1), width)
        if best is None or score > best[0]:
            best = (score, delimiter, rows)
    assert best is not None
    _, delimiter, rows = best
    return delimiter, rows[0], rows[1] if len(rows) > 1 else []


def _rows(text: str, delimiter: str) -> list[list[str]]:
    found: list[list[str]] = []
    limit = csv.field_size_limit(SAMPLE_BYTES)
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if row:
                found.append(row)
            if len(found) == SAMPLE_ROWS:
                break
    except csv.Error:
        pass  # what was read before says enough; pyarrow reads the file itself
    finally:
        csv.field_size_limit(limit)
    # The last row may be cut off by the end of the sample.
    return (found[:-1] if len(found) > 2 and len(found) < SAMPLE_ROWS else found) or [[text.splitlines()[0]]]


def _header(first: Sequence[str], second: Sequence[str], line: int) -> list[str]:
    names = [name.strip() for name in first]
    if len(names) > MAX_COLUMNS:
        raise UnusableDataError(f"The header names {len(names)} columns; at most {MAX_COLUMNS} are taken.")
    if all(NUMBER.fullmatch(name) for name in names if name) and any(names):
        raise UnusableDataError(
            f"The first line (line {line}) holds only numbers, so the file seems to have no header: "
            "put a line with the columns' names first."
        )
    faults = [fault for position, name in enumerate(names, 1) if (fault := _name_fault(position, name))]
    seen: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if name in seen and name:
            told = f"the name stands twice in the header, in columns {seen[name]} and {position}: rename one"
            faults.append(Fault(name[:MAX_NAME], None, told))
        seen.setdefault(name, position)
    if faults:
        raise UnusableDataError(errors=faults)
    if len(second) == len(names) + 1 and second[-1]:
        told = f"the header names {len(names)} columns, the first row has {len(second)} values"
        raise UnusableDataError(errors=[Fault(None, 1, f"{told}: name every column, row numbers too")])
    return names


def _name_fault(position: int, name: str) -> Fault | None:
    if not name:
        return Fault(None, None, f"column {position} has no name in the header")
    if len(name) > MAX_NAME:
        return Fault(None, None, f"the name of column {position} has more than {MAX_NAME} characters")
    if not name.isprintable():
        return Fault(None, None, f"the name of column {position} holds characters that can't be printed")
    return None


def _ragged(row: pacsv.InvalidRow, start: _Start) -> Fault:
    told = f"it has {row.actual_columns} values where the header names {row.expected_columns} columns"
    if row.number is None:
        return Fault(None, None, told)
    if start.lines_are_rows:
        told += f" (line {start.first_line + row.number - 1})"
    if "\n" in row.text:
        told += "; is a quote never closed?"
    return Fault(None, row.number - 1, told)  # the header is row 1 to pyarrow


def _check_rows(table: pa.Table, start: _Start) -> None:
    if table.num_rows == 0:
        raise UnusableDataError(NO_ROWS)
    final = table.column(table.num_columns - 1)[-1].as_py()
    if final and "\n" in final and not start.ends_with_quote:
        raise UnusableDataError(
            errors=[Fault(table.column_names[-1], table.num_rows, "a quote is opened and never closed")]
        )


def _reason(message: str) -> str:
    if "straddling" in message:
        size = BLOCK_BYTES // (1024 * 1024)
        return f"A row is longer than {size} MB: is a quote opened and never closed?"
    return f"The file can't be read as CSV: {message.splitlines()[0][:200]}."
