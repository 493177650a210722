"""Numbers with a unit, or in the notation of accounts: "1.508,98 €", "12 %", "($3.50)".

Amounts of money, percentages and usual measures are read where all cells have the same unit, and so are
negative numbers in parentheses beside others, and thousands ("1.2k") beside millions or plain numbers. Any
other unit, or cells without one, are read on request: until then the column is text, with a note.
"""

import functools
import re
from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from app.services.readers.values.scalars import all_match, quote_cell
from sampler.host.data import value_as_text as as_text

_TIMES = ("days", "weeks", "months", "years", "hours", "minutes")
SYMBOLS = {"€": "EUR", "£": "GBP", "₹": "INR", "₺": "TRY", "₽": "RUB", "₴": "UAH", "₩": "KRW", "₪": "ILS"}
SYMBOLS |= {"US$": "USD", "Fr.": "CHF", "SFr.": "CHF", "zł": "PLN", "Kč": "CZK", "Ft": "HUF", "R$": "BRL"}
SYMBOLS |= {one: many for many in _TIMES for one in (many[:-1], many.capitalize())}
SYMBOLS |= {"yr": "years", "yrs": "years", "hrs": "hours", "mins": "minutes"}
SYMBOLS |= {"Rs.": "INR", "Euro": "EUR", "euro": "EUR", "kr.": "kr", "percent": "%", "pct": "%"}
SYMBOLS |= {"sq m": "sqm", "sq ft": "sqft", "sq. m": "sqm", "sq. ft": "sqft", "sq. ft.": "sqft"}
# Shown as they are: a sign of several currencies names none.
_CURRENCIES = (
    "EUR USD GBP JPY CNY CHF SEK NOK DKK ISK PLN CZK HUF RON BGN TRY RUB UAH INR PKR AUD CAD NZD HKD SGD TWD "
    "KRW THB MYR IDR PHP VND BRL MXN ARS CLP UYU ZAR NGN KES EGP ILS AED SAR KZT GEL RSD"
)
MONEY = frozenset({"$", "¥", "kr", *_CURRENCIES.split()})
UNITS = MONEY | {"%", "‰"}
# Such as no code has: of "5 m" or "3 K" it is not plain what they are.
_MEASURES = "kg mg lb lbs oz cm mm km ft yd mi ml cl kW kWh MWh GB MB km/h mph sqm sqft °C °F"
_SQUARES = "km² m² cm² mm² ft² yd² mi² in² m³ cm³ mm³ ft³ yd³ in³"
MEASURES = UNITS | {*_MEASURES.split(), *_SQUARES.split(), *_TIMES}
KNOWN = MEASURES | {"g", "m", "t", "l", "L", "in", "h", "min", "s", "K"}
SCALES = {"k": "e3", "K": "e3", "M": "e6", "Mio": "e6", "bn": "e9", "Mrd": "e9"}
_LARGE, _SMALL = "ft|feet|'|\u2032|lbs?|st|h|hrs?|min|m", "in|\"|\u2033|''|oz|lbs?|m|min|s"
TWO_NUMBERS = rf"^\d+ ?(?:{_LARGE})\.?,? ?\d+(?:[.,]\d+)? ?(?:{_SMALL})?\.?$"
HOURS = "h"  # the unit of times that are read as numbers
_MINUS = ("-", "\u2212", "\u2013")  # with the typographic minus, and the dash that stands for it
_SIGNS = f"+\\{''.join(_MINUS)}"
_SIGN = f"[{_SIGNS}]"
_LONGEST = 12  # characters of a unit
_APOSTROPHE = "\u2019"
_BLANK = "[ \u00a0\u2009\u202f]"
_UNIT = rf"[^\d\s.,'(){_SIGNS}:/][^\d(){_SIGNS}:]*?"
_POWERS = {power: rf"^((?:[kcm]?m|ft|yd|mi|in))\^?{power}$" for power in "23"}  # m2 and m^2 for m²
_POWER = r"(?:[kcm]?m|ft|yd|mi|in)\^?[23]"
OF_POWER = rf"{_POWER}$"
_MONEY = "|".join(sorted(map(re.escape, MONEY | {each for each, name in SYMBOLS.items() if name in MONEY})))
_SCALE = "|".join(SCALES)
# Thousands and millions of money: $1.2k, 3.5 Mio. €
_OF_MONEY = rf"^(?:(?P<money>{_MONEY}) (?P<scale>{_SCALE})|(?P<scale_2>{_SCALE})\.? ?(?P<money_2>{_MONEY}))$"
_SIGNED = "[$¥%‰€£₹₺₽₴₩₪]"  # of money or per cent, as no code has
_DIGITS = rf"[.,]?\d(?:[\d.,'{_APOSTROPHE}]|{_BLANK}\d)*(?:[eE][+-]?\d{{1,3}})?"
_PATTERN = (
    rf"^(?P<open>\(?){_BLANK}*(?P<sign>{_SIGN}?){_BLANK}*(?P<before>(?:{_UNIT})?){_BLANK}*(?P<inner>{_SIGN}?)"
    rf"{_BLANK}*(?P<digits>{_DIGITS}){_BLANK}*(?P<after>(?:{_POWER}|{_UNIT})?)(?P<close>\)?)$"
)
TIME = (
    r"^(?P<hour>\d{1,3}):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d(?:\.\d{1,9})?))?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?$"
)
_ZERO = r"^0+([.,]0*)?$"


@dataclass(frozen=True)
class Amounts:
    """Cells split into numbers and units, each for itself.

    Attributes
    ----------
    text
        The cells.
    numbers
        Their numbers as text, with a minus if negative; null where a cell has no such form.
    units
        Names of their units, empty without one; null where `numbers` is.
    special
        Whether a cell has a unit, or is negative by parentheses or another sign than "-".
    is_plain
        Whether no thousands or millions were read that may be units.

    """

    text: pa.ChunkedArray
    numbers: pa.ChunkedArray
    units: pa.ChunkedArray
    special: pa.ChunkedArray
    is_plain: bool = True

    def scaled(self, *, known: bool = False) -> "Amounts":
        """Return numbers times thousands and millions where these can't be one unit.

        Rows of a model whose file has no unit (`known`) have them too, but K alone may be kelvins.
        """
        found = {*self.counts}
        are_scales = "k" in found or ("K" not in found if known else len(found) > 1)
        if not {""} < found | {""} <= {"", *SCALES} or not are_scales:
            return self
        numbers = pc.binary_join_element_wise(self.numbers, _powers(self.units), "")
        units = pc.if_else(pc.is_valid(self.units), "", self.units)
        return replace(self, numbers=numbers, units=units, is_plain="k" in found and len(found) > 1)

    @classmethod
    def of(cls, text: pa.ChunkedArray) -> "Amounts":
        """Split the cells."""
        parts = pa.chunked_array([pc.extract_regex(chunk, _PATTERN) for chunk in text.chunks])
        names = ("open", "sign", "before", "inner", "digits", "after", "close")
        field = {name: pc.struct_field(parts, name) for name in names}
        has = {name: pc.not_equal(field[name], "") for name in names}
        signed = pc.or_(has["sign"], has["inner"])
        units, powers = _split_scales(pc.binary_join_element_wise(field["before"], field["after"], " "))
        odd = [
            pc.and_(has["sign"], has["inner"]),
            pc.and_(pc.and_(has["before"], has["after"]), pc.equal(powers, "")),
        ]
        odd += [pc.and_(has["open"], signed), pc.xor(has["open"], has["close"])]
        odd.append(pc.greater(pc.utf8_length(units), _LONGEST))
        fits = pc.invert(functools.reduce(pc.or_, odd))
        sign = pc.binary_join_element_wise(field["sign"], field["inner"], "")
        minus = pc.if_else(pc.or_(has["open"], pc.is_in(sign, value_set=pa.array(_MINUS))), "-", "")
        # Other texts before a number are those of codes, such as A1.
        fits = pc.and_(fits, pc.or_(pc.invert(has["before"]), pc.is_in(units, value_set=pa.array([*UNITS]))))
        nothing = pa.scalar(None, pa.string())
        unusual = pc.and_(pc.not_equal(sign, "-"), pc.not_equal(sign, "+"))
        negative = pc.and_(pc.equal(minus, "-"), pc.or_(has["open"], unusual))
        return cls(
            text=text,
            numbers=pc.if_else(
                fits, pc.binary_join_element_wise(minus, field["digits"], powers, ""), nothing
            ),
            units=pc.if_else(fits, units, nothing),
            special=pc.fill_null(pc.and_(fits, pc.or_(negative, pc.not_equal(units, ""))), fill_value=False),
        )

    @classmethod
    def of_times(cls, text: pa.ChunkedArray, hours: pa.ChunkedArray) -> "Amounts":
        """Take cells that are times for numbers of hours; `hours` is null for the others."""
        are_times, nothing = pc.is_valid(hours), pa.scalar(None, pa.string())
        numbers, units = (pc.if_else(are_times, each, nothing) for each in (text, pa.scalar(HOURS)))
        return cls(text=text, numbers=numbers, units=units, special=are_times)

    @functools.cached_property
    def counts(self) -> Counter[str]:
        """Count the cells by unit; zeros without one are of any, and don't count."""
        zero = pc.and_(pc.equal(self.units, ""), pc.match_substring_regex(self.numbers, _ZERO))
        counted = pc.value_counts(self.units.filter(pc.invert(zero))).to_pylist()
        return Counter({each["values"]: each["counts"] for each in counted})

    @property
    def unit(self) -> str:
        """The most frequent unit, empty where no cell has one."""
        return next((unit for unit, _ in self.counts.most_common() if unit), "")

    @property
    def are_special(self) -> bool:
        """Whether any cell has a unit or an unusual sign."""
        return bool(pc.any(self.special, min_count=0).as_py())

    @property
    def are_clear(self) -> bool:
        """Whether no cell is in doubt: one unit of money or percent, or none and some not in parentheses."""
        if len(self.counts) > 1 or self.numbers.null_count > self.text.null_count:
            return False
        return self.unit in MEASURES if self.unit else self.is_plain and not self._are_in_parentheses

    @property
    def _are_in_parentheses(self) -> bool:
        return bool(pc.all(pc.starts_with(self.text, "("), min_count=0).as_py())

    def bare(self) -> pa.ChunkedArray:
        """Return the numbers as text, and cells of another form as they are."""
        return pc.coalesce(self.numbers, self.text)

    def reading(self, values: pa.ChunkedArray) -> str:
        """Describe how the first special cell is read, given the values of all."""
        row = pc.index(self.special, value=True).as_py()
        unit, value = self.units[row].as_py(), values[row].as_py()
        in_unit = f" in {unit}" if unit else ""
        return f"{quote_cell(self.text[row].as_py())} is read as the number {as_text(value)}{in_unit}"

    def doubt(self, name: str) -> str:
        """Say why cells that all have this form are not read, and how they would be; empty if clear."""
        ask = f"give it the kind number (?kind={name}:number)"
        if self.numbers.null_count > self.text.null_count:
            signed = self.text.filter(pc.match_substring_regex(self.text, _SIGNED))
            if not len(signed):  # as codes have letters
                return ""
            return f"{quote_cell(signed[0].as_py())} isn't read as a number: write the number with one unit"
        cell, number = self.text.drop_null()[0].as_py(), self.numbers.drop_null()[0].as_py()
        units = [unit for unit, _ in self.counts.most_common() if unit]
        if not units:
            is_doubtful = self._are_in_parentheses or not self.is_plain
            return f"{quote_cell(cell)} may be {number}: {ask} if it is" if is_doubtful else ""
        if len(units) > 1:
            return (
                f"its values are in {' and '.join(units[:3])}: write all in one"
                if {*units} <= KNOWN | {*SCALES}
                else ""
            )
        unit = units[0]
        if self.counts[""]:
            bare = f"{self.counts['']} without a unit"
            return f"{self.counts[unit]} of its values in {unit}, {bare}: {ask} to take all for {unit}"
        return f"{quote_cell(cell)} looks like a number with the unit {unit}: {ask} to read it so"


def _named(units: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace signs and words by the names of units."""
    for sign, name in SYMBOLS.items():
        units = pc.if_else(pc.equal(units, sign), name, units)
    for power, pattern in _POWERS.items():
        units = pc.replace_substring_regex(units, pattern, rf"\1{'²³'[power == '3']}")
    return units


def _powers(scales: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace words for thousands and millions by exponents."""
    for word, power in SCALES.items():
        scales = pc.if_else(pc.equal(scales, word), power, scales)
    return scales


def _split_scales(units: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return names of units, and the exponents of thousands and millions of money, empty elsewhere."""
    units = pc.utf8_trim_whitespace(units)
    parts = pa.chunked_array([pc.extract_regex(chunk, _OF_MONEY) for chunk in units.chunks])
    money, scale = (
        pc.fill_null(
            pc.binary_join_element_wise(
                pc.struct_field(parts, name), pc.struct_field(parts, f"{name}_2"), ""
            ),
            "",
        )
        for name in ("money", "scale")
    )
    return _named(pc.if_else(pc.equal(scale, ""), units, money)), _powers(scale)


def look_like(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return which cells have the form of an amount, plain numbers included."""
    return pc.match_substring_regex(text, _PATTERN)


def are_amounts(text: pa.ChunkedArray) -> bool:
    """Return whether all present cells have the form of an amount, plain numbers included."""
    return all_match(text, _PATTERN)


def hours(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Convert times of day, or spans of hours and minutes, to hours; None where most cells are none.

    The others become null.
    """
    fits = pc.match_substring_regex(text, TIME)
    if 2 * (pc.sum(fits).as_py() or 0) <= len(text) - text.null_count:
        return None
    parts = pa.chunked_array([pc.extract_regex(chunk, TIME) for chunk in text.chunks])
    hour, minute, second = (
        pc.cast(pc.if_else(pc.equal(part, ""), "0", part), pa.float64())
        for part in (pc.struct_field(parts, name) for name in ("hour", "minute", "second"))
    )
    half = pc.utf8_lower(pc.struct_field(parts, "half"))
    of_twelve = pc.and_(pc.greater_equal(hour, 1.0), pc.less_equal(hour, 12.0))
    fits = pc.and_(fits, pc.or_(pc.equal(half, ""), of_twelve))
    hour = pc.if_else(pc.and_(pc.not_equal(half, ""), pc.equal(hour, 12.0)), 0.0, hour)
    hour = pc.add(hour, pc.if_else(pc.equal(half, "p"), 12.0, 0.0))
    hour = pc.add(hour, pc.divide(pc.add(minute, pc.divide(second, 60.0)), 60.0))
    return pc.if_else(fits, hour, pa.scalar(None, pa.float64()))
