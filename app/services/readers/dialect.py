"""Dialect of a delimited file: separator, quote character and position of the header.

It is detected from the beginning of the file as the dialect that splits the first rows most uniformly. Every
decision is reported (`Dialect.told`), and the caller can fix each part.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from app.services.errors import Fault, UnusableDataError
from app.services.readers.options import CHARACTERS, MAX_COLUMNS, MAX_NAME, MISSING, QUOTES, Options, Quoted
from sampler.host.data import name_fault as fault_in_words

SAMPLE_BYTES = 64 * 1024  # size of the sample
WIDEST_SAMPLE_BYTES = 4 << 20  # size where the header alone is longer
SAMPLE_ROWS = 50
MOST_TITLES = 6  # rows among which the header is looked for
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")
VALUE = re.compile(rf"({NUMBER.pattern}|\d{{1,4}}[-/.:]\d.*)$")  # a number, date or time
BARE = re.compile(rf"(?i)({VALUE.pattern}|true$|false$|{'$|'.join(map(re.escape, filter(None, MISSING)))}$)")
SEP_LINE = re.compile(r'"?sep=(.)"?\s*\r?\n', re.IGNORECASE)  # a convention of Excel
SINGLE_COLUMN = (
    "The file has a single column: no comma, semicolon, tab, bar or space separates its first line. A table "
    "needs a target and at least one feature. If the values have another separator, replace it by one of "
    "these."
)
NO_ROWS = "The file has a header but no rows."
EMPTY = "The file is empty: send a header line with the column names, then rows."


@dataclass(frozen=True)
class Dialect:
    """Format of the values, and the column names.

    `offset` and `line` are the position of the header (or of the first row without one). `labels` means that
    each row begins with one value more than the header has, the row's name. `unnamed` holds the 0-based
    positions of columns without a name.
    """

    separator: str
    quote: str = '"'
    escape: bool = False  # \" within quotes
    blanks: bool = False  # spaces after a separator are not part of the value
    offset: int = 0
    line: int = 1
    names: tuple[str, ...] = ()
    header: bool = True
    labels: bool = False
    unnamed: frozenset[int] = frozenset()
    doubt: str = ""  # on a comment above, which may be the header
    title: str = ""  # above the header, which is left out
    line_end: str = "\n"
    quoted: Quoted = "needed"

    @property
    def is_plain(self) -> bool:
        """Whether Arrow's reader supports the dialect."""
        return self.separator != " " and not self.blanks

    def to_read_as(self) -> dict[str, Any]:
        """Return the detected dialect in the words of the request options."""
        words = {sign: word for word, sign in CHARACTERS.items()}
        quotes = {sign: word for word, sign in QUOTES.items()}
        return {
            "separator": words.get(self.separator) if len(self.names) > 1 else None,
            "quote": quotes.get(self.quote, "none"),
            "escape": "backslash" if self.escape else "doubled",
            "header": self.header,
            "header_line": self.line if self.header else None,
        }


def sniff(sample: bytes, options: Options, *, whole: bool) -> Dialect:
    """Detect the dialect and column names from the beginning of a file.

    Parameters
    ----------
    sample
        UTF-8 text; its end may cut a character or a row unless it is the `whole` file.

    Raises
    ------
    UnusableDataError
        There is no header, or names are duplicate, too long, not printable, or too many.
    """
    text = sample.decode("utf-8", errors="ignore")
    beginning = _beginning(text, options, whole=whole)
    text = text[beginning.skipped :]
    if not text.strip():
        raise UnusableDataError(EMPTY)
    options = replace(options, separator=options.separator or beginning.separator)
    dialect, rows = _best(text, options, whole=whole)
    offset, line = beginning.offset, beginning.line
    above = 0 if options.header_line is not None else titles(rows, options)
    if options.header is None and options.header_line is None and not {*options.known} & {*rows[0]}:
        above = above or _above_blank_line(text, dialect, rows)
    if above:
        lines, title = _lines(text, dialect, above)
        rows, line = rows[above:], line + len(lines)
        offset += len("".join(lines).encode())
        dialect = replace(dialect, title=title)
    dialect = replace(dialect, offset=offset, line=line, doubt=beginning.doubt)
    if options.header is False:
        width = max(len(row) for row in rows)
        _check_width(width)
        names = tuple(f"column_{position}" for position in range(1, width + 1))
        return replace(dialect, names=names, header=False)
    return _with_names(dialect, rows, options)


def of_cells(names: list[str], rows: list[list[str]], options: Options, *, line: int) -> Dialect:
    """Return the names of a table whose cells are known, from its header (empty without one) and first rows.

    Raises UnusableDataError as `sniff`.
    """
    if not names:
        _check_width(len(rows[0]))
        names = [f"column_{position}" for position in range(1, len(rows[0]) + 1)]
        return Dialect(",", line=line + 1, names=tuple(names), header=False)
    return _with_names(Dialect(",", line=line), [names, *rows], options)


def titles(rows: list[list[str]], options: Options, merged: float = math.inf) -> int:
    """Return how many of the first rows are a title: with far fewer values than the table that begins below.

    The row below them must be a header: words, about as many as the rows after it have values, or the first
    row with `merged` names. Rows of another width are titles as well, not names of all columns but one of row
    labels, if the one below them has words alone where rows below have values.
    """
    filled = [[cell for cell in map(str.strip, row) if cell] for row in rows]
    sizes = Counter(size for size in map(len, filled) if size)
    usual = max(sizes, key=lambda size: (sizes[size], size), default=0)
    above = next((at for at, cells in enumerate(filled) if 2 * len({*cells}) > usual), 0)
    above = int(min(above or _titles_of_another_width(rows, filled, usual), merged))
    if filled and {*options.known} & {*filled[0]}:
        return 0
    starts = all(row[0].strip() for row, cells in zip(rows[:above], filled, strict=False) if cells)
    header = filled[above] if filled else []
    names = {*options.known, *options.kinds}
    is_header = (
        above == merged
        or names & {*header}
        or (5 * len(header) >= 4 * usual and not any(map(_is_value, header)))
    )
    return above if above + 1 < len(rows) and starts and (is_header or options.header is False) else 0


def _titles_of_another_width(rows: list[list[str]], filled: list[list[str]], usual: int) -> int:
    """Return how many first rows, with separators in them, are above a header: shorter or longer than it."""
    at = next((at for at, cells in enumerate(filled[:MOST_TITLES]) if len(cells) == usual), 0)
    if at == 0 or any(map(_is_value, filled[at])):
        return 0
    if len(filled[0]) < usual:
        return at if any(_is_value(cell) for cells in filled[at + 1 :] for cell in cells) else 0
    is_wider = len(rows[0]) > len(rows[at]) and all(len(row) != len(rows[at]) for row in rows[:at])
    return at if is_wider and _heads(rows[at], rows[at + 1 :]) else 0


def _heads(cells: list[str], below: list[list[str]]) -> bool:
    """Return whether cells are words alone, above rows of the same width with values in some column."""
    if not below or {len(row) for row in below} != {len(cells)} or any(map(_is_value, map(str.strip, cells))):
        return False
    return any(
        5 * sum(_is_value(cell.strip()) for cell in column) >= 4 * len(column)
        for column in zip(*below, strict=True)
    )


def _above_blank_line(text: str, dialect: Dialect, rows: list[list[str]]) -> int:
    """Return how many rows are above a blank line with a header below it, and are no table themselves."""
    read = islice(reader(lines_of(io.StringIO(text, newline=""), dialect), dialect), MOST_TITLES)
    above = next((at for at, row in enumerate(read) if not any(map(str.strip, row))), 0)
    if not 0 < above < len(rows) - 1 or _heads(rows[0], rows[1:above]):
        return 0
    return above if _heads(rows[above], rows[above + 1 :]) else 0


def with_habits(dialect: Dialect, sample: bytes) -> Dialect:
    """Return the dialect with line ends and what is quoted, by a sample from its header on."""
    text = sample.decode("utf-8", errors="ignore")
    end = re.search(r"\r\n|\n|\r", text)
    found = replace(dialect, line_end=end[0] if end else "\n")
    quote, sign = re.escape(dialect.quote), re.escape(dialect.separator)
    if not quote or dialect.quote not in text:
        return found
    plain = rf"[^{quote}\\]|\\." if dialect.escape else f"[^{quote}]"
    cells = re.findall(rf"{quote}(?:{plain}|{quote}{quote})*{quote}|[^{sign}{quote}\s][^{sign}\r\n]*", text)[
        :-1
    ]
    bare = [cell for cell in cells if cell[0] != dialect.quote]
    if not bare:
        return replace(found, quoted="all")
    return replace(found, quoted="words") if all(BARE.match(cell) for cell in bare) else found


@dataclass(frozen=True)
class _Beginning:
    """Beginning of a table: characters and bytes before it, its line, and a separator from a `sep=` line."""

    skipped: int
    offset: int
    line: int
    separator: Any = None
    doubt: str = ""


def _lines(text: str, dialect: Dialect, rows: int) -> tuple[list[str], str]:
    """Return the lines of the first rows and the blank ones after them, and the first cell."""
    lines = io.StringIO(text, newline="").readlines()
    read = reader(lines_of(lines, dialect), dialect)
    first, *_ = islice(
        filter(None, read), rows + 1
    )  # and the row after them, so that blank lines are above it
    return lines[: read.line_num - 1], next(filter(None, map(str.strip, first)))


def _beginning(text: str, options: Options, *, whole: bool) -> _Beginning:
    """Find where the table begins: in the line asked for, or below blank lines, `sep=` and comments."""
    if options.header_line is not None:
        above = "".join(io.StringIO(text, newline="").readlines()[: options.header_line - 1])
        return _Beginning(len(above), len(above.encode()), options.header_line)
    blank = re.match(r"(?:[ \t]*\r?\n|[ \t]*\r)*", text)
    skipped = blank.end() if blank else 0
    separator, doubt = None, ""
    if match := SEP_LINE.match(text, skipped):
        separator = {sign: word for word, sign in CHARACTERS.items()}.get(match[1])
        skipped = match.end() if separator else skipped
    elif comments := re.match(r"(?:#.*(?:\r?\n|\r))+", text[skipped:]):
        skipped += comments.end()
        last = re.split(r"\r?\n|\r", comments[0].rstrip("\r\n"))[-1]
        name, doubt = _header_in_comment(last, text[skipped:], options, whole=whole)
        if name is not None:
            skipped += comments[0].rindex(last) + len(last) - len(name) - len(comments[0])
    line = 1 + len(re.findall(r"\r?\n|\r", text[:skipped]))
    return _Beginning(skipped, len(text[:skipped].encode()), line, separator, doubt)


def _header_in_comment(
    comment: str, following: str, options: Options, *, whole: bool
) -> tuple[str | None, str]:
    """Return the header that a comment is, without its sign, else None; and a warning where that is doubtful.

    It is the header where it has as many values as the rows, and the first row is one of values: numpy, VCF,
    BED and others write it so. A row of values has numbers, or values of later rows; a header has words above
    numbers.
    """
    if options.header is False or not following.strip():
        return None, ""
    dialect, (first, *later) = _best(following, options, whole=whole)
    header = comment if _names_in(comment, dialect)[0] in options.known else comment.lstrip("# ")
    names = _names_in(header, dialect)
    known, known_below = (len(set(options.known) & set(row)) for row in (names, first))
    if len(names) != len(first) or not all(names) or known_below > known:
        return None, ""
    columns = [[row[at].strip() for row in later if at < len(row)] for at in range(len(first))]
    below = [*zip((cell.strip() for cell in first), columns, strict=True)]
    are_values = known > 0 or any(cell and (_is_value(cell) or cell in column) for cell, column in below)
    are_names = any(
        cell
        and not _is_value(cell)
        and cell not in column
        and 1.25 * sum(map(_is_value, column)) > len(column)
        for cell, column in below
    )
    is_header = are_values or not (are_names or comment.startswith("# "))
    doubt = f"{comment[:40]!r} is read as {'the header' if is_header else 'a comment'}, which is uncertain: "
    doubt += "delete its sign if it is the header, the line if it is a comment"
    return header if is_header else None, doubt if are_values == are_names else ""


def _names_in(line: str, dialect: Dialect) -> list[str]:
    try:
        return [name.strip() for name in next(reader(lines_of([line], dialect), dialect), [line])]
    except csv.Error:
        return [line]


def _is_value(cell: str) -> bool:
    """Return whether a cell is a number, a date or a spelling of a missing value, as headers have none."""
    return cell.lower() in MISSING or VALUE.match(cell) is not None


def _best(text: str, options: Options, *, whole: bool) -> tuple[Dialect, list[list[str]]]:
    """Choose the dialect with the most uniform rows; ties go to more columns, then to the more common one."""
    best: tuple[tuple[float | bool, ...], Dialect, list[list[str]]] | None = None
    for rank, dialect in enumerate(_candidates(text, options)):
        rows, well_quoted = _rows(text, dialect, whole=whole)
        above = titles(rows, options) if options.header_line is None else 0
        table = rows[above:]
        alike, exact = _alike(table)
        is_blank = dialect.separator == " " and options.separator is None
        if is_blank and (alike < 1 or len(rows) < 2 or above):
            continue  # prose has spaces too
        # The share is rounded, since small differences say little.
        score = (round(alike, 1), well_quoted, -above, exact, 0 if is_blank else len(table[0]), -rank)
        if best is None or score > best[0]:
            best = (score, dialect, rows)
    assert best is not None
    return best[1], best[2]


def _alike(rows: list[list[str]]) -> tuple[float, bool]:
    """Return the share of rows as wide as the header or one wider, and whether the former prevail."""
    width = len(rows[0])
    if width < 2:
        return 0.0, True
    same = sum(len(row) == width for row in rows[1:])
    wider = sum(len(row) == width + 1 for row in rows[1:])
    return (1 + max(same, wider)) / len(rows), same >= wider


def _candidates(text: str, options: Options) -> Iterator[Dialect]:
    signs = [CHARACTERS[options.separator]] if options.separator else list(CHARACTERS.values())
    if options.separator is None and (only := _first_line(text)) in options.known:
        signs = [sign for sign in signs if sign not in only]  # a separator in the name of a single column
        signs = signs or [","]
    quote = None if options.quote is None else QUOTES.get(options.quote, "")
    for sign in signs:
        yield Dialect(sign, '"' if quote is None else quote)
    for sign in signs:
        if quote in {None, '"'} and '\\"' in text:
            yield Dialect(sign, '"', escape=True)
        if quote is None and re.search(rf"(?:^|{re.escape(sign)})'", text, re.MULTILINE):
            yield Dialect(sign, "'")
        if sign != " " and quote in {None, '"'} and f'{sign} "' in text:
            yield Dialect(sign, '"', blanks=True)


def _first_line(text: str) -> str:
    return (text.splitlines() or [""])[0].strip().strip('"')


def reader(lines: Any, dialect: Dialect, *, strict: bool = False) -> Any:
    """Return Python's CSV reader for this dialect over lines of text."""
    return csv.reader(
        lines,
        delimiter=dialect.separator,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar="\\" if dialect.escape else None,
        skipinitialspace=dialect.blanks or dialect.separator == " ",
        strict=strict,
    )


def lines_of(file: Any, dialect: Dialect) -> Iterator[str]:
    """Yield the lines of a text file; for separating spaces, stripped and with tabs replaced."""
    for line in file:
        yield f"{line.strip()}\n".replace("\t", " ") if dialect.separator == " " else line


def _rows(text: str, dialect: Dialect, *, whole: bool) -> tuple[list[list[str]], bool]:
    """Return the first rows, and whether the quoting is consistent with the dialect."""
    rows: list[list[str]] = []
    well_quoted = True
    limit = csv.field_size_limit(WIDEST_SAMPLE_BYTES)
    try:
        for row in reader(lines_of(io.StringIO(text, newline=""), dialect), dialect):
            if row:
                rows.append(row)
            if len(rows) == SAMPLE_ROWS:
                break
        strict = reader(lines_of(io.StringIO(text, newline=""), dialect), dialect, strict=True)
        for _ in islice(strict, SAMPLE_ROWS - 1):
            pass
    except csv.Error as error:
        well_quoted = not whole and "unexpected end" in str(error)  # the sample ends within quotes
    finally:
        csv.field_size_limit(limit)
    cells = [cell.strip() for row in rows for cell in row]
    stray = sum(len(cell) > 1 and cell[0] == cell[-1] and cell[0] in "\"'" for cell in cells)
    well_quoted = well_quoted and stray <= len(cells) / 10
    # The end of the sample may cut the last row.
    cut = not whole and 1 < len(rows) < SAMPLE_ROWS
    return (rows[:-1] if cut else rows) or [[text.splitlines()[0]]], well_quoted


def _with_names(dialect: Dialect, rows: list[list[str]], options: Options) -> Dialect:
    names = [name.strip() for name in rows[0]]
    widths = {len(row) for row in rows[1:]}
    labels = False
    if options.header is None:
        known = {*options.known, *options.kinds}
        _check_header(names, rows, dialect.line, known)
        if (
            options.header_line is None
            and not known & {*names}
            and _heads(rows[1] if rows[1:] else [], rows[2:])
        ):
            message = f"line {dialect.line} is read as the header, though the next row has words alone too: "
            message += "if that is the header, name its line (?header_line=...); if it has units, delete it"
            dialect = replace(dialect, doubt=dialect.doubt or message)
    if widths == {len(names) + 1} and len(names) > 1:
        if all(not row[-1].strip() for row in rows[1:]):
            names.append("")  # every row ends with a separator
        else:
            labels, names = True, ["", *names]  # the format of R for row names
    elif widths == {len(names) - 1} and not names[-1]:
        names.pop()
    _check_width(len(names))
    unnamed = frozenset(position for position, name in enumerate(names) if not name)
    if len(unnamed) == len(names):
        raise UnusableDataError(f"The header (line {dialect.line}) is empty: put the column names there.")
    _check_names(names)
    taken = set(names)
    for position in unnamed:
        names[position] = _free(f"column_{position + 1}", taken)
        taken.add(names[position])
    return replace(dialect, names=tuple(names), labels=labels, unnamed=unnamed)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _check_width(width: int) -> None:
    if width > MAX_COLUMNS:
        raise UnusableDataError(f"The header names {width} columns; at most {MAX_COLUMNS} are accepted.")


def _check_header(names: Sequence[str], rows: list[list[str]], line: int, known: Collection[str]) -> None:
    if _all_numbers(names) and not {name.strip() for name in names} & {*known}:
        raise UnusableDataError(
            f"The first line (line {line}) holds only numbers, so the file seems to have no header: "
            "put a line with the column names first, or pass ?header=false."
        )
    widths = Counter(len(row) for row in rows[1:])
    width, times = widths.most_common(1)[0] if widths else (0, 0)
    if len(names) == 1 < width and times > 1 and times >= 0.8 * (len(rows) - 2):
        row = next(number for number, row in enumerate(rows) if len(row) == width)
        raise UnusableDataError(
            f"The table seems to begin below line {line}: line {line} holds one value, but rows from row "
            f"{row + 1} of the file on have {width}. Name the line of the header (?header_line=...), or "
            "remove what is above it."
        )


def _all_numbers(cells: Sequence[str]) -> bool:
    return any(cells) and all(NUMBER.fullmatch(cell.strip()) for cell in cells if cell.strip())


def _check_names(names: Sequence[str]) -> None:
    faults = [
        fault for position, name in enumerate(names, 1) if (fault := name_fault(f"column {position}", name))
    ]
    seen: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if name in seen and name:
            message = f"the header has this name twice, in columns {seen[name]} and {position}: rename one"
            faults.append(Fault(name[:MAX_NAME], None, message))
        seen.setdefault(name, position)
    if faults:
        raise UnusableDataError(errors=faults)


def name_fault(which: str, name: str) -> Fault | None:
    """Return the fault of a column name, None for a valid or absent one."""
    fault = fault_in_words(name) if name else ""
    quoted = " (is a quote in the header never closed?)" if len(name) > MAX_NAME and "\n" in name else ""
    return Fault(None, None, f"the name of {which} {fault}{quoted}") if fault else None
