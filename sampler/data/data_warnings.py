"""Warnings about training data: copies of the outcome, outliers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sampler.data.columns import MAX_LEVELS
from sampler.data.groupings import may_group
from sampler.data.repeated_columns import is_copy
from sampler.data.scalars import as_float, counted, number_to_text
from sampler.data.schema import Column, Schema
from sampler.data.table import RawColumn
from sampler.data.target import FEWEST_OF_HURDLE, MASS_AT_END, point_mass
from sampler.data.treatment.reading import treated_whole
from sampler.definitions.design import Design
from sampler.settings import Settings

SOME_ROWS = 1_000  # rows in which a feature with more values than classes shows them
FEW_ROWS = 10  # with so few, intervals are known to be too narrow
FEW_OF_LEVEL = 10  # rows of a level
FEW_VALUES = 8  # whole doses that may be codes of arms
MOST_OF_ONE = 0.5  # share of the variance of doses that one row has
NEARLY_ALL = 0.95  # share of the variance of doses that a feature explains
FEWEST_VALUES = 3  # two may be classes
FARTHEST = 1_000  # distance of an outlier from the median of y, in interquartile ranges


def copy_warnings(design: Design, outcome: NDArray[np.float64], schema: Schema) -> list[str]:
    """Warn about features that are copies of the outcome, or follow from it by scale and offset."""
    warnings = []
    for j, column in enumerate(schema.columns):
        coded = [i for i, (of, _) in enumerate(schema.coded) if of == j]
        values = design[coded[0]]
        if len(coded) > 1:  # of a category: the number of each row's level
            values = sum((number * design[i] for number, i in enumerate(coded)), np.zeros(len(outcome)))
        how = _how_alike(column, values, outcome, len(schema.target.levels))
        if how:
            warnings.append(
                f"{column.name} {how} the target: predictions only repeat it; leave it out of the features "
                "unless new rows have it too"
            )
    return warnings


def _how_alike(
    column: Column, values: NDArray[np.float64], outcome: NDArray[np.float64], classes: int
) -> str:
    """Say how the values [n] of a feature repeat the outcome; "" if they don't."""
    several = len(column.indicators) > 1
    if np.array_equal(values, outcome):
        return "has exactly the values of"
    if not classes:
        repeats = not several and is_copy(values, outcome)
        return "has, but for scale and offset, the values of" if repeats else ""
    known = ~np.isnan(values)
    if several and None in column.indicators:
        known &= values != column.indicators.index(None)
    values, outcome = values[known], outcome[known]
    if 2 * len(values) < len(known) or len(np.unique(values[:SOME_ROWS])) > classes:
        return ""
    levels, level = np.unique(values, return_inverse=True)
    repeats = len(levels) == classes == len(np.unique(level * classes + outcome))
    return "has other names for the classes of" if repeats else ""


def reading_warnings(column: RawColumn, kind: str) -> list[str]:
    """Warn about text that is read as dates, and whole numbers that float64 doesn't tell apart."""
    if kind == "date" and column.type == "text":
        return [
            f"{column.name} is text that spells dates, and is read as such: "
            f"columns={{{column.name!r}: 'category'}} takes it as names"
        ]
    whole = [] if kind != "number" else [cell for cell in column.cells or () if isinstance(cell, int)]
    rounded = sum(as_float(cell) != cell for cell in whole)
    if not rounded:
        return []
    return [
        f"{column.name}: {counted(rounded, 'whole number')} of 2^53 or more "
        f"{'is' if rounded == 1 else 'are'} rounded to 53 bits: leave the column out if it identifies rows, "
        f"or make it a category (columns={{{column.name!r}: 'category'}})"
    ]


def level_warnings(schema: Schema, num_rows: int, settings: Settings) -> list[str]:
    """Warn about categories of so many levels that few rows tell of each, where groups would do better."""
    if not may_group(settings):
        return []
    return [
        f"{column.name} has {len(column.levels):,} levels, of {num_rows / len(column.levels):.1f} rows each: "
        f"intervals of single levels are too narrow; groups={column.name!r} gives each an intercept that "
        "allows for how few its rows are"
        for column in schema.columns
        if column.kind == "category"
        and len(column.levels) > MAX_LEVELS
        and num_rows < FEW_OF_LEVEL * len(column.levels)
    ]


def few_warnings(num_rows: int, target: Column) -> list[str]:
    """Warn where rows are so few that intervals of numbers hold less than they claim."""
    if num_rows > FEW_ROWS or target.kind != "number":
        return []
    return [
        f"{num_rows} rows are very few: intervals of new outcomes hold less than they claim (90% ones about "
        "half of them with 2 rows, 80% with 10)"
    ]


def dose_warnings(name: str, doses: NDArray[np.float64], schema: Schema, design: Design) -> list[str]:
    """Warn of doses that look like codes of arms, that one row determines, and that a feature repeats."""
    warnings, values = [], np.unique(doses)
    listed = ", ".join(f"{value:g}" for value in values[:FEW_VALUES])
    read_as = f"{name}: its values {listed} are read as doses, and the effect is that of a unit"
    if len(values) <= FEW_VALUES and np.all(values == np.rint(values)):
        warnings.append(f"{read_as}, in proportion to the dose: if they are codes of arms, give these names")
    distance = (doses - doses.mean()) ** 2
    row, share = int(np.argmax(distance)), float(distance.max() / distance.sum())
    if share > MOST_OF_ONE:
        warnings.append(
            f"{name}: the dose {doses[row]:g} in row {row + 1} has {share:.0%} of the variance of all doses, "
            "and determines the effect of a unit: correct it if it is an error, or leave the row out"
        )
    for (place, _), column in zip(schema.coded, design, strict=True):
        seen = ~np.isnan(column)
        ours, theirs = column[seen], doses[seen]
        spread = float(ours.std() * theirs.std()) if len(ours) else 0.0
        alike = (
            (float(np.mean((ours - ours.mean()) * (theirs - theirs.mean()))) / spread) ** 2 if spread else 0.0
        )
        if alike > NEARLY_ALL:
            warnings.append(
                f"{schema.columns[place].name} explains {alike:.1%} of {name}: leave it out if it is the "
                "same under another name, or rounded: the effect is told by the rest alone"
            )
    return warnings


def site_warnings(
    name: str, treated: NDArray[np.float64], schema: Schema, design: Design, settings: Settings
) -> list[str]:
    """Warn of whole numbers each of which has one arm, or dose, as sites have that were treated whole."""
    if not may_group(settings):
        return []
    return [
        f"{schema.columns[place].name}: all rows of each of its {count} values have the same {name}: if they "
        f"number sites, which were treated whole, set groups={schema.columns[place].name!r}: each has an "
        "intercept then, and intervals allow for how few they are"
        for (place, _), values in zip(schema.coded, design, strict=True)
        if schema.columns[place].kind == "number" and (count := treated_whole(values, treated))
    ]


def dependence_warnings(outcomes: Mapping[str, NDArray[np.float64]]) -> list[str]:
    """Warn of outcomes [n] that follow from the others by a straight line, but for rounding."""
    names, table = [*outcomes], np.stack([*outcomes.values()], axis=1)
    table = table[~np.isnan(table).any(axis=1)]
    table = (table - table.mean(axis=0)) / np.maximum(table.std(axis=0), np.finfo(float).tiny)
    warnings = []
    for place in range(1, len(names) if len(table) > len(names) else 0):
        known, own = table[:, :place], table[:, place]
        if np.abs(own - known @ np.linalg.lstsq(known, own, rcond=None)[0]).max() < 1e-6:
            warnings.append(
                f"{names[place]} follows from {' and '.join(names[:place])} exactly: its errors have no "
                "correlation of their own to learn; leave it out, and compute it from the others' draws"
            )
    return warnings


def mass_warnings(outcome: NDArray[np.float64], target: Column, *, may_be_hurdle: bool) -> list[str]:
    """Warn where many outcomes are one value exactly, and name the hurdle if that may be fitted."""
    values, counts = np.unique(outcome, return_counts=True)
    most = int(np.argmax(counts))
    found = point_mass(outcome)
    at_end = found is not None and found[1] >= MASS_AT_END
    if len(values) < FEWEST_VALUES or not (at_end or 2 * counts[most] > len(outcome)):
        return []
    value = float(values[most])
    prior = {"point": value}
    said = (
        f"{target.name}: {counts[most] / len(outcome):.0%} of the rows are exactly {number_to_text(value)}, "
        "which no kind of noise allows for, so intervals, means and totals can be far off"
    )
    if not may_be_hurdle or len(outcome) - counts[most] < FEWEST_OF_HURDLE:
        return [f"{said}: judge them by held-out rows"]
    named = "" if found is not None and found[0] == value else f" and prior={prior}"
    return [f'{said}: fit with family="hurdle"{named}, which learns when an outcome is that value']


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
