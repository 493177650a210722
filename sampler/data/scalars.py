"""Conversion of single cells: type, number, days since 1970, name of a level."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

BEYOND = 2**53  # from here on float64 can't represent every integer
MOST_SHOWN = 60  # characters of a text in a message
LONGEST = 40  # digits of the largest integral Decimal written without an exponent
GAP = "\u202f"  # between thousands: narrow, and no place for a line to break
ABSENT = "\u2013"  # in place of an absent figure
LEAST, MOST = 1e-6, 1e15  # sizes of numbers that are written without an exponent
CellType = Literal["number", "boolean", "date", "text", "other"]
DAY = timedelta(days=1)
MICROSECONDS_A_DAY = 86_400_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def days_since_1970(times: NDArray[Any]) -> NDArray[np.float64]:
    """Convert datetime64 of any unit to days since 1970-01-01; NaT becomes NaN."""
    days = times.astype("datetime64[us]").astype(np.int64) / MICROSECONDS_A_DAY
    days[np.isnat(times)] = math.nan
    return np.asarray(days)


def is_missing(cell: Any) -> bool:
    """Tell whether a cell is None, NaN, or pandas' NA or NaT."""
    # pandas' two are recognised by type name, so that pandas need not be installed
    if cell is None or type(cell).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(cell, float | np.floating) and math.isnan(cell)


def type_of_cell(cell: Any) -> CellType:
    """Classify a cell that isn't missing."""
    if isinstance(cell, bool | np.bool_):
        return "boolean"
    if isinstance(cell, int | float | np.number | Decimal):
        return "number"
    if isinstance(cell, str):
        return "text"
    return "date" if isinstance(cell, date | np.datetime64) else "other"


def as_float(cell: Any) -> float:
    """Convert a number or boolean to float64; None becomes NaN, an integer beyond float64 infinite."""
    if cell is None:
        return math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def is_rounded(cell: Any) -> bool:
    """Tell whether a cell is a finite float of 2^53 or more, which may stand for several integers."""
    return isinstance(cell, float | np.floating) and BEYOND <= abs(float(cell)) < math.inf


def date_to_days(cell: Any) -> float:
    """Convert a date or time to days since 1970, in UTC; a naive time is taken as UTC."""
    if isinstance(cell, np.datetime64):
        return float(days_since_1970(cell.reshape(1))[0])
    if not isinstance(cell, datetime):
        return float((cell - EPOCH.date()).days)
    moment = cell if cell.utcoffset() is not None else cell.replace(tzinfo=UTC)
    return (moment - EPOCH) / DAY


def as_text(cell: Any) -> str:
    """Spell a cell as the name of a level: 1.0 is "1", True is "true", dates are ISO 8601."""
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, Decimal) and cell.adjusted() < LONGEST and cell == cell.to_integral_value():
        return str(int(cell))
    if isinstance(cell, float | np.floating | Decimal):
        number = float(cell)
        return repr(number + 0.0).removesuffix(".0")  # -0.0 is 0
    if isinstance(cell, date | np.datetime64):
        return days_to_text(date_to_days(cell))
    return str(cell)


def counted(number: int, noun: str) -> str:
    """Return a number with a noun, in the singular for one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def number_to_text(value: float | None, digits: int = 4) -> str:
    """Return a number as people write it; a dash for an absent figure.

    Parameters
    ----------
    value
        The number. Its whole part is never rounded, and five and more digits of it are grouped by
        thousands: years have none to group.
    digits
        Significant digits of a number that isn't whole.

    """
    if value is None or not math.isfinite(value):
        return ABSENT
    size = abs(value)
    if isinstance(value, int | np.integer) or (size < MOST and float(value).is_integer()):
        return _grouped(f"{int(value)}")
    if not LEAST <= size < MOST:
        figures, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{figures.rstrip('0').rstrip('.')}e{int(exponent)}"
    return _with_places(float(value), _places(size, digits))


def estimate_to_text(value: float | None, digits: int = 2) -> str:
    """Format a rough figure for people, its whole part rounded to that many digits too: 6235 is 6200."""
    return number_to_text(value if value is None else float(f"{value:.{digits}g}"), digits)


def numbers_to_text(values: Iterable[float | None], digits: int = 4) -> list[str]:
    """Format numbers of one kind for people, such as a mean and its interval, with equal decimal places.

    They are as many as the largest number needs, and as tell the numbers apart: beside 0.0321 1e-16 is 0.
    """
    values = [None if value is None or not math.isfinite(value) else float(value) for value in values]
    known = [value for value in values if value is not None]
    size, width = max(map(abs, known), default=0.0), max(known, default=0.0) - min(known, default=0.0)
    if not LEAST <= size < MOST:
        return [number_to_text(value, digits) for value in values]
    most = max(_places(size, digits), _places(width, 2) if width > LEAST * size else 0)
    places = max(len(_with_places(value, most).partition(".")[2]) for value in known)
    return [ABSENT if value is None else _with_places(value, places, keep=True) for value in values]


def cells_to_text(values: Iterable[float | None], width: int, digits: int = 4) -> str:
    """Format numbers of one kind as cells of a line of text, right-aligned."""
    return "".join(f"{cell:>{width}}" for cell in numbers_to_text(values, digits))


def range_to_text(low: float | None, high: float | None, digits: int = 4) -> str:
    """Format the ends of an interval for people, with equal decimal places."""
    return " to ".join(numbers_to_text((low, high), digits))


def in_unit(figure: str, unit: str | None) -> str:
    """Add the unit, if there is one, to a figure in words; a dash has none."""
    return f"{figure}{GAP}{unit}" if unit and figure != ABSENT else figure


def named_with(name: str, unit: str | None) -> str:
    """Add the unit, if there is one, to the name of a column, as axes and heads of tables have it."""
    return f"{name} ({unit})" if unit else name


def _places(size: float, digits: int) -> int:
    return max(0, digits - 1 - math.floor(math.log10(size)))


def _with_places(value: float, places: int, *, keep: bool = False) -> str:
    """Round to decimal places; zeros at the end are left out unless they are to be kept."""
    value = round(value, places) + 0.0  # never -0
    whole, _, part = f"{value:.{places}f}".partition(".")
    part = part if keep and value else part.rstrip("0")
    return _grouped(whole) + (f".{part}" if part else "")


def _grouped(whole: str) -> str:
    """Group the digits of a whole number of more than four by thousands."""
    return f"{int(whole):,}".replace(",", GAP) if len(whole.lstrip("-")) > 4 else whole


def shortened(text: str) -> str:
    """Quote a text for a message, cut at 60 characters."""
    return repr(text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}...")


def days_to_text(days: float, *, zoned: bool | None = False) -> str:
    """Format days since 1970 as an ISO 8601 date, with the time of day unless it is midnight.

    `zoned`: always with the time of day, and with Z for UTC.
    """
    moment = np.datetime64(round(days * MICROSECONDS_A_DAY), "us")
    if zoned:
        return (
            f"{str(moment.astype('datetime64[s]')) if moment == moment.astype('datetime64[s]') else moment}Z"
        )
    if moment == moment.astype("datetime64[D]"):
        return str(moment.astype("datetime64[D]"))
    whole_seconds = moment == moment.astype("datetime64[s]")
    return str(moment.astype("datetime64[s]") if whole_seconds else moment)


def in_zone(days: float, zone: str) -> str:
    """Format days since 1970 in a zone: a date at its midnight, else a time with the offset from UTC."""
    try:
        place: tzinfo = ZoneInfo(zone)
    except (KeyError, ValueError):  # an offset, or a name that this machine doesn't know
        place = UTC
    moment = (EPOCH + timedelta(microseconds=round(days * MICROSECONDS_A_DAY))).astimezone(place)
    return moment.date().isoformat() if moment.time() == time() else moment.isoformat()


def has_zone(text: str) -> bool:
    """Tell whether the ISO 8601 text of a time has a zone: a Z at its end, or a sign after its date."""
    return len(text) > len("2026-01-31") and (text[-1] in "Zz" or "+" in text[10:] or "-" in text[10:])


def text_to_days(text: str) -> float:
    """Parse ISO 8601 text to days since 1970; raise ValueError for anything else."""
    return date_to_days(datetime.fromisoformat(text))
