"""Warnings about training data: labels of rows that differ, copies of the outcome, outliers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.table import read_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.data.schema import Column, Schema
    from sampler.data.table import Table

FARTHEST = 1_000  # distance of an outlier from the median of y, in interquartile ranges


def index_warnings(X: Any, y: Any) -> list[str]:
    """Warn where row labels of pandas objects differ, because rows are matched by position."""
    ours: Any = getattr(X, "index", None)
    theirs: Any = getattr(y, "index", None)
    if not hasattr(ours, "equals") or not hasattr(theirs, "equals") or ours.equals(theirs):
        return []
    return ["the table and the target have different row labels: rows are matched by position"]


def copy_warnings(design: NDArray[np.float64], outcome: NDArray[np.float64], schema: Schema) -> list[str]:
    """Warn about features that are copies of the outcome."""
    warnings = []
    for j, column in enumerate(schema.columns):
        coded = design[[i for i, (of, _) in enumerate(schema.coded) if of == j]]
        if len(coded) > 1:  # a category: as classes are numbered, in the order of its levels
            same = column.levels == schema.target.levels and np.array_equal(coded.argmax(axis=0), outcome)
        else:
            same = np.array_equal(coded[0], outcome)
        if same:
            warnings.append(
                f"{column.name} has exactly the values of the target: predictions only repeat it; leave it "
                "out of the features unless new rows have it too"
            )
    return warnings


def name_warnings(table: Table, y: Any, name: str) -> list[str]:
    """Warn where a column is left out because the outcomes, with other values, have its name."""
    if name not in table.names:
        return []
    theirs, ours = table.column(name), read_column(y, name)
    if ours.numbers is not None and theirs.numbers is not None:
        same = np.array_equal(ours.numbers, theirs.numbers, equal_nan=True)
    else:
        same = ours.numbers is not None or theirs.numbers is not None or ours.cells == theirs.cells
    if same:
        return []
    return [
        f"{name} is left out of the features: the target has its name, but other values; if it is one, "
        "give the target another name (target_name)"
    ]


def outlier_warnings(outcome: NDArray[np.float64], target: Column) -> list[str]:
    """Warn about a value so far from the others that it determines the noise, and with it every interval."""
    if target.kind != "number":
        return []
    low, median, high = np.quantile(outcome, [0.25, 0.5, 0.75])
    row = int(np.argmax(np.abs(outcome - median)))
    distance = abs(float(outcome[row] - median))
    if not 0 < FARTHEST * (high - low) < distance:
        return []
    times = f"{distance / (high - low):,.0f} times the range of the middle half of the values"
    return [
        f"{target.name}: {outcome[row]:g} in row {row + 1} is {times} away from their median, and determines "
        "the noise of all predictions: correct it if it is an error, or fit its logarithm"
    ]
