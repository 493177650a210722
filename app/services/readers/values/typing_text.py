"""Typing of text columns: numbers, booleans, dates, or text; missing values become null."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.services.errors import Fault
from app.services.readers.options import Options
from app.services.readers.values import amounts, dates, numbers
from app.services.readers.values.amounts import Amounts
from app.services.readers.values.missing import MissingValues
from app.services.readers.values.numbers import Style
from app.services.readers.values.scalars import (
    all_match,
    any_contains,
    first_match,
    odd_cells,
    quote_cell,
    strangers,
)

RAW = "raw"  # a kind: unchanged text, including spellings of missing values
NAMED = 10  # infinite cells of a column reported individually
TRUE, FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
# Spellings of missing values that may also be levels of a category.
MAYBE_LEVELS = frozenset({"none", "nil", "-", "--", ".", "?"})
DATED = re.compile(r"(?i)date|datum|day|tag|fecha|time|zeit")  # in names of columns
USUAL_DECIMALS = {"comma": "point", "semicolon": "comma"}  # the decimal sign that goes with a separator
LATER: Any = object()  # the decision depends on other columns
Typed = tuple[pa.ChunkedArray, str]  # the values and a note


@dataclass
class Typing:
    """Typing of columns one after the other; evidence from one column helps to type the others.

    `separator` is that of the file. `missing` counts the spellings of missing values found. `faults` are
    unusable cells, for the caller to raise after all columns.
    """

    options: Options
    separator: str | None = None
    shown: dict[str, Style] = field(default_factory=dict)  # styles that are certain, by column
    guessed: bool = False  # some column has "1.234" alone, read with a decimal point for want of evidence
    grouped: bool = False  # some column has points as thousands separators ("1.234.567")
    orders: set[dates.Order] = field(default_factory=set)
    units: dict[str, str] = field(default_factory=dict)  # units of numbers, by column
    missing: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    def read(self, name: str, text: pa.ChunkedArray, *, last: bool = False) -> Typed | None:
        """Type a column; None when others may decide: call it again with `last` after all columns."""
        kind = self.options.kinds.get(name, self.options.otherwise)
        if kind == RAW:
            return pc.utf8_trim_whitespace(text), ""
        missing = MissingValues.of(self.options, name)
        if (quick := self._quick(kind, name, text)) is not None:
            return self._without(quick, missing), "" if kind else self._hint_of_dates(name, text)
        present, spelled = missing.removed(pc.utf8_trim_whitespace(text))
        typed = self._as_kind(kind, name, present, last=last)
        if typed is None:
            self.missing.update(spelled)
            return present, "; ".join(filter(None, [_note(spelled), doubt(name, present)]))
        if typed is LATER:
            return None
        self.missing.update(spelled)
        values, note = typed
        if kind is None and not note and numbers.is_numeric(values.type):
            note = self._hint_of_dates(name, present)
        return self._without(values, missing), note

    def _hint_of_dates(self, name: str, text: pa.ChunkedArray) -> str:
        """Return how to read numbers as the times that they seem to be; empty if they don't."""
        form = None if self.options.known else dates.form_of_numbers(text)
        # Many numbers are as long as a day number of a spreadsheet, which only the name gives away.
        if form is None or ("spreadsheet" in form and not DATED.search(name)):
            return ""
        cell = quote_cell(text.drop_null()[0].as_py())
        return _as_date(name, cell, form, of_forecast="yyyymmdd" in form)

    def without_missing(self, name: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a column that has a type of its own with null for values that mean missing."""
        return self._without(values, MissingValues.of(self.options, name))

    def _without(self, values: pa.ChunkedArray, missing: MissingValues) -> pa.ChunkedArray:
        """Return typed values with null for those that mean missing, and count these."""
        values, spelled = missing.removed(values)
        self.missing.update(spelled)
        return values

    def _quick(self, kind: str | None, name: str, text: pa.ChunkedArray) -> pa.ChunkedArray | None:
        """Convert a column of plain numbers, the usual case, else return None."""
        if kind not in {None, "number"} or self.options.decimal is not None:
            return None
        quick = numbers.plain(text)
        if quick is None or (kind is None and numbers.has_codes(text)) or self._may_be_thousands(name, text):
            return None
        return quick

    def _as_kind(self, kind: str | None, name: str, text: pa.ChunkedArray, *, last: bool) -> Any:
        """Convert the column to a kind, or to the detected one; None means text, LATER undecided."""
        if kind in {"category", "text"}:
            return text, ""
        if kind == "boolean":
            return self._booleans(name, text), ""
        if text.null_count == len(text):
            empty = pa.timestamp("us") if kind == "date" else pa.float64()
            return pa.chunked_array([pa.nulls(len(text), empty)]), ""
        values = None
        if kind is None and numbers.has_codes(text) and numbers.fitting(text):
            cell = quote_cell(text.filter(numbers.are_codes(text))[0].as_py())
            return (
                text,
                f"{cell} begins with 0, so these are codes: ?kind={name}:number reads them as numbers",
            )
        if kind != "date":
            values = self._numbers(name, text, last=last, required=kind == "number")
        if values is None and kind is None and _is_boolean(text):
            values = pc.equal(pc.utf8_lower(text), "true"), ""
        return self._dates(name, text, last=last, required=kind == "date") if values is None else values

    @property
    def styles(self) -> set[Style]:
        """Styles that are certain in some column."""
        return set(self.shown.values())

    @property
    def decimal(self) -> Style | None:
        """Decimal sign of the file, None while unknown."""
        styles: set[Style] = {"comma"} if self.grouped and not self.styles else self.styles
        return self.options.decimal or (next(iter(styles)) if len(styles) == 1 else None)

    def _may_be_thousands(self, name: str, text: pa.ChunkedArray) -> bool:
        """Return whether points in plain numbers may separate thousands ("1.234"); else note the style."""
        if not any_contains(text, "."):
            return False
        if numbers.fitting(text) == {"point"}:
            self.shown[name] = "point"
            return False
        return True

    def _numbers(self, name: str, text: pa.ChunkedArray, *, last: bool, required: bool) -> Any:
        """Parse numbers; None when they are not numbers, LATER when other columns decide."""
        fitting = numbers.fitting(text)
        if not fitting and (special := self._special(name, text, last=last, required=required)) is not None:
            return special
        if not fitting and (closer := numbers.without_gaps(text)) is not None:
            text, fitting = closer, numbers.fitting(closer)
        if len(fitting) == 2 and numbers.is_doubtful(text):
            return self._of_either_style(name, text, last=last, required=required)
        if self.options.decimal is not None:
            fitting &= {self.options.decimal}
        elif fitting == {"comma"} and not any_contains(text, ","):
            return self._of_points_only(name, text, last=last, required=required)
        if fitting:
            style: Style = "point" if "point" in fitting else "comma"
            if len(fitting) == 1 and numbers.is_doubtful(text):
                self.shown[name] = style
            values = numbers.to_numbers(text, style)
        elif required or numbers.all_fit(text, self.decimal or "point"):
            values = self._forced(name, text)
        else:
            return None
        self._refuse_infinite(name, values)
        return values, ""

    def _special(self, name: str, text: pa.ChunkedArray, *, last: bool, required: bool) -> Any:
        """Parse numbers with a unit or in the notation of accounts, and times where numbers are asked for."""
        if required and (hours := amounts.hours(text)) is not None:
            are_times = pc.if_else(pc.is_valid(text), pc.is_valid(hours), pa.scalar(None, pa.bool_()))
            self.faults += strangers(name, text, are_times, "a time such as 10:30")
            return self._in_unit(name, Amounts.of_times(text, hours), hours)
        if not required and not amounts.are_amounts(text):
            return None
        model = self.options.model
        has_unit = model is not None and name in model.units
        split = Amounts.of(text)
        split = split if has_unit else split.scaled(known=bool(self.options.known))
        if not split.are_special or not (required or split.are_clear):
            return None
        typed = self._numbers(name, split.bare(), last=last, required=required)
        if typed is None or typed is LATER:
            return typed
        values, note = typed
        return (text, note) if pa.types.is_string(values.type) else self._in_unit(name, split, values, note)

    def _in_unit(self, name: str, split: Amounts, values: pa.ChunkedArray, note: str = "") -> Typed:
        """Return the numbers of cells with units, and note how they are read where no model's file tells."""
        self.faults += self._other_units(name, split)
        if split.unit:
            self.units[name] = split.unit
        reading = "" if self.options.known else split.reading(values)
        return values, "; ".join(filter(None, [reading, note]))

    def _other_units(self, name: str, split: Amounts) -> list[Fault]:
        """Report cells in another unit than the others, or than the model's file."""
        unit, of_others = split.unit, "others"
        if self.options.known:
            model = self.options.model
            unit, of_others = "" if model is None else model.units.get(name, ""), "the model's file"
        odd = pc.and_(pc.not_equal(split.units, ""), pc.not_equal(split.units, unit))
        message = f"has another unit than {of_others}, {unit or 'none'}: write all values in that"
        return odd_cells(name, split.text, odd, lambda cell: f"{cell} {message}")

    def _of_either_style(self, name: str, text: pa.ChunkedArray, *, last: bool, required: bool) -> Any:
        """Parse cells such as "1,234" in the style of other columns or the caller; LATER when unknown."""
        if self.options.decimal is None and not last:
            return LATER
        if self._is_foreign:
            both = numbers.readings(first_match(text, "." if any_contains(text, ".") else ","))
            message = f"the model's file has decimal {self.decimal}s, but this one is separated by "
            message += f"{self.separator}s: pass ?decimal=point or ?decimal=comma"
            self.faults.append(Fault(name, None, f"{both}: {message}"))
            return text, ""
        if self.decimal is None and any_contains(text, ","):
            return self._undecided(name, text, required=required)
        style = self.decimal or "point"
        thousands = "." if style == "comma" else ","
        note = ""
        if self.options.decimal is None and any_contains(text, thousands):
            cell = first_match(text, thousands)
            note = f"{cell!r} is read with a thousands separator: other columns have a decimal {style}"
        elif self.decimal is None:
            self.guessed = True
            cell = first_match(text, ".").partition("e")[0]  # thousands of money are written as e3 here
            note = f"{cell!r} is read with a decimal point: if points separate thousands, "
            note += "pass ?decimal=comma"
        return numbers.to_numbers(text, style), note

    def _of_points_only(self, name: str, text: pa.ChunkedArray, *, last: bool, required: bool) -> Any:
        """Parse cells such as "1.234.567": thousands, or text where points are decimal in other columns."""
        self.grouped = True
        if not last:
            return LATER
        if required or "point" not in self.styles:
            return numbers.to_numbers(text, "comma"), ""
        cell = quote_cell(next(cell for cell in text.drop_null().to_pylist() if cell.count(".") > 1))
        return text, (
            f"{cell} may be a number with points between thousands, but other columns have a decimal point: "
            f"pass ?kind={name}:number if it is one"
        )

    def _undecided(self, name: str, text: pa.ChunkedArray, *, required: bool) -> Typed:
        cell = quote_cell(first_match(text, ","))
        message = f"{cell} may be a decimal or have thousands: pass ?decimal=comma or ?decimal=point"
        if required:
            self.faults.append(Fault(name, None, message))
        return text, message

    def _forced(self, name: str, text: pa.ChunkedArray) -> pa.ChunkedArray:
        style: Style = self.decimal or "point"
        fits = numbers.fits(text, style)
        self.faults += strangers(name, text, pc.or_(fits, self._contrary(name, text, fits)), "a number")
        return numbers.to_numbers(pc.if_else(fits, text, pa.scalar(None, pa.string())), style)

    @property
    def _is_foreign(self) -> bool:
        """Whether the file's separator speaks against the decimal sign of the model's file."""
        model, usual = self.options.model, USUAL_DECIMALS.get(self.separator or "")
        if model is None or model.decimal is None or usual is None:
            return False
        return usual != model.decimal and self.separator != model.separator

    def _contrary(self, name: str, text: pa.ChunkedArray, fits: pa.ChunkedArray) -> pa.ChunkedArray:
        """Report and mark cells that are numbers with the decimal sign that the model's file doesn't have."""
        model = self.options.model
        if model is None or model.decimal is None:
            return pa.scalar(value=False)
        other: Style = "point" if model.decimal == "comma" else "comma"
        contrary = pc.and_not(numbers.fits(text, other), fits)
        message = f"is a number with a decimal {other}, and the model's file has decimal {model.decimal}s: "
        message += f"write it so, or pass ?decimal={other}"
        self.faults += odd_cells(name, text, contrary, lambda cell: f"{cell} {message}")
        return contrary

    def _refuse_infinite(self, name: str, values: pa.ChunkedArray) -> None:
        rows = pc.indices_nonzero(pc.fill_null(pc.is_inf(values), fill_value=False)).to_pylist()
        message = "the value is infinite or too large for a number: leave the cell empty"
        self.faults += [Fault(name, row + 1, message) for row in rows[:NAMED]]
        if len(rows) > NAMED:
            self.faults.append(Fault(name, None, f"{len(rows) - NAMED} more values are infinite"))

    def _booleans(self, name: str, text: pa.ChunkedArray) -> pa.ChunkedArray:
        lower = pc.utf8_lower(text)
        fits = pc.is_in(lower, value_set=pa.array([*TRUE, *FALSE]))
        fits = pc.if_else(pc.is_valid(text), fits, pa.scalar(None, pa.bool_()))
        self.faults += strangers(name, text, fits, "true or false (nor yes or no, 1 or 0)")
        return pc.if_else(fits, pc.is_in(lower, value_set=pa.array(TRUE)), pa.scalar(None, pa.bool_()))

    def _dates(self, name: str, text: pa.ChunkedArray, *, last: bool, required: bool) -> Any:
        """Parse dates; None when they are not dates, LATER when other columns decide."""
        days = dates.iso(text)
        if days is None:
            days = dates.other(text)
        if days is not None:
            return days, "" if self.options.known else dates.reading(text)
        ordered = dates.orders(text)
        if len(ordered) == 2 and ordered["day-first"].equals(ordered["month-first"]):
            ordered.pop("month-first")
        if len(ordered) == 2:
            return self._dates_of_two_orders(name, text, ordered, last=last, required=required)
        if ordered:
            (order,) = ordered
            self.orders.add(order)
            if self.options.known and (row := dates.against(text, self.options.dates)) is not None:
                message = (
                    f"{quote_cell(text[row].as_py())} can only be {order}, but dates of the model's file "
                )
                message += f"are {self.options.dates}: write 2026-01-31, or pass ?dates={order}"
                self.faults.append(Fault(name, row + 1, message))
            return ordered[order], ""
        if required:
            days = dates.from_numbers(text)
            days = dates.from_periods(text) if days is None else days
            if days is not None:
                return days, ""
        if required:
            self.faults += self._no_dates(name, text)
            return text, ""
        return None

    def _dates_of_two_orders(
        self,
        name: str,
        text: pa.ChunkedArray,
        ordered: dict[dates.Order, pa.ChunkedArray],
        *,
        last: bool,
        required: bool,
    ) -> Any:
        if self.options.dates is not None:
            return ordered[self.options.dates], ""
        if not last:
            return LATER
        if len(self.orders) == 1:
            (order,) = self.orders
            return ordered[order], f"read {order}, like other columns"
        message = f"{quote_cell(text.drop_null()[0].as_py())} may begin with the day or the month: pass "
        message += "?dates=day-first or ?dates=month-first"
        if required:
            self.faults.append(Fault(name, None, message))
        return text, message

    def _no_dates(self, name: str, text: pa.ChunkedArray) -> list[Fault]:
        odd = strangers(name, text, dates.look_like(text), "a date such as 2026-01-31")
        message = "its dates have several formats, or one is invalid: write all as 2026-01-31"
        return odd or [Fault(name, None, message)]


def _as_date(name: str, cell: str, form: str, *, of_forecast: bool) -> str:
    """Say how to read cells as the times that they seem to be; as the time of a forecast some are so read."""
    already = "the time of a forecast is read so as it is; as a feature " if of_forecast else ""
    return f"{cell} looks like {form}: {already}give it the kind date (?kind={name}:date) to read it so"


def dates_of_typed(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return text in a format with types as dates, as a fit reads it, if all of it is ISO 8601; else None."""
    return None if text.null_count == len(text) else dates.iso(text)


def doubt_of_typed(name: str, text: pa.ChunkedArray) -> str:
    """Return what text in a format with types looks like, and how it is read so; empty for other text."""
    present = text.drop_null()
    if not len(present):
        return ""
    cell = quote_cell(present[0].as_py())
    if dates.iso(present) is not None or dates.other(present) is not None or dates.orders(present):
        return _as_date(name, cell, "a date", of_forecast=False)
    # Whole numbers may be codes.
    if numbers.fitting(present) and numbers.is_doubtful(present):
        return f"{cell} looks like a number: give it the kind number (?kind={name}:number) to read it so"
    return doubt(name, present)


def doubt(name: str, text: pa.ChunkedArray) -> str:
    """Return why a column that looks like dates or numbers is text; empty if it doesn't."""
    if note := dates.note(text):
        return note
    if (form := dates.form_of_periods(text)) is not None:
        cell = quote_cell(text.drop_null()[0].as_py())
        return _as_date(name, cell, form, of_forecast=True)
    if all_match(text, amounts.TIME):
        cell = quote_cell(text.drop_null()[0].as_py())
        return (
            f"{cell} looks like a time of day: give it the kind number (?kind={name}:number) to read hours, "
            "10:30 as 10.5"
        )
    if all_match(text, amounts.TWO_NUMBERS) and not all_match(text, amounts.OF_POWER):  # 45 m2 has one
        cell = quote_cell(text.drop_null()[0].as_py())
        return f"{cell} has two numbers, like feet and inches: write one in one unit, such as 67 for 5 ft 7"
    return Amounts.of(text).scaled().doubt(name) if amounts.are_amounts(text) else ""


def _is_boolean(text: pa.ChunkedArray) -> bool:
    return all_match(text, "^(?i:true|false)$")


def _note(spelled: Counter[str]) -> str:
    parts = [f"{count} cells {word!r}" for word, count in spelled.items() if word.lower() in MAYBE_LEVELS]
    if not parts:
        return ""
    return (
        f"{' and '.join(parts)} are read as missing: if that is a level, list the spellings of missing "
        "values (?missing=NA)"
    )
