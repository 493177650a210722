"""Numbers as people write them: decimal points or commas, and thousands set apart where that is certain.

"1,5" can only have a decimal comma, "1,234.5" and "1,234,567" only thousands. "1,234" may be either: the
other columns of the file decide, or the caller; else it stays text, and is told. Never is a number guessed.
"""

import re
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from app.services.readers.scalars import all_match, any_contains

Style = Literal["point", "comma"]  # the decimal sign; the other one may set thousands apart
_END = r"([eE][+-]?\d+)?$"
_POINT = rf"^[+-]?(\d+\.?\d*|\.\d+|[1-9]\d{{0,2}}(,\d{{3}})+(\.\d*)?){_END}"
_COMMA = rf"^[+-]?(\d+,?\d*|,\d+|[1-9]\d{{0,2}}(\.\d{{3}})+(,\d*)?){_END}"
PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
INFINITE = r"^[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?$"
_PATTERNS: dict[Style, str] = {"point": _POINT, "comma": _COMMA}
# Thousands set apart by a blank (also one that doesn't break) or an apostrophe mean nothing else.
_GAP = "[ '\u2019\u00a0\u2009\u202f]"
_SPACED = rf"^[+-]?[1-9]\d{{0,2}}({_GAP}\d{{3}})+([.,]\d+)?$|^[+-]?\d+([.,]\d+)?$"


def fitting(text: pa.ChunkedArray) -> set[Style]:
    """The ways in which all cells can be read as numbers; both for whole numbers and for "1,234"."""
    return {style for style, pattern in _PATTERNS.items() if all_match(text, pattern)}


def is_doubtful(text: pa.ChunkedArray) -> bool:
    """Whether the two ways, where both fit, give different numbers."""
    return any_contains(text, ".") or any_contains(text, ",")


def fits(text: pa.ChunkedArray, style: Style) -> pa.ChunkedArray:
    """Which cells are numbers in that style."""
    return pc.match_substring_regex(text, f"{_PATTERNS[style]}|{INFINITE}")


def all_fit(text: pa.ChunkedArray, style: Style) -> bool:
    """Whether all cells are numbers in that style, or the word for an infinite one."""
    return all_match(text, f"{_PATTERNS[style]}|{INFINITE}")


def to_numbers(text: pa.ChunkedArray, style: Style) -> pa.ChunkedArray:
    """Cells that fit a style as float64."""
    if style == "comma":
        text = pc.replace_substring(pc.replace_substring(text, ".", ""), ",", ".")
    elif any_contains(text, ","):
        text = pc.replace_substring(text, ",", "")
    return pc.cast(text, pa.float64())


def plain(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Cells as float64 when all are present and plain numbers, the quick way; None when they are not."""
    try:
        numbers = pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        return None
    finite = pc.all(pc.is_finite(numbers), min_count=0).as_py()
    return numbers if finite and numbers.null_count == 0 else None


def without_gaps(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The cells without the blanks or apostrophes that set thousands apart; None when that is not it."""
    if not all_match(text, _SPACED):
        return None
    return pc.replace_substring_regex(text, _GAP, "")
