"""Terms of a model's linear part: coded columns, standardised (docs/maths.md#linear-part)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from sampler.array_types import Floats
from sampler.data.schema import Schema
from sampler.definitions.design import Design
from sampler.definitions.parts import PartFacts
from sampler.errors import SettingsError

ROWS = 1024  # rows processed at once
CLASS_FOREST = "lines"  # stored forest of the classes' slopes: a tree of one leaf each, class by class
MOST_TERMS = 250  # a block of draws has room for 255 scalars


@dataclass(frozen=True)
class LinearTerms(PartFacts):
    """Terms z of a linear part, made of coded columns, in the order of its slopes.

    A term is ``(x - mean) / scale`` of a coded column x held between `low` and `high`, 0 where x is missing;
    or of an indicator of x missing; in a panel there are products of such terms with that of the period.

    Attributes
    ----------
    column
        Coded column of each term.
    missing
        Whether the term is the indicator of a missing value.
    mean, scale
        Of the training rows; the scale of an indicator is 1.
    low, high
        Range of the training rows.
    slope_scale
        Scale of the half-Cauchy prior of the slopes' standard deviation, in units of y.
    times
        Number of the term by which each is multiplied, -1 for none; empty without products.

    """

    column: tuple[int, ...]
    missing: tuple[bool, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    slope_scale: float
    times: tuple[int, ...] = ()
    needs_values: ClassVar[bool] = True  # of rows, before binning

    @classmethod
    def choose(cls, design: Design, schema: Schema, sd: float, period: str | None = None) -> LinearTerms:
        """Choose the terms of training rows [coded column, row], whose outcomes have that sd.

        Terms of others than a `period` are there a second time, multiplied by it, where there is room. The
        most frequent level of a category of several has none, nor has a column with one value.

        Returns
        -------
        LinearTerms
            The terms, standardised.

        Raises
        ------
        SettingsError
            For no term, or more than 250.

        """
        rows, most_frequent = [], _most_frequent(design, schema)
        for position, values in enumerate(design):
            present = values[~np.isnan(values)]
            if position not in most_frequent:
                rows += _standardised(position, present, schema)
            if 0 < len(present) < len(values):
                rows.append((position, True, 1 - len(present) / len(values), 1.0, 0.0, 1.0))
        if not 0 < len(rows) <= MOST_TERMS:
            have = "no column with two values in the training rows" if not rows else f"{len(rows)} terms"
            raise SettingsError(
                f"linear: a linear part has 1 to {MOST_TERMS} terms, one for a number and one for each level "
                f"of a category but one, and there {'is' if not rows else 'are'} {have}: leave linear out, "
                "or learn from other features",
                field="linear",
                code="out_of_range",
            )
        base = [k for k, row in enumerate(rows) if schema.columns[schema.coded[row[0]][0]].name == period]
        more = [row for k, row in enumerate(rows) if base and k not in base and not row[1]]
        if not more or len(rows) + len(more) > MOST_TERMS:
            return cls(**_by_field(rows), slope_scale=sd / math.sqrt(len(rows)))
        times, rows = (-1,) * len(rows) + (base[0],) * len(more), rows + more
        return cls(**_by_field(rows), slope_scale=sd / math.sqrt(len(rows)), times=times)

    @classmethod
    def of_columns(cls, design: Design, schema: Schema, names: Sequence[str], sd: float) -> LinearTerms:
        """Make a term of each of these columns, no categories, for slopes that differ by group.

        Raises
        ------
        SettingsError
            For a column with a single value.

        """
        rows = []
        for name in names:
            position = next(p for p, (c, _) in enumerate(schema.coded) if schema.columns[c].name == name)
            values = design[position]
            own = _standardised(position, values[~np.isnan(values)], schema)
            if not own:
                raise SettingsError(has_no_slope(name), field="slopes", code="not_applicable")
            rows += own
        return cls(**_by_field(rows), slope_scale=sd) if rows else NO_TERMS

    def of(self, values: Design) -> Floats:
        """Compute the terms, float64 [term, row], of rows before binning [coded column, row]."""
        column, missing = np.array(self.column), np.array(self.missing)[:, None]
        mean, scale, low, high = np.array([self.mean, self.scale, self.low, self.high])[:, :, None]
        z = np.empty((len(column), values.shape[1]))
        for start in range(0, values.shape[1], ROWS):
            x = values[column, start : start + ROWS]
            unknown = np.isnan(x)
            held = np.where(unknown, mean, np.clip(x, low, high))
            some = (np.where(missing, unknown, held) - mean) / scale
            for k, other in enumerate(self.times):
                if other >= 0:
                    some[k] *= some[other]
            z[:, start : start + ROWS] = some
        return z

    def restore(self, values: Floats, z: Floats) -> None:
        """Put values [coded column, row] in place, of which these rows have the terms z [term, row].

        They are as `of` holds them: missing where an indicator says so.
        """
        for k in np.argsort(self.missing, kind="stable"):
            if self.times and self.times[k] >= 0:
                continue
            column, own = self.column[k], z[k] * self.scale[k] + self.mean[k]
            values[column] = np.where(own > 0.5, np.nan, values[column]) if self.missing[k] else own

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads exactly."""
        return {
            field.name: list(value) if isinstance(value := getattr(self, field.name), tuple) else value
            for field in fields(self)
            if field.name != "times" or self.times
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], schema: Schema, shape: tuple[int, ...]) -> LinearTerms:  # noqa: ARG003
        """Read terms of a model of `shape` [coded column, ..]; raise ValueError, KeyError or TypeError."""
        lists: dict[str, Any] = {
            field.name: tuple(stored[field.name])
            for field in fields(cls)
            if field.name not in ("slope_scale", "times")
        }
        times = tuple(stored.get("times", ()))
        terms = cls(**lists, slope_scale=float(stored["slope_scale"]), times=times)
        count = len(terms.column)
        if {*map(len, lists.values())} != {count} or not 0 < count <= MOST_TERMS:
            raise ValueError("its linear part has lists of different lengths, or too long ones")
        if not all(type(column) is int and 0 <= column < shape[0] for column in terms.column):
            raise ValueError("its linear part has terms of columns that don't exist")
        whole = all(type(other) is int and -1 <= other < count for other in times)
        if times and not (whole and len(times) == count and all(times[k] < 0 for k in times if k >= 0)):
            raise ValueError("its linear part has products of terms that don't exist")
        if not all(type(missing) is bool for missing in terms.missing):
            raise ValueError("its linear part doesn't say which terms are of missing values")
        numbers = np.array([terms.mean, terms.scale, terms.low, terms.high], np.float64)
        if not np.all(np.isfinite(numbers)) or not np.all(numbers[1] > 0) or not terms.slope_scale > 0:
            raise ValueError("its linear part has figures out of range")
        return terms


NO_TERMS = LinearTerms((), (), (), (), (), (), 0.0)


def _standardised(position: int, present: Floats, schema: Schema) -> list[tuple[Any, ...]]:
    """Return the term of a coded column with these values, in a list; an empty one for a single value."""
    if not len(present) or not np.ptp(present) > 0:
        return []
    indicator = schema.columns[schema.coded[position][0]].kind in {"category", "boolean"}
    scale = 1.0 if indicator else float(present.std())
    if not (scale > 0 and math.isfinite(scale)):
        return []
    return [(position, False, float(present.mean()), scale, float(present.min()), float(present.max()))]


def _by_field(rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    names = ("column", "missing", "mean", "scale", "low", "high")
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def slope_names(count: int) -> tuple[str, ...]:
    """Name the scalars of a draw that are slopes."""
    return tuple(f"slope_{k}" for k in range(count))


def _most_frequent(design: Design, schema: Schema) -> set[int]:
    """Find the coded column of the most frequent level of each category that has several columns."""
    by_column: dict[int, list[int]] = {}
    for position, (column, _) in enumerate(schema.coded):
        by_column.setdefault(column, []).append(position)
    several = (positions for positions in by_column.values() if len(positions) > 1)
    return {max(positions, key=lambda position: float(design[position].sum())) for positions in several}


def ridge_fit(z: Floats, y: Floats, weights: Floats | None) -> Floats:
    """Fit y by ridge regression on terms [term, row], its penalty chosen by generalised cross-validation.

    Returns
    -------
    NDArray
        The fitted values without the intercept, float64 [row]: zero where every term is.

    """
    weight = np.ones(len(y)) if weights is None else weights
    total = float(weight.sum())
    centre = z @ weight / total
    y_centre = float(weight @ y) / total
    gram = (z * weight) @ z.T - total * np.outer(centre, centre)
    moment = z @ (weight * (y - y_centre))
    size, basis = np.linalg.eigh(gram)
    size = np.maximum(size, 0.0)
    projected = basis.T @ moment
    squares = float(weight @ (y - y_centre) ** 2)
    seen = int(np.count_nonzero(weight))
    best, coefficients = math.inf, np.zeros(len(z))
    for penalty in float(size[-1]) * 10.0 ** np.arange(-12, 4.0, 0.25):
        shrunk = projected / (size + penalty)
        rest = squares - float(shrunk @ (2 * projected - size * shrunk))
        free = seen - 1 - float(np.sum(size / (size + penalty)))
        if free <= 0.05 * seen:
            continue
        score = max(rest, 0.0) / free**2
        if score < best:
            best, coefficients = score, basis @ shrunk
    return np.asarray(z.T @ coefficients)


def has_no_slope(name: str) -> str:
    """Say that a column has no slope."""
    return f"slopes: {name!r} has no two values in the training rows, so there is no slope: leave it out"
