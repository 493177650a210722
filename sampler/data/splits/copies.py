"""Exact copies of rows, as a join gone wrong leaves them: found, said, and kept together in every split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from sampler.data.columns import infer_kind
from sampler.data.rows import Rows
from sampler.data.table import RawColumn

Keys = NDArray[np.uint64]

LEAST_SHARE = 0.05  # of the rows that repeat another one
LEAST_TIMES = 20.0  # as many pairs of copies as chance has
FEWEST_VALUES = 50  # of the most varied column
MOST_COPIES = 10  # of a row, on average
SOME_ROWS = 20_000  # by which it is judged what chance has


def copied_rows(rows: Rows, features: Sequence[str] | None = None) -> NDArray[np.int32] | None:
    """Give exact copies of a row one number, by first appearance, int32 [row].

    Parameters
    ----------
    rows
        The rows.
    features
        Columns that are compared beside the outcome and columns with other roles; None takes those that fits
        learn from by default.

    Returns
    -------
    ndarray or None
        None unless copies are many, and more than columns of few values have by chance.

    """
    names = rows.table.names if features is None else [name for name in rows.table.names if name in features]
    columns = (rows.table.column(name) for name in names if name not in rows.copies)
    others = ("text", "unusable") if features is None else ("unusable",)
    used = (each for each in columns if infer_kind(each) not in others)
    return repeated(map(_keys, chain(used, (rows.outcome, *rows.roles.values()))), rows.num_rows)


def are_among(rows: Rows, others: Rows, names: Sequence[str]) -> NDArray[np.bool_]:
    """Tell which rows are exact copies of one of the others, outcome and roles included.

    Parameters
    ----------
    rows, others
        Rows with the same roles.
    names
        Columns that both have, which are compared beside these.

    Returns
    -------
    ndarray
        bool [row].

    """
    mine, theirs = (
        _whole((_keys(each.table.column(name)) for name in names), each.outcome, each.roles)
        for each in (rows, others)
    )
    return np.isin(mine, theirs)


def _whole(columns: Iterable[Keys], outcome: RawColumn, roles: Mapping[str, RawColumn]) -> Keys:
    """Return a key of each row."""
    others = (outcome, *(roles[role] for role in sorted(roles)))
    whole = np.zeros(len(outcome), np.uint64)
    for place, keys in enumerate(chain(columns, map(_keys, others))):
        whole += _mixed(keys, place)
    return whole


def repeated(columns: Iterable[Keys], count: int) -> NDArray[np.int32] | None:
    """Give copies one number as `copied_rows`, by keys of their values, uint64 [count], for each column."""
    whole, parts, step = np.zeros(count, np.uint64), [], _judged(count)
    for column, keys in enumerate(columns):
        mixed = _mixed(keys, column)
        whole += mixed
        parts.append(mixed[step])
    if count - _num_distinct(whole) < LEAST_SHARE * count or _is_chance(parts):
        return None
    _, first, number = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    units: NDArray[np.int32] = place[number.reshape(-1)]
    return units


def copies_in_words(units: NDArray[np.int32] | None) -> list[str]:
    """Warn of copies, if there are any."""
    if units is None:
        return []
    copies = len(units) - (int(units.max()) + 1)
    return [
        f"{copies:,} of {len(units):,} rows are exact copies of another row, outcome included, as a join "
        "gone wrong leaves them: the noise is then taken for smaller than it is, and intervals are too "
        "narrow. "
        "Leave the copies out, unless they are rows of their own"
    ]


def keys_of_numbers(numbers: NDArray[np.float64]) -> Keys:
    """Return keys of numbers, equal where these are; NaN equals NaN."""
    plain = np.where(np.isnan(numbers), np.nan, numbers + 0.0)  # no negative zero
    return np.ascontiguousarray(plain).view(np.uint64)


def _keys(column: RawColumn) -> Keys:
    if column.numbers is not None:
        return keys_of_numbers(column.numbers)
    hashes = (hash(cell) for cell in column.cells or ())
    return np.fromiter(hashes, np.int64, len(column)).view(np.uint64)


def _mixed(keys: Keys, place: int) -> Keys:
    """Spread the bits of keys, in another way for each column, so that sums tell rows apart."""
    with np.errstate(over="ignore"):
        keys = (keys ^ (keys >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15 + 2 * place)
        keys = (keys ^ (keys >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        return keys ^ (keys >> np.uint64(32))


def _num_distinct(keys: Keys) -> int:
    """Count the different keys, in less memory than `np.unique` takes."""
    ordered = np.sort(keys)
    return min(len(keys), 1) + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _judged(count: int) -> NDArray[np.int64]:
    """Choose the rows by which it is judged what chance has, by their places."""
    some = np.unique(np.linspace(0, count - 1, min(count, SOME_ROWS)).astype(np.int64))
    return some if len(some) == count else some[: len(some) // 2]  # neighbours stay neighbours


def _is_chance(parts: Sequence[Keys]) -> bool:
    """Tell whether rows that agree in all columns but one agree in that as often as any two rows do.

    The column is the one with the most values: by chance two rows hardly ever agree in it. `parts` are keys
    of the rows that are judged, uint64 [row], for each column.
    """
    with np.errstate(over="ignore"):
        whole: Keys = np.sum(parts, axis=0, dtype=np.uint64)
        once = np.unique(whole, return_index=True)[1]  # copies agree, which is what is asked
        agreeing = [_pairs(keys[once]) for keys in parts]
        varied = int(np.argmin(agreeing))
        rest: Keys = np.subtract(whole, parts[varied])
    values = len(np.unique(parts[varied]))
    if values < FEWEST_VALUES or len(whole) > MOST_COPIES * len(once):  # columns of few values repeat
        return True
    share = (agreeing[varied] + 1) / (len(once) * (len(once) - 1) / 2 + 1)
    return _pairs(whole) < LEAST_TIMES * _pairs(rest) * share


def _pairs(keys: Keys) -> float:
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float(np.sum(counts * (counts - 1) / 2))
