"""Conversion of single cells: type, number, days since 1970, name of a level."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BEYOND = 2**53  # from here on float64 can't represent every integer
MOST_SHOWN = 60  # characters of a text in a message
LONGEST = 40  # digits of the largest integral Decimal written without an exponent
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


def shortened(text: str) -> str:
    """Quote a text for a message, cut at 60 characters."""
    return repr(text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}...")


def days_to_text(days: float) -> str:
    """Format days since 1970 as an ISO 8601 date, with the time of day unless it is midnight."""
    moment = np.datetime64(round(days * MICROSECONDS_A_DAY), "us")
    if moment == moment.astype("datetime64[D]"):
        return str(moment.astype("datetime64[D]"))
    whole_seconds = moment == moment.astype("datetime64[s]")
    return str(moment.astype("datetime64[s]") if whole_seconds else moment)


def text_to_days(text: str) -> float:
    """Parse ISO 8601 text to days since 1970; raise ValueError for anything else."""
    return date_to_days(datetime.fromisoformat(text))
