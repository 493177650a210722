"""Learning of a recalibration from normal scores of outcomes, of held-out rows and left-out training rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import betainc, ndtr, ndtri

from sampler.array_types import Bools, Floats, Longs
from sampler.posterior.recalibration.recalibration import KNOTS, LARGEST_SLOPE, LEAST_SLOPE
from sampler.posterior.recalibration.scale_trees import ScaleTrees

FEWEST, FEWEST_OF_SCALE = 90, 200  # held-out rows without which there is none, or no scale
FOLDS = 5
FACTORS = (0.25, 0.5, 0.75, 1.0)
LEVELS = (0.4, 0.6, 0.8, 0.9)  # of |z|, by whose check loss the factor is chosen
LEAST_SIZE = 0.05  # of |z|: smaller ones tell nothing of the scale
PRIOR_ROWS = 50  # that say, as it were, that the law is right: fewer rows tell little of quantiles
REACH = 2.6  # the last knot, of many rows
CONTRADICTED = 0.01  # p by which held-out rows contradict left-out training rows
LARGEST_K, MOST_LARGE = 0.7, 0.2  # of Pareto's k, and the share of rows that may have a larger one


def learn_scale(
    z: Floats, features: Floats, columns: Longs | None = None
) -> tuple[ScaleTrees | None, float, float, Floats]:
    """Learn s(x) from normal scores z [row] of rows with features [feature, row], or some of them by number.

    Returns the trees, factor and middle of a `Recalibration`, and the scale of each row by trees fitted to
    the other folds, float64 [row]. There are no trees where a constant scale is as good.
    """
    if len(z) < FEWEST_OF_SCALE:
        return None, 0.0, 0.0, np.ones(len(z))
    columns = np.arange(len(features)) if columns is None else columns
    every, features = features, features[columns]
    size = np.log(np.maximum(np.abs(z), LEAST_SIZE))
    folds = np.random.default_rng(len(z)).permutation(len(z)) % FOLDS
    apart = np.empty(len(z))
    for fold in range(FOLDS):
        own = folds == fold
        trees = ScaleTrees.fit(features[:, ~own], size[~own])
        apart[own] = trees.of(features[:, own]) - trees.of(features[:, ~own]).mean()
    alike = _check_loss(size)
    differences = [_check_loss(size - factor * apart) - alike for factor in FACTORS]
    best = int(np.argmin([each.mean() for each in differences]))
    error = differences[best].std() / np.sqrt(len(z))
    if not differences[best].mean() < -error:
        return None, 0.0, 0.0, np.ones(len(z))
    trees = ScaleTrees.fit(features, size)
    trees = replace(trees, feature=columns[trees.feature])
    return trees, FACTORS[best], float(trees.of(every).mean()), np.exp(FACTORS[best] * apart)


def _check_loss(size: Floats) -> Floats:
    """Compute the check loss of each row's figure by the pooled quantiles of some levels, float64 [row]."""
    away = size - np.quantile(size, LEVELS)[:, None]
    return np.asarray(np.mean(away * (np.array(LEVELS)[:, None] - (away < 0)), axis=0))


def learn_map(z: Floats) -> tuple[Floats, Floats] | None:
    """Learn the knots of T from scaled normal scores z [row]; None where no such map is near them.

    Quantiles are those of Harrell and Davis (1982), averages of all order statistics with beta weights, and
    drawn towards the normal law's, the more, the less they are further from it than chance has them: by
    the mean over knots of their squared distance in units of their variance if the law is right.
    """
    count = len(z)
    reach = min(REACH, float(ndtri(1 - 3 / count)))
    target = np.linspace(-reach, reach, KNOTS)
    q = ndtr(target)[:, None] * (count + 1)
    edges = betainc(q, count + 1 - q, np.linspace(0, 1, count + 1))
    source = np.diff(edges, axis=1) @ np.sort(z)
    p, density = ndtr(target), np.exp(-0.5 * target**2) / np.sqrt(2 * np.pi)
    apart = np.mean((source - target) ** 2 * count * density**2 / (p * (1 - p)))
    share = max(0.0, 1 - 1 / apart) * count / (count + PRIOR_ROWS)
    source = share * source + (1 - share) * target
    step, middle = target[1] - target[0], KNOTS // 2
    gaps = np.clip(np.diff(source), step / LARGEST_SLOPE, step / LEAST_SLOPE)
    source = source[middle] + np.concatenate([[0.0], np.cumsum(gaps)]) - gaps[:middle].sum()
    ends = source[[0, -1]] / target[[0, -1]]
    if not np.all((ends > 1 / LARGEST_SLOPE) & (ends < 1 / LEAST_SLOPE)):
        return None
    return source, target


def agree(held: Floats, left_out: Floats, k: Floats) -> bool:
    """Tell whether normal scores of left-out training rows may stand beside those of held-out rows."""
    from scipy.stats import ks_2samp  # noqa: PLC0415  half a second to import

    if np.mean(k > LARGEST_K) > MOST_LARGE:
        return False
    return bool(ks_2samp(np.abs(held), np.abs(left_out)).pvalue > CONTRADICTED)


def left_out(log_density: Floats, below: Floats) -> tuple[Floats, Floats]:
    """Compute what draws say of each row without it (PSIS; Vehtari, Gelman and Gabry 2017).

    Parameters
    ----------
    log_density, below
        Of each row's outcome in each draw of the fit to it: its log density, and the probability of less,
        float64 [draw, row].

    Returns
    -------
    below, k
        float64 [row]: the probability of less in a fit without the row, and Pareto's k of the weights.

    """
    draws = len(log_density)
    count = int(np.ceil(min(0.2 * draws, 3 * np.sqrt(draws))))
    ratio = -log_density.T
    ratio = ratio - ratio.max(axis=1, keepdims=True)
    order = np.argsort(ratio, axis=1)
    tail = order[:, -count:]
    cut = np.exp(np.take_along_axis(ratio, order[:, [-count - 1]], axis=1))
    weight = np.exp(ratio)
    beyond = np.maximum(np.take_along_axis(weight, tail, axis=1) - cut, 1e-300)
    k, sigma = _pareto(beyond)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.log1p(-(np.arange(count) + 0.5) / count)
        smoothed = np.where(
            np.abs(k)[:, None] < 1e-9, -sigma[:, None] * part, sigma[:, None] * np.expm1(-k[:, None] * part)
            / k[:, None]
        )  # fmt: skip
    np.put_along_axis(weight, tail, np.minimum(np.nan_to_num(cut + smoothed, nan=1.0), 1.0), axis=1)
    return np.asarray((weight * below.T).sum(axis=1) / weight.sum(axis=1)), k


def _pareto(x: Floats) -> tuple[Floats, Floats]:
    """Fit generalised Pareto laws to rising positive values [row, value]; return k and sigma.

    The estimate is that of Zhang and Stephens (2009), with the prior of PSIS on k.
    """
    count = x.shape[1]
    grid = 30 + int(np.sqrt(count))
    b = (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * x[:, [int(count / 4 + 0.5) - 1]])
    b = b + 1 / x[:, [-1]]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        k = np.array([np.log1p(-own * x).mean(axis=1) for own in b.T[:, :, None]]).T
        score = count * (np.log(-b / k) - k - 1)
        score = np.where(np.isfinite(score), score, -np.inf)
        share = np.exp(score - score.max(axis=1, keepdims=True))
        b = np.sum(b * share, axis=1) / share.sum(axis=1)
        k = np.log1p(-b[:, None] * x).mean(axis=1)
        sigma = -k / b
    k = (count * k + 5) / (count + 10)
    return np.where(np.isfinite(k), k, np.inf), sigma


def scores_of(below: Floats) -> Floats:
    """Return the normal scores of probabilities, none beyond what floating point tells from 0 and 1."""
    return np.asarray(ndtri(np.clip(below, 1e-15, 1 - 1e-15)))


def mean_shift(rest: Floats, *, beyond: float = 2.5) -> float:
    """Return the mean of outcomes less their means [row] where it is beyond so many standard errors."""
    error = rest.std(ddof=1) / np.sqrt(len(rest))
    return float(rest.mean()) if abs(rest.mean()) > beyond * error else 0.0


def calibrating(count: int) -> Bools:
    """Mark the held-out rows that calibrate, bool [row]: every other one where there are many, else all."""
    return np.arange(count) % 2 == 0 if count >= MANY else np.ones(count, bool)


MANY = 1_000  # held-out rows of which half judge
