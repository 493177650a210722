"""Parsing of numbers: decimal points or commas, with thousands separators where they are certain.

"1,5" can only have a decimal comma, "1,234.5" and "1,234,567" only thousands separators. "1,234" may be
either: other columns of the file or the caller decide; otherwise the column stays text, with a note. Numbers
are never guessed.
"""

import math
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from app.services.readers.values.scalars import all_match, any_contains
from app.store.column_codec import exact_numbers
from sampler.host.data import BEYOND

Style = Literal["point", "comma"]  # the decimal sign; the other one may separate thousands
_END = r"([eE][+-]?\d+)?$"
_POINT = rf"^[+-]?(\d+\.?\d*|\.\d+|[1-9]\d{{0,2}}(,\d{{3}})+(\.\d*)?){_END}"
_COMMA = rf"^[+-]?(\d+,?\d*|,\d+|[1-9]\d{{0,2}}(\.\d{{3}})+(,\d*)?){_END}"
INFINITE = r"^[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?$"
_PATTERNS: dict[Style, str] = {"point": _POINT, "comma": _COMMA}
# A space (also a non-breaking one) or an apostrophe between digits can only separate thousands.
_GAP = "[ '\u2019\u00a0\u2009\u202f]"
_SPACED = rf"^[+-]?[1-9]\d{{0,2}}({_GAP}\d{{3}})+([.,]\d+)?$|^[+-]?\d+([.,]\d+)?$"


def fitting(text: pa.ChunkedArray) -> set[Style]:
    """Return the styles in which all cells are numbers; both for whole numbers and for "1,234"."""
    return {style for style, pattern in _PATTERNS.items() if all_match(text, pattern)}


def is_doubtful(text: pa.ChunkedArray) -> bool:
    """Return whether the two styles, where both fit, can give different numbers."""
    return any_contains(text, ".") or any_contains(text, ",")


def fits(text: pa.ChunkedArray, style: Style) -> pa.ChunkedArray:
    """Return which cells are numbers in this style."""
    return pc.match_substring_regex(text, f"{_PATTERNS[style]}|{INFINITE}")


def all_fit(text: pa.ChunkedArray, style: Style) -> bool:
    """Return whether all cells are numbers in this style, or a word for infinity."""
    return all_match(text, f"{_PATTERNS[style]}|{INFINITE}")


def to_numbers(text: pa.ChunkedArray, style: Style) -> pa.ChunkedArray:
    """Convert cells that fit a style to float64, integers that this would round to int64 or uint64."""
    if style == "comma":
        text = pc.replace_substring(pc.replace_substring(text, ".", ""), ",", ".")
    elif any_contains(text, ","):
        text = pc.replace_substring(text, ",", "")
    return _exact(text, pc.cast(text, pa.float64()))


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether a column of this type has numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _exact(text: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the integers of whole numbers that float64 rounds, int64 or uint64; else the float64 numbers."""
    low, high = (end.as_py() for end in pc.min_max(numbers).values())
    if low is None or not BEYOND <= max(-low, high) < math.inf:
        return numbers
    text = pc.replace_substring_regex(text, r"^\+", "")
    for kind in (pa.int64(), pa.uint64()):
        try:
            return exact_numbers(pc.cast(text, kind))
        except pa.ArrowInvalid:
            continue
    return numbers


def plain(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Convert cells as `to_numbers` the fast way if all are present, plain and finite; else return None."""
    try:
        numbers = pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        return None
    finite = pc.all(pc.is_finite(numbers), min_count=0).as_py()
    return _exact(text, numbers) if finite and numbers.null_count == 0 else None


def without_gaps(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Remove spaces and apostrophes that separate thousands; None if the cells have another form."""
    if not all_match(text, _SPACED):
        return None
    return pc.replace_substring_regex(text, _GAP, "")


def are_codes(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return which cells are whole numbers that begin with 0, as codes do and numbers don't ("007")."""
    return pc.match_substring_regex(text, r"^\s*0\d+\s*$")


def has_codes(text: pa.ChunkedArray) -> bool:
    """Return whether some cell is a code such as "007"."""
    return bool(pc.any(are_codes(text), min_count=0).as_py())


def readings(cell: str) -> str:
    """Describe the two numbers that a cell which fits both styles may be."""
    point, comma = (to_numbers(pa.chunked_array([[cell]]), style)[0].as_py() for style in _PATTERNS)
    return f"{cell!r} is {point:.15g} with a decimal point, {comma:.15g} with a decimal comma"
