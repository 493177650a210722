"""Summary and profile of a column, with its quantiles, histogram and most frequent values; made at upload."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.services.readers.values import amounts, numbers
from app.services.readers.values.amounts import Amounts
from sampler.host.data import (
    MAX_LEVELS,
    MICROSECONDS_A_DAY,
    ColumnKind,
    ColumnSummary,
    days_to_text,
    is_number,
    note_on_rounding,
    repeated_rows,
    sort_levels,
)

Json = dict[str, Any]
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
BINS = 20
TOP = 10  # most frequent values shown
MAX_NOTE = 500  # characters shown
MAX_VALUE = 100  # characters of a text shown among the most frequent
MAX_LEVELS_LENGTH = 10_000  # characters of all shown levels of a column
MIN_NUMBERS = 3  # distinct numbers that a column with codes for missing has at least
MOST_CODES, MOSTLY = 5, 0.5  # of texts among numbers: at most so many, beside numbers in half of the cells
NINES = re.compile(r"-?9{2,9}")
_NONE = np.zeros(0, np.int64)


def summarise(name: str, column: pa.ChunkedArray, note: str = "") -> tuple[ColumnSummary, Json]:
    """Return the summary of a column, as `sampler.describe` does, and its profile.

    Parameters
    ----------
    column
        float64, int64, uint64, bool, string or timestamp[us]; null for missing values.
    note
        Finding of the parser, shown before findings made here.

    Returns
    -------
    tuple
        The profile is `{mean, sd, quantiles: {"0.5": ..}, histogram: {edges, counts} or None,
        top: [{value, count}]}`: numbers, or ISO 8601 text for dates. Text has no quantiles and no histogram;
        the mean of booleans is the share of true values.
    """
    if pa.types.is_string(column.type):
        return _of_text(name, column, note)
    if pa.types.is_timestamp(column.type):
        days = column.cast(pa.int64()).drop_null().to_numpy() / MICROSECONDS_A_DAY
        return _of_numbers(name, "date", column, days, note)
    kind: ColumnKind = "boolean" if pa.types.is_boolean(column.type) else "number"
    present = column.drop_null().cast(pa.float64(), safe=False).to_numpy()
    return _of_numbers(name, kind, column, present, note)


def _of_numbers(
    name: str, kind: ColumnKind, column: pa.ChunkedArray, present: NDArray[np.float64], note: str
) -> tuple[ColumnSummary, Json]:
    values = np.sort(present)
    starts = np.flatnonzero(np.append([True], values[1:] != values[:-1])) if len(values) else _NONE
    show = _shown[kind]
    low, high = (float(values[0]), float(values[-1])) if len(values) else (None, None)
    if kind == "number":
        note = "; ".join(filter(None, [note, note_on_rounding(values)]))
    summary = ColumnSummary(
        name=name,
        kind=kind,
        missing=column.null_count,
        distinct=pc.count_distinct(column).as_py() if pa.types.is_integer(column.type) else len(starts),
        min=days_to_text(low) if kind == "date" and low is not None else low,
        max=days_to_text(high) if kind == "date" and high is not None else high,
        note=note[:MAX_NOTE],
    )
    with np.errstate(all="ignore"):  # an overflow means that there is no such figure
        mean = values.mean() if len(values) and kind != "date" else math.nan
        sd = values.std(ddof=1) if len(values) > 1 and kind == "number" else math.nan
        width = values[-1] - values[0] if len(values) else math.inf
    profile = {
        "mean": _finite(mean),
        "sd": _finite(sd),
        "quantiles": {} if kind == "boolean" else _quantiles(values, show),
        "histogram": _histogram(values, show, kind) if kind != "boolean" and math.isfinite(width) else None,
        "top": _most_frequent(values, starts, show),
    }
    if kind == "number" and (codes := _codes_of_numbers(values, starts)):
        profile["missing_codes"] = codes
    return summary, profile


def _of_text(name: str, column: pa.ChunkedArray, note: str) -> tuple[ColumnSummary, Json]:
    counted = pc.value_counts(column.drop_null())
    levels, counts = counted.field("values"), counted.field("counts").to_numpy()
    kind: ColumnKind = "category" if len(levels) <= MAX_LEVELS else "text"
    listed = sort_levels(levels.to_pylist()) if kind == "category" else ()
    notes = "; ".join(part for part in (note, _note_on_numbers(column, levels, counts)) if part)
    summary = ColumnSummary(
        name=name,
        kind=kind,
        missing=column.null_count,
        distinct=len(levels),
        levels=listed,
        repeated=repeated_rows(counts.tolist()) if kind == "text" else 0,
        note=notes if len(notes) <= MAX_NOTE else f"{notes[:MAX_NOTE]}...",
    )
    if sum(map(len, listed)) > MAX_LEVELS_LENGTH:
        summary = replace(summary, levels=(), note="its levels are too long to list")
    first = np.argsort(-counts, kind="stable")[:TOP]
    top = [{"value": _cut(levels[int(i)].as_py()), "count": int(counts[i])} for i in first]
    profile: Json = {"mean": None, "sd": None, "quantiles": {}, "histogram": None, "top": top}
    if codes := _codes_of_text(levels, counts):
        profile["missing_codes"] = codes
    return summary, profile


def _note_on_numbers(column: pa.ChunkedArray, levels: pa.Array, counts: NDArray[np.int64]) -> str:
    """Return a note for text that is mostly numbers: probably numbers with a spelling of "missing"."""
    numeric = np.fromiter((is_number(level) for level in levels.to_pylist()), bool, len(levels))
    present, numbers = int(counts.sum()), int(counts[numeric].sum())
    if numbers == present or numbers * 2 < present:
        return ""
    other = levels[int(np.flatnonzero(~numeric)[0])]
    row = pc.index(column, other).as_py() + 1
    return (
        f"{numbers} of its {present} values are numbers, but {_cut(other.as_py())!r} in row {row} is not: "
        "leave such cells empty to use the column as numbers"
    )


def _codes_of_text(levels: pa.Array, counts: NDArray[np.int64]) -> list[Json]:
    """Return the few texts among numbers: the column is probably one of numbers, and they mean missing."""
    if not len(levels):
        return []
    texts = pa.chunked_array([levels])
    if len(levels) - pc.sum(amounts.look_like(texts)).as_py() > MOST_CODES:
        return []
    bare = Amounts.of(texts).bare()
    styles = [numbers.fits(bare, style) for style in ("point", "comma")]
    numeric = max((fits.to_numpy() for fits in styles), key=lambda fits: int(counts[fits].sum()))
    numbers_of, strange = int(counts[numeric].sum()), np.flatnonzero(~numeric)
    if numeric.sum() < MIN_NUMBERS or len(strange) > MOST_CODES or numbers_of < MOSTLY * counts.sum():
        return []
    at = strange[np.argsort(-counts[strange], kind="stable")]
    return [{"value": _cut(levels[int(i)].as_py()), "count": int(counts[i])} for i in at]


def _codes_of_numbers(values: NDArray[np.float64], starts: NDArray[np.int64]) -> list[Json]:
    """Return the smallest and the largest value if they look like codes for missing.

    A code, such as -999 or 9999, has only nines, and is farther from the other values than these from each
    other. `starts` are the positions of the distinct values among the sorted `values`.
    """
    if len(starts) < MIN_NUMBERS:
        return []
    distinct, counts = values[starts], np.diff(starts, append=len(values))
    codes = []
    for end, rest in ((0, distinct[1:]), (-1, distinct[:-1])):
        value = float(distinct[end])
        apart = abs(value - (rest[0] if end == 0 else rest[-1])) > rest[-1] - rest[0]
        if apart and NINES.fullmatch(f"{value:g}"):
            codes.append({"value": value, "count": int(counts[end])})
    return codes


def _quantiles(values: NDArray[np.float64], show: Any) -> Json:
    """Return quantiles that occur in the data (the lower of two), so that integers stay integers."""
    last = len(values) - 1
    return {f"{q:g}": show(values[math.floor(q * last)]) for q in QUANTILES} if last >= 0 else {}


def _histogram(values: NDArray[np.float64], show: Any, kind: ColumnKind) -> Json:
    """Return counts between edges; the last bin includes its upper edge."""
    low, high = float(values[0]), float(values[-1])
    whole = max(abs(low), abs(high)) < 2**52 and bool(np.all(values == np.rint(values)))
    edges = _whole_edges(low, high) - 0.5 * (kind == "number") if whole else _edges(low, high)
    # In sorted values, counts are differences of positions.
    at = np.searchsorted(values, edges[1:-1], side="left")
    counts = np.diff(at, prepend=0, append=len(values))
    return {"edges": [show(edge) for edge in edges], "counts": counts.tolist()}


def _edges(low: float, high: float) -> NDArray[np.float64]:
    return np.unique(np.linspace(low, high, BINS + 1)) if low < high else np.array([low, high])


def _whole_edges(low: float, high: float) -> NDArray[np.float64]:
    """Return edges of bins with equally many whole numbers, or days."""
    width = max(1, math.ceil((high - low + 1) / BINS))
    return np.asarray(low + width * np.arange(math.ceil((high - low + 1) / width) + 1.0))


def _most_frequent(values: NDArray[np.float64], starts: NDArray[np.int64], show: Any) -> list[Json]:
    counts = np.diff(starts, append=len(values))
    first = np.argsort(-counts, kind="stable")[:TOP]
    return [{"value": show(values[starts[i]]), "count": int(counts[i])} for i in first]


def _finite(number: Any) -> float | None:
    return float(number) if math.isfinite(number) else None


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}..."


_shown: dict[str, Any] = {"number": float, "date": days_to_text, "boolean": bool}
