"""How a delimited file is written: what separates its values, what quotes them, where its header is.

Found from the beginning of the file: the dialect that cuts the first rows most alike. Whatever was decided is
told (`Dialect.told`), and each part can be said by the caller instead.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from app.services.errors import Fault, UnusableDataError
from app.services.readers.options import CHARACTERS, MAX_COLUMNS, MAX_NAME, QUOTES, Options

SAMPLE_BYTES = 64 * 1024  # of the beginning
WIDEST_SAMPLE_BYTES = 4 << 20  # where a header alone is longer
SAMPLE_ROWS = 50
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")
SEP_LINE = re.compile(r'"?sep=(.)"?\s*\r?\n', re.IGNORECASE)  # as Excel writes and reads it
SINGLE_COLUMN = (
    "The file has a single column: none of comma, semicolon, tab, bar and blanks divides its first line. "
    "A table needs a target and at least one feature. If another sign separates the values, write one of "
    "these."
)
NO_ROWS = "The file has a header but no rows."
EMPTY = "The file is empty: send a header line with the columns' names, then rows."


@dataclass(frozen=True)
class Dialect:
    """How the values are written, and the columns' names.

    `offset` and `line` are where the header begins (or the first row, where there is none); `labels` says
    that the rows have one value more than the header, a name of the row, at their beginning; `unnamed` are
    positions of columns without a name, counted from 0.
    """

    separator: str
    quote: str = '"'
    escape: bool = False  # \" within quotes
    blanks: bool = False  # blanks after a separator are no part of the value
    offset: int = 0
    line: int = 1
    names: tuple[str, ...] = ()
    header: bool = True
    labels: bool = False
    unnamed: frozenset[int] = frozenset()

    @property
    def is_plain(self) -> bool:
        """Whether Arrow's reader knows all of it."""
        return self.separator != " " and not self.blanks

    def told(self) -> dict[str, Any]:
        """The words of the options for what was decided."""
        words = {sign: word for word, sign in CHARACTERS.items()}
        quotes = {sign: word for word, sign in QUOTES.items()}
        return {
            "separator": words.get(self.separator),
            "quote": quotes.get(self.quote, "none"),
            "escape": "backslash" if self.escape else "doubled",
            "header": self.header,
            "header_line": self.line if self.header else None,
        }


def sniff(sample: bytes, options: Options, *, whole: bool) -> Dialect:
    """The dialect of a file by its beginning, with the columns' names.

    Parameters
    ----------
    sample
        UTF-8; its end may cut a character or a row unless it is the `whole` file.

    Raises
    ------
    UnusableDataError
        No header, or names that can't be: doubled, too long, not printable, too many.
    """
    text = sample.decode("utf-8", errors="ignore")
    offset, line, text, given = _beginning(text)
    if not text.strip():
        raise UnusableDataError(EMPTY)
    options = replace(options, separator=options.separator or given)
    dialect, rows = _best(text, options, whole=whole)
    dialect = replace(dialect, offset=offset, line=line)
    if options.header is False:
        width = max(len(row) for row in rows)
        _check_width(width)
        names = tuple(f"column_{position}" for position in range(1, width + 1))
        return replace(dialect, names=names, header=False)
    return _with_names(dialect, rows, options)


def _beginning(text: str) -> tuple[int, int, str, Any]:
    """Where the table begins (bytes, line), the text from there, and the separator that a line names."""
    blank = re.match(r"(?:[ \t]*\r?\n|[ \t]*\r)*", text)
    skipped = blank.end() if blank else 0
    given = None
    if found := SEP_LINE.match(text, skipped):
        given = {sign: word for word, sign in CHARACTERS.items()}.get(found[1])
        skipped = found.end() if given else skipped
    elif (comments := re.match(r"(?:#.*(?:\r?\n|\r))+", text[skipped:])) is not None:
        last = re.split(r"\r?\n|\r", comments[0].rstrip("\r\n"))[-1]
        following = text[skipped + comments.end() :].splitlines()
        is_header = bool(following) and _all_numbers(re.split(r"[\s,;|]+", following[0].strip()))
        skipped += comments.end()
        if is_header:  # as numpy writes it: the header is the last of the comments
            skipped -= len(comments[0]) - comments[0].rindex(last) - len(last) + len(last.lstrip("# "))
    return (
        len(text[:skipped].encode()),
        1 + len(re.findall(r"\r?\n|\r", text[:skipped])),
        text[skipped:],
        given,
    )


def _best(text: str, options: Options, *, whole: bool) -> tuple[Dialect, list[list[str]]]:
    """The dialect that cuts the rows most alike; of equals more columns, then the more usual one."""
    best: tuple[tuple[float | bool, ...], Dialect, list[list[str]]] | None = None
    for rank, dialect in enumerate(_candidates(text, options)):
        rows, well_quoted = _rows(text, dialect, whole=whole)
        alike, exact = _alike(rows)
        is_blank = dialect.separator == " " and options.separator is None
        if is_blank and (alike < 1 or len(rows) < 2):
            continue  # prose has blanks too
        # One row more or less ragged says little; half of them does. Then more columns win.
        score = (round(alike, 1), well_quoted, exact, 0 if is_blank else len(rows[0]), -rank)
        if best is None or score > best[0]:
            best = (score, dialect, rows)
    assert best is not None
    return best[1], best[2]


def _alike(rows: list[list[str]]) -> tuple[float, bool]:
    """The share of rows as wide as the header, or one wider (names of rows), and whether as wide as it."""
    width = len(rows[0])
    if width < 2:
        return 0.0, True
    same = sum(len(row) == width for row in rows[1:])
    wider = sum(len(row) == width + 1 for row in rows[1:])
    return (1 + max(same, wider)) / len(rows), same >= wider


def _candidates(text: str, options: Options) -> Iterator[Dialect]:
    signs = [CHARACTERS[options.separator]] if options.separator else list(CHARACTERS.values())
    if options.separator is None and (only := _first_line(text)) in options.known:
        signs = [sign for sign in signs if sign not in only]  # a single column that has a sign in its name
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
    """Python's reader of that dialect, over lines of text."""
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
    """The lines of a text file; where blanks separate, none is at an end, and a tab is one."""
    for line in file:
        yield f"{line.strip()}\n".replace("\t", " ") if dialect.separator == " " else line


def _rows(text: str, dialect: Dialect, *, whole: bool) -> tuple[list[list[str]], bool]:
    """The first rows, and whether no quote stands where the dialect has none."""
    found: list[list[str]] = []
    well_quoted = True
    limit = csv.field_size_limit(WIDEST_SAMPLE_BYTES)
    try:
        for row in reader(lines_of(io.StringIO(text, newline=""), dialect), dialect):
            if row:
                found.append(row)
            if len(found) == SAMPLE_ROWS:
                break
        strict = reader(lines_of(io.StringIO(text, newline=""), dialect), dialect, strict=True)
        for _ in islice(strict, SAMPLE_ROWS - 1):
            pass
    except csv.Error as error:
        well_quoted = not whole and "unexpected end" in str(error)  # the sample ends within quotes
    finally:
        csv.field_size_limit(limit)
    cells = [cell.strip() for row in found for cell in row]
    stray = sum(len(cell) > 1 and cell[0] == cell[-1] and cell[0] in "\"'" for cell in cells)
    well_quoted = well_quoted and stray <= len(cells) / 10
    # The last row may be cut off by the end of the sample.
    cut = not whole and 1 < len(found) < SAMPLE_ROWS
    return (found[:-1] if cut else found) or [[text.splitlines()[0]]], well_quoted


def _with_names(dialect: Dialect, rows: list[list[str]], options: Options) -> Dialect:
    names = [name.strip() for name in rows[0]]
    widths = {len(row) for row in rows[1:]}
    labels = False
    if options.header is None:
        _check_header(names, rows, dialect.line)
    if widths == {len(names) + 1} and len(names) > 1:
        if all(not row[-1].strip() for row in rows[1:]):
            names.append("")  # every row ends with a separator
        else:
            labels, names = True, ["", *names]  # as R writes the names of rows
    elif widths == {len(names) - 1} and not names[-1]:
        names.pop()
    _check_width(len(names))
    unnamed = frozenset(position for position, name in enumerate(names) if not name)
    if len(unnamed) == len(names):
        raise UnusableDataError(f"The header (line {dialect.line}) names no column: put the names there.")
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
        raise UnusableDataError(f"The header names {width} columns; at most {MAX_COLUMNS} are taken.")


def _check_header(names: Sequence[str], rows: list[list[str]], line: int) -> None:
    if _all_numbers(names):
        raise UnusableDataError(
            f"The first line (line {line}) holds only numbers, so the file seems to have no header: "
            "put a line with the columns' names first, or say ?header=false."
        )
    widths = Counter(len(row) for row in rows[1:])
    width, times = widths.most_common(1)[0] if widths else (0, 0)
    if len(names) == 1 < width and times > 1 and times >= 0.8 * (len(rows) - 2):
        row = next(number for number, row in enumerate(rows) if len(row) == width)
        raise UnusableDataError(
            f"The table seems to begin below line {line}: line {line} holds one value, and from row "
            f"{row + 1} of "
            f"the file on there are {width}. Remove the lines above the header."
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
            told = f"the name stands twice in the header, in columns {seen[name]} and {position}: rename one"
            faults.append(Fault(name[:MAX_NAME], None, told))
        seen.setdefault(name, position)
    if faults:
        raise UnusableDataError(errors=faults)


def name_fault(which: str, name: str) -> Fault | None:
    """What is wrong with the name of a column; None where nothing is, or it has none."""
    if len(name) > MAX_NAME:
        told = f"the name of {which} has more than {MAX_NAME} characters: shorten it"
        return Fault(None, None, f"{told} (is a quote in the header never closed?)" if "\n" in name else told)
    if name and not name.isprintable():
        return Fault(None, None, f"the name of {which} holds characters that can't be printed: rename it")
    return None
