"""CSV, TSV and similar formats as a spooled table of text, with every malformed row reported.

Reading as text first and typing afterwards keeps each cell's row known, so that an error can name it.
"""

import csv
import io
import re
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from app.services.errors import ENOUGH, Fault, UnusableDataError
from app.services.readers.dialect import (
    EMPTY,
    NO_ROWS,
    SAMPLE_BYTES,
    SINGLE_COLUMN,
    WIDEST_SAMPLE_BYTES,
    Dialect,
    lines_of,
    reader,
    sniff,
    with_habits,
)
from app.services.readers.options import Options, ReaderLimits
from app.services.readers.scratch import Scratch
from app.services.readers.spool import Spool
from sampler.host.data import counted

BLOCK_BYTES = 8 << 20  # read at once; a row must fit into it
CHUNK = 1 << 20
ENOUGH_LINES = 3


@dataclass(frozen=True)
class _Ends:
    """Findings of a pass over the bytes: whether rows are lines, and how the file ends."""

    lines_are_rows: bool  # no quoted line breaks and no empty lines
    closed: bool  # the last value is not known to end within open quotes
    empty_lines: int = 0  # at the end


def read_delimited(
    file: BinaryIO, start: int, options: Options, limits: ReaderLimits, scratch: Scratch
) -> tuple[Dialect, Spool, int]:
    """Read UTF-8 text from `start` as columns of text; return dialect, table and number of empty rows.

    Values may be quoted and then contain line breaks. Empty lines are ignored; in a single column they are
    missing values, but for those at the end of the file.

    Raises
    ------
    UnusableDataError
        The file is empty, lacks a header, has duplicate or missing names, or ragged rows; names the row, and
        the line where it is known.
    TooLargeError
        It exceeds the limits.
    """
    dialect = _sniffed(file, start, options)
    if len(dialect.names) < limits.fewest_columns:
        raise UnusableDataError(SINGLE_COLUMN)
    offset = start + dialect.offset
    if dialect.is_plain:
        ends = _look(file, offset, dialect.quote)
    else:
        file, offset, ends = (
            _rewritten(file, offset, dialect, scratch),
            0,
            _Ends(lines_are_rows=False, closed=True),
        )
    plain = dialect if dialect.is_plain else Dialect(",", names=dialect.names, header=dialect.header)
    spool = Spool(pa.schema([(name, pa.string()) for name in dialect.names]), limits, scratch)
    tail = _Tail(spool)
    _read(file, offset, replace(plain, line=dialect.line), ends, tail)
    tail.keep_missing(ends.empty_lines)
    if spool.num_rows == 0:
        raise UnusableDataError(NO_ROWS if dialect.header else EMPTY)
    return dialect, spool, tail.count


def _sniffed(file: BinaryIO, start: int, options: Options) -> Dialect:
    """Detect the dialect from the beginning of the file, or from more of it where the header is very long."""
    size = SAMPLE_BYTES
    while True:
        file.seek(start)
        sample = file.read(size)
        whole = len(sample) < size
        if whole or size >= WIDEST_SAMPLE_BYTES or sample.count(b"\n") + sample.count(b"\r") > ENOUGH_LINES:
            dialect = sniff(sample, options, whole=whole)
            return with_habits(dialect, sample[dialect.offset :])
        size *= 8


def _look(file: BinaryIO, offset: int, quote: str) -> _Ends:
    file.seek(offset)
    sign = quote.encode()
    quotes = blank = False
    last = b""
    while block := file.read(CHUNK):
        quotes = quotes or bool(sign and sign in block)
        blank = blank or b"\n\n" in block.rstrip() or b"\n\r\n" in block.rstrip() or b"\n" not in block
        last = (last + block)[-16:] if block.strip(b"\r\n") else last + block
    rows = last.rstrip(b"\r\n")
    line_ends = len(re.findall(rb"\r\n|\n|\r", last[len(rows) :]))
    return _Ends(not (quotes or blank), not sign or rows.endswith(sign), max(line_ends - 1, 0))


def _rewritten(file: BinaryIO, offset: int, dialect: Dialect, scratch: Scratch) -> BinaryIO:
    """Rewrite the rows in the dialect that Arrow reads: commas and doubled quotes."""
    file.seek(offset)
    rewritten = scratch.file()
    out = io.TextIOWrapper(cast("io.BufferedWriter", rewritten), "utf-8", newline="")
    text = io.TextIOWrapper(cast("io.BufferedReader", file), "utf-8", newline="")
    csv.field_size_limit(BLOCK_BYTES)
    try:
        rows = (row for row in reader(lines_of(text, dialect), dialect) if row)
        csv.writer(out, lineterminator="\n").writerows(rows)
    except csv.Error as error:
        raise UnusableDataError(f"The file can't be read as CSV: {error}. Is a quote never closed?") from None
    out.flush()
    out.detach()
    text.detach()
    return rewritten


def _read(file: BinaryIO, offset: int, dialect: Dialect, ends: _Ends, tail: "_Tail") -> None:
    names = list(dialect.names)
    ragged: list[Fault] = []

    def note_ragged(row: pacsv.InvalidRow) -> str:
        ragged.append(_ragged(row, dialect, ends))
        return "skip" if len(ragged) < ENOUGH else "error"

    file.seek(offset)
    last = None
    try:
        stream = pacsv.open_csv(
            file,
            # pyarrow knows the numbers of bad rows only with a single thread.
            pacsv.ReadOptions(
                use_threads=False,
                block_size=BLOCK_BYTES,
                column_names=names,
                skip_rows_after_names=int(dialect.header),
            ),
            pacsv.ParseOptions(
                delimiter=dialect.separator,
                quote_char=dialect.quote or False,
                escape_char="\\" if dialect.escape else False,
                newlines_in_values=bool(dialect.quote),
                invalid_row_handler=note_ragged,
                # In a single column, an empty line is a missing value.
                ignore_empty_lines=len(names) > 1,
            ),
            pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), check_utf8=False),
        )
        for batch in stream:
            if batch.num_rows:
                tail.add(batch)
                last = batch
    except pa.ArrowInvalid as error:
        nothing = "straddling" in str(error) and file.seek(0, 2) - offset < BLOCK_BYTES
        if not ragged and not nothing:  # Arrow reports an unterminated header the same way
            raise UnusableDataError(_reason(str(error))) from None
    if ragged:
        raise UnusableDataError(errors=ragged)
    if last is not None and not ends.closed:
        final = last.column(last.num_columns - 1)[-1].as_py()
        if final and "\n" in final:
            message = "a quote is opened and never closed"
            raise UnusableDataError(errors=[Fault(names[-1], tail.spool.num_rows, message)])


class _Tail:
    """Buffer for trailing rows without values, which spreadsheets append; dropped unless a value follows."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.count = 0
        self._held: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        num_rows = batch.num_rows - _empty_at_end(batch)
        if num_rows:
            for held in self._held:
                self.spool.add(held)
            self._held, self.count = [], 0
            self.spool.add(batch.slice(0, num_rows))
        if num_rows < batch.num_rows:
            self._held.append(batch.slice(num_rows))
            self.count += batch.num_rows - num_rows

    def keep_missing(self, empty_lines: int) -> None:
        """Keep the held rows of a single column, which are missing values, but for empty lines at the end."""
        if len(self.spool.schema) > 1:
            return
        missing = max(self.count - empty_lines, 0)
        for held in self._held:
            if missing > 0:
                self.spool.add(held.slice(0, missing))
            missing -= held.num_rows
        self.count = min(self.count, empty_lines)


def _empty_at_end(batch: pa.RecordBatch) -> int:
    empty = np.ones(batch.num_rows, dtype=bool)
    for column in batch.columns:
        if not empty[-1]:
            return 0
        empty &= pc.equal(pc.utf8_trim_whitespace(column), "").to_numpy(zero_copy_only=False)
    return len(empty) if empty.all() else int(empty[::-1].argmin())


def _ragged(row: pacsv.InvalidRow, dialect: Dialect, ends: _Ends) -> Fault:
    has, named = counted(row.actual_columns, "value"), counted(row.expected_columns, "column")
    message = f"it has {has}, but the header names {named}"
    if row.number is None:
        return Fault(None, None, message)
    if ends.lines_are_rows:
        message += f" (line {dialect.line + row.number - 1})"
    if "\n" in row.text:
        message += "; is a quote never closed?"
    return Fault(None, row.number - int(dialect.header), message)  # pyarrow counts the header as row 1


def _reason(message: str) -> str:
    if "straddling" in message:
        return f"A row is longer than {BLOCK_BYTES >> 20} MB: is a quote opened and never closed?"
    return f"The file can't be read as CSV: {message.splitlines()[0][:200]}."
