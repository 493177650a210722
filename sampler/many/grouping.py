"""Rows of a table by the group that they belong to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sampler.data.convert import level_meant, to_labels
from sampler.data.scalars import as_text
from sampler.data.table import Table
from sampler.errors import DataError, DataProblem, SettingsError, suggestion

GroupKey: TypeAlias = "str | tuple[str, ...]"  # a tuple where several columns tell it
MOST_COLUMNS = 4


def read_by(by: str | Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Check the names of the columns that tell a row's group; raise SettingsError."""
    listed = (by,) if isinstance(by, str) else tuple(by)
    if not 1 <= len(listed) <= MOST_COLUMNS or len({*listed}) < len(listed):
        raise SettingsError(
            f"by names one to {MOST_COLUMNS} different columns, not {by!r}", field="by", code="out_of_range"
        )
    for name in listed:
        if name not in names:
            raise SettingsError(
                f"by: the table has no column {name!r}{suggestion(name, names)}", field="by", code="unknown"
            )
    return listed


def group_named(key: Any, count: int) -> GroupKey:
    """Return the group that a key means: 3, 3.0 and "3" are one; of several columns, a tuple."""
    if count == 1:
        return as_text(key[0] if isinstance(key, tuple) and len(key) == 1 else key)
    return tuple(map(as_text, key if isinstance(key, tuple | list) else (key,)))


def group_meant(group: GroupKey, known: Collection[GroupKey]) -> GroupKey:
    """Return the known group that a key means, by the rule of levels (`level_meant`), or the key."""
    if group in known:
        return group
    parts, others = _parts(group), [_parts(each) for each in known]
    meant = tuple(level_meant(text, {each[j] for each in others}) for j, text in enumerate(parts))
    found = group_named(meant, len(meant))
    return found if found in known else group


def _parts(group: GroupKey) -> tuple[str, ...]:
    return (group,) if isinstance(group, str) else group


def rows_by_group(table: Table, by: Sequence[str]) -> dict[GroupKey, NDArray[np.int64]]:
    """Return the positions of each group's rows, int64 each; groups in the order of their first rows.

    Raises
    ------
    DataError
        For a row without a value in one of the columns, or one that names no level.

    """
    index, names = np.zeros(table.num_rows, np.int64), [tuple[str, ...]()]
    problems: list[DataProblem] = []
    for name in by:
        labels = to_labels(table.column(name), problems)
        missing = np.flatnonzero(labels.index < 0)
        if len(missing) and not problems:
            detail = "no value here, so the row belongs to no group: leave such rows out, or fill them in"
            problems.append(DataProblem(name, int(missing[0]) + 1, detail))
        if problems:
            raise DataError(problems)
        pairs, index = np.unique(np.stack([index, labels.index]), axis=1, return_inverse=True)
        names = [(*names[before], labels.names[own]) for before, own in pairs.T.tolist()]
        index = index.reshape(-1)
    order = np.argsort(index, kind="stable")
    starts = np.searchsorted(index[order], np.arange(len(names) + 1))
    found = {group_named(each, len(by)): order[starts[g] : starts[g + 1]] for g, each in enumerate(names)}
    return dict(sorted(((g, rows) for g, rows in found.items() if len(rows)), key=lambda item: item[1][0]))
