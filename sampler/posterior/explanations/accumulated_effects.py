"""Accumulated local effects: the effect of one column, from differences between neighbouring values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sampler.array_types import Codes, Floats
from sampler.data.binning import MISSING
from sampler.data.encode import Coded
from sampler.errors import SettingsError, unknown_feature
from sampler.posterior.core.intervals import Interval, middle_of
from sampler.posterior.core.progress import track
from sampler.posterior.explanations.partial_dependence import codes_of, default_grid
from sampler.posterior.results.effects import AccumulatedEffects
from sampler.storage.model_header import Header

MAX_CELLS = 1 << 21  # draws times rows (times classes) of a block: 16 MB for each of a few arrays


def accumulated_effects(
    header: Header,
    f: Callable[[Coded], Floats],
    coded: Coded,
    feature: str,
    levels: Sequence[float],
) -> AccumulatedEffects:
    """Compute accumulated local effects (docs/maths.md#accumulated-local-effects).

    Parameters
    ----------
    header
        Header of the model.
    f
        Function from rows to draws of f, float64 [draw, row(, class)].
    coded
        Rows; those where the column is missing are left out.
    feature
        A column of numbers or dates.
    levels
        Probabilities of the intervals.

    Returns
    -------
    AccumulatedEffects
        The grid, and at its points the effect with intervals.

    Raises
    ------
    SettingsError
        For an unknown column, one without an order, and one with fewer than two values.

    """
    names = [column.name for column in header.schema.columns]
    if feature not in names:
        raise unknown_feature("feature", feature, names)
    index = names.index(feature)
    if header.schema.columns[index].kind not in ("number", "date"):
        raise SettingsError(
            f"feature: the values of {feature!r} have no order to accumulate along: see partial_dependence",
            field="feature",
            code="not_applicable",
        )
    grid = default_grid(header, index)
    (position,), (points,), (values,) = codes_of(header, index, grid)
    apart = np.flatnonzero(np.diff(points.astype(int)) > 0)  # values with equal codes are one to the trees
    grid = [*(grid[i] for i in apart), grid[-1]]
    points, values = (np.array([*of[apart], of[-1]]) for of in (points, values))
    own = coded.codes[position]
    inside = np.flatnonzero((own != MISSING) & (own >= points[0]) & (own <= points[-1]))
    if len(points) < 2 or not len(inside):
        raise SettingsError(
            f"feature: {feature!r} has fewer than two values here", field="feature", code="not_applicable"
        )
    place = np.clip(np.searchsorted(points, own[inside]), 1, len(points) - 1)  # above points[place - 1]
    rows = np.bincount(place - 1, minlength=len(points) - 1)
    one = f(coded.part(inside[:1]))
    steps = np.zeros((len(rows), *one.shape[:1], *one.shape[2:]))  # [step, draw(, class)]
    width = max(16, MAX_CELLS // one.size)
    for start in track(range(0, len(inside), width), "accumulated effects"):
        there, at = coded.part(inside[start : start + width]), place[start : start + width]
        low, high = (_moved(there, position, points[end], values[end]) for end in (at - 1, at))
        np.add.at(steps, at - 1, np.moveaxis(f(high) - f(low), 1, 0))
    steps /= np.maximum(rows, 1).reshape(-1, *[1] * (steps.ndim - 1))
    effect = np.concatenate([np.zeros((1, *steps.shape[1:])), np.cumsum(steps, axis=0)])
    middle = (effect[1:] + effect[:-1]) / 2
    effect -= np.tensordot(rows / rows.sum(), middle, axes=1)
    tails = [tail for level in levels for tail in ((1 - level) / 2, (1 + level) / 2)]
    ends = np.quantile(effect, tails, axis=1)
    intervals = [Interval(level, ends[2 * i], ends[2 * i + 1]) for i, level in enumerate(levels)]
    classes = header.schema.target.levels or None
    lower, upper = ends[:2] if tails else (effect.min(axis=1), effect.max(axis=1))
    mean = middle_of(effect, lower, upper, axis=1, bounded=bool(classes))[0]
    return AccumulatedEffects(feature, grid, mean, intervals, rows, classes)


def _moved(coded: Coded, position: int, codes: Codes, values: Floats) -> Coded:
    """Return the rows with one coded column changed."""
    after = coded.codes.copy()
    after[position] = codes
    if coded.values is None:
        return replace(coded, codes=after)
    own = coded.values.copy()
    own[position] = values
    return replace(coded, codes=after, values=own)
