"""Choices that the data make for a fit of numbers, by scores of rows left out of quick regressions.

The transform of the outcome and whether a linear part stands beside the trees (docs/maths.md#transforms,
docs/maths.md#linear-part), for all that the settings leave open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.transform import IDENTITY, POWERS, Transform, check_outcomes
from sampler.definitions.design import Design
from sampler.noise import DEGREE_GRID
from sampler.preparation.quick_regression import (
    MOST_TERMS,
    held_out_log_variances,
    held_out_residuals,
    standardised,
)
from sampler.prior import residual_sd

MISS = 2.5  # standard errors by which a mean may miss that of the rows left out
MARGIN = 3.5  # standard errors by which a transform's log score must be above a simpler one's
LINE_MARGIN = 2.5  # by which that with a linear part must be above that without
UNEVEN_MARGIN = 1.5  # by which that under noise by row must be above, where the fit has such noise
FEWEST_ROWS, MOST_ROWS = 30, 1_000  # looked at to choose
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of differences between log variances; that of most likelihood counts
MOST_SLOPES = 2_000  # of all classes
MOST_CELLS = 500_000  # rows times columns for which a linear part is looked for
FIXED_POINTS = 20  # steps to the likeliest scale of t
SYMMETRIC = 0.4  # skewness of an outcome up to which none is looked for


@dataclass(frozen=True)
class _Rows:
    """Rows looked at.

    Attributes
    ----------
    y, weights
        Outcomes and weights of mean 1, float64 [row].
    line
        Terms of a line, float64 [term, row]; None where there can't be one.
    codes
        Coded columns, uint8 [column, row].
    uneven
        Whether the fit has noise by row, so that transforms are scored under it too.

    """

    y: Floats
    weights: Floats
    line: Floats | None
    codes: NDArray[np.uint8]
    uneven: bool


class _Scores(NamedTuple):
    """Log scores of a transform by row, float64 [row], up to a constant: a higher one is better.

    Attributes
    ----------
    linear
        Whether it has a line.
    chosen
        With its line, or without.
    alone
        Of trees alone, or with the line if that was asked for.
    uneven
        As `chosen` but under noise by row; None where the fit has noise of one size.
    missed
        Outcomes less means, times weights, of `chosen`.

    """

    linear: bool
    chosen: Floats
    alone: Floats
    uneven: Floats | None
    missed: Floats

    def is_clearly_better(self, other: _Scores) -> bool:
        """Tell whether every score is clearly above the other's."""
        pairs = [(self.chosen, other.chosen, MARGIN), (self.alone, other.alone, MARGIN)]
        if self.uneven is not None and other.uneven is not None:
            pairs.append((self.uneven, other.uneven, UNEVEN_MARGIN))
        return all(_is_clearly_better(*pair) for pair in pairs)


def choose_transform_and_line(
    name: str,
    linear: bool | str,
    y: Floats,
    design: Design,
    weights: Floats | None,
    codes: NDArray[np.uint8],
    *,
    uneven: bool = False,
) -> tuple[Transform, bool]:
    """Choose the transform that the setting `transform` names, and whether a linear part pays.

    The power of Yeo and Johnson's transform is that of the largest likelihood of a linear model with normal
    noise, on up to 1,000 rows. What is "auto" is compared by the log score of these rows under normal noise
    around quick regressions fitted to others: boosted trees, with a line after a ridge regression. For each
    transform the line is taken where it is better by two and a half standard errors. Of no transform, the
    logarithm and Yeo and Johnson's, a later one is taken only where it is better by three and a half, twice:
    each with its line or without, so that a transform competes with a straight line on the outcome's own
    scale, and with trees alone. Where the fit has noise by row it also has to be better, by one and a half
    standard errors, under such noise: the spread that grows with the outcome needs no transform then.

    A transform is out whose mean misses that of these rows where another's misses it less (`hits`).

    There is no transform for outcomes of skewness .4 or less. There is neither for fewer than 30 rows, nor a
    line for more than 250 terms and where rows times terms are more than half a million: it would take longer
    than the trees.

    Parameters
    ----------
    name
        Transform: "none", "log", "yeo-johnson" or "auto".
    linear
        Whether there is a linear part, or "auto".
    y, weights
        Outcomes and weights (or None), float64 [n].
    design, codes
        Coded columns before binning and after, float64 and uint8 [column, n].
    uneven
        Whether the fit has noise by row.

    Returns
    -------
    transform : Transform
        The transform, with its parameters.
    linear : bool
        Whether there is a linear part.

    Raises
    ------
    SettingsError
        For the logarithm of outcomes that are not positive.

    """
    check_outcomes(name, y)
    places = looked_at(len(y))
    few = y[places], design[:, places], _weights_looked_at(weights, places)
    if linear == "auto" and (len(y) < FEWEST_ROWS or len(design) > MOST_TERMS or design.size > MOST_CELLS):
        linear = False
    candidates = _candidates(name, y, few)
    if len(candidates) == 1 and linear != "auto":
        return candidates[0], linear is True
    rows = _Rows(few[0], few[2], standardised(few[1]) if linear else None, codes[:, places], uneven)
    scored = [_scores_of(candidate, linear, rows) for candidate in candidates]
    chosen, *others = hits({place: each.missed for place, each in enumerate(scored)})
    for place in others:
        if scored[place].is_clearly_better(scored[chosen]):
            chosen = place
    return candidates[chosen], scored[chosen].linear


def _candidates(name: str, y: Floats, few: tuple[Floats, Floats, Floats]) -> list[Transform]:
    """List the transforms that compete, the simplest first.

    `few` are the outcomes, columns and weights of the rows looked at.
    """
    if name == "none" or (name == "auto" and (len(y) < FEWEST_ROWS or abs(_skewness(y)) <= SYMMETRIC)):
        return [IDENTITY]
    if name == "log":
        return [Transform("log").within(y)]
    low, middle, high = np.quantile(y, [0.25, 0.5, 0.75])
    scale = float(high - low) / 1.349 or float(np.std(y))
    powers = [Transform("yeo-johnson", float(middle), scale, power).within(y) for power in POWERS]
    best = max(powers, key=lambda each: _log_likelihood(each, *few))
    if name == "yeo-johnson":
        return [best]
    log = [Transform("log").within(y)] if y.min() > 0 else []
    return [IDENTITY, *log, *([best] if best.power != 1 else [])]


def _scores_of(transform: Transform, linear: bool | str, rows: _Rows) -> _Scores:
    """Score a transform by each row, with its line where that pays or is asked for."""
    beside = None if rows.line is None else _regress(transform, rows, rows.line)
    alone = beside if linear is True and beside is not None else _regress(transform, rows, None)
    pays = beside is not None and _is_clearly_better(beside.scores, alone.scores, LINE_MARGIN)
    chosen = beside if beside is not None and pays else alone
    uneven = _scores_under_noise_by_row(chosen, rows) if rows.uneven else None
    return _Scores(linear is True or pays, chosen.scores, alone.scores, uneven, chosen.missed)


def hits(missed: Mapping[Any, Floats]) -> list[Any]:
    """List the candidates whose mean hits that of the rows left out, or misses it least.

    `missed` are outcomes less means, times weights, float64 [row]. A candidate is out where their mean is
    beyond 2.5 standard errors and another's is smaller. The errors are those of the candidate of smallest
    residuals, since wild means would excuse themselves.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        sizes = {name: abs(float(each.mean())) for name, each in missed.items()}
        spreads = [float(each.std()) / math.sqrt(len(each)) for each in missed.values()]
    most = max(MISS * float(np.nanmin(spreads)), float(np.nanmin([*sizes.values()])))
    return [name for name, size in sizes.items() if size <= most]


def quick_gains(
    transform: Transform,
    linear: bool | str,
    y: Floats,
    design: Design,
    weights: Floats | None,
    codes: NDArray[np.uint8],
) -> Floats:
    """Score heavy tails and noise by row against normal noise of one size (docs/maths.md#choice-of-noise).

    Both laws are around quick regressions to other rows, of up to 1,000 rows; that with heavy tails and log
    variances has the degrees and the share of the differences that are likeliest.

    Parameters
    ----------
    transform, linear
        The transform of the outcome, and whether there is a linear part.
    y, weights
        Outcomes and weights (or None), float64 [n].
    design, codes
        Coded columns before binning and after, float64 and uint8 [column, n].

    Returns
    -------
    NDArray
        Log score of each row looked at above that of normal noise, float64 [row].

    """
    places = looked_at(len(y))
    few = _weights_looked_at(weights, places)
    line = standardised(design[:, places]) if linear is True else None
    rows = _Rows(y[places], few, line, codes[:, places], True)
    fits = _regress(transform, rows, line if line is not None and line.any() else None)
    level = held_out_log_variances(rows.codes, fits.predicted, fits.squares, few)
    scored = (
        _log_t_density(fits.squares, share * level, fits.slopes, few, degrees)
        for share in SHARES
        for degrees in DEGREE_GRID[::2]
    )
    best = max(scored, key=lambda scores: float(scores.sum()))
    return best - _log_density(fits.squares, np.zeros(len(few)), fits.slopes, few)


def may_have_line(design: Design, classes: int) -> bool:
    """Tell whether classes have a linear part unless asked: it is shrunk where it doesn't help.

    There is none for fewer than 30 rows, for columns with one value, for more than 2,000 slopes, and where
    rows times terms are more than half a million: it would take longer than the trees.

    Parameters
    ----------
    design
        Coded columns before binning, float64 [column, n].
    classes
        Number of classes.

    Returns
    -------
    bool
        Whether they have one.

    """
    columns, rows = design.shape
    few = 2 * columns <= MOST_TERMS and columns * classes <= MOST_SLOPES and design.size <= MOST_CELLS
    return rows >= FEWEST_ROWS and few and any(np.ptp(column[np.isfinite(column)]) > 0 for column in design)


def looked_at(count: int) -> NDArray[np.int64]:
    """Choose the places of up to 1,000 rows, evenly spaced, int64 [row]."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_ROWS)).astype(np.int64))


def _weights_looked_at(weights: Floats | None, rows: NDArray[np.int64]) -> Floats:
    """Return the weights of those rows with mean 1: their unit means nothing."""
    if weights is None or not weights[rows].any():
        return np.ones(len(rows))
    return np.asarray(weights[rows] / weights[rows].mean())


def _is_clearly_better(scores: Floats, others: Floats, margin: float) -> bool:
    gain = scores - others
    return bool(gain.sum() > margin * math.sqrt(len(gain)) * gain.std())


def _skewness(y: Floats) -> float:
    centred = y - y.mean()
    return float(np.mean(centred**3)) / (float(np.mean(centred**2)) ** 1.5 or 1.0)


def _log_likelihood(transform: Transform, y: Floats, design: Floats, weights: Floats) -> float:
    """Compute the largest log likelihood of a linear model of T(y), up to a constant."""
    u = transform.forward(y)
    sd = residual_sd(u, design, weights)
    if sd is None:
        sd = float(np.std(u))
    return float(transform.log_slope(y).sum()) - len(y) * math.log(max(sd, np.finfo(float).tiny))


class _Regression(NamedTuple):
    """Fits to other rows, of a transform scaled to about unit variance; all float64 [row].

    Attributes
    ----------
    scores
        Log density of y under noise of one size, up to a constant.
    predicted, squares
        Predicted outcomes, and squared residuals times weights.
    slopes
        Log of the slope of the scaled transform.
    missed
        Outcomes less means under noise of one size, times weights.

    """

    scores: Floats
    predicted: Floats
    squares: Floats
    slopes: Floats
    missed: Floats


def _regress(transform: Transform, rows: _Rows, z: Floats | None) -> _Regression:
    """Predict each row by fits to others, and score it under noise of one size."""
    y, weights = rows.y, rows.weights
    u = transform.forward(y)
    centre, scale = float(np.median(u)), float(np.std(u)) or 1.0
    standard = (u - centre) / scale
    residual = held_out_residuals(rows.codes, z, standard, weights)
    slopes = np.full(len(y), -math.log(scale)) + transform.log_slope(y)
    squares = weights * residual**2
    scores = _log_density(squares, np.zeros(len(y)), slopes, weights)
    mean = centre + scale * (standard - residual)
    if transform:
        sd = scale * np.sqrt(squares.mean() / np.where(weights > 0, weights, 1.0))
        with np.errstate(over="ignore", invalid="ignore"):
            mean = transform.moments(mean, sd)[0]
    missed = np.zeros(len(y))
    np.multiply(weights, y - mean, out=missed, where=weights > 0)
    return _Regression(scores, standard - residual, squares, slopes, missed)


def _scores_under_noise_by_row(fits: _Regression, rows: _Rows) -> Floats:
    """Score each row under normal noise whose log variance, too, is predicted by fits to other rows."""
    level = held_out_log_variances(rows.codes, fits.predicted, fits.squares, rows.weights)
    shrunk = (_log_density(fits.squares, share * level, fits.slopes, rows.weights) for share in SHARES)
    return max(shrunk, key=lambda scores: float(scores.sum()))


def _log_density(squares: Floats, level: Floats, slopes: Floats, weights: Floats) -> Floats:
    """Compute normal log densities of y, up to a constant; log variances are `level` and a constant."""
    relative = squares * np.exp(-level)
    seen = max(int(np.count_nonzero(weights)), 1)
    variance = max(float(relative.sum()) / seen, np.finfo(float).tiny)
    density = slopes - 0.5 * (math.log(variance) + level + relative / variance)
    return np.where(weights > 0, density, 0.0)


def _log_t_density(squares: Floats, level: Floats, slopes: Floats, weights: Floats, degrees: float) -> Floats:
    """Compute log densities as `_log_density`, of Student's t with the likeliest scale (by fixed point)."""
    relative, seen = squares * np.exp(-level), weights > 0
    least = np.finfo(float).tiny
    scale = max(float(np.median(relative[seen])) if seen.any() else 0.0, least)
    for _ in range(FIXED_POINTS):
        shrunk = (degrees + 1) * relative[seen] / (degrees + relative[seen] / scale)
        scale = max(float(shrunk.mean()), least)
    peak = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) + 0.5 * math.log(2 / degrees)
    tail = (degrees + 1) / 2 * np.log1p(relative / (degrees * scale))
    density = slopes + peak - 0.5 * (math.log(scale) + level) - tail
    return np.where(weights > 0, density, 0.0)
