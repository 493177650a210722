"""Linear regression of censored outcomes with normal noise, by which the prior of a fit is scaled."""

from __future__ import annotations

import math

import numpy as np

from sampler.array_types import Floats
from sampler.definitions.design import Design

MOST_ROWS, MOST_COLUMNS = 5_000, 250
STEPS, PRECISE = 500, 1e-7
LOG_ROOT = 0.5 * math.log(2 * math.pi)


def log_normal_between(low: Floats, high: Floats) -> Floats:
    """Compute log(Phi(high) - Phi(low)), exact in both tails; minus infinity where low is not below high."""
    from scipy.special import log_ndtr  # noqa: PLC0415  # slow to import

    with np.errstate(invalid="ignore", divide="ignore"):
        turn = low + high > 0  # to the lower tail, where Phi is not rounded
        a, b = np.where(turn, -high, low), np.where(turn, -low, high)
        log_b = log_ndtr(b)
        return np.where(low < high, log_b + np.log(-np.expm1(log_ndtr(a) - log_b)), -np.inf)


def expect(limits: Floats, line: Floats, sigma: float) -> tuple[Floats, Floats]:
    """Compute means and variances of Normal(line, sigma^2) between limits [2, n], both float64 [n].

    Rows whose limits are equal have them as mean, and variance 0.
    """
    low, high = (limits - line) / sigma
    log_share = log_normal_between(low, high)
    with np.errstate(invalid="ignore", over="ignore"):
        at_low, at_high = (np.exp(-0.5 * z * z - LOG_ROOT - log_share) for z in (low, high))
        mean = at_low - at_high
        spread = 1 + _product(low, at_low) - _product(high, at_high) - mean**2
    middle = np.clip(0.0, low, high)
    mean = np.where(np.isfinite(mean), np.clip(mean, low, high), middle)
    width = np.minimum(0.5 * (high - low), 1.0)
    variance = np.where(np.isfinite(spread), np.clip(spread, 0.0, width**2), width**2 / 3)
    seen = limits[0] == limits[1]
    return np.where(seen, limits[0], line + sigma * mean), np.where(seen, 0.0, sigma**2 * variance)


def _product(z: Floats, density: Floats) -> Floats:
    return np.where(np.isfinite(z), z, 0.0) * density


def fit_censored(limits: Floats, design: Design, *, linear: bool = True) -> tuple[Floats, float]:
    """Fit a line with normal noise to outcomes between limits, by expectation and maximisation.

    The line is that of at most 5,000 rows, evenly spaced, and of no columns where there are more than 250 or
    half as many as rows.

    Parameters
    ----------
    limits
        Lower and upper limits, equal where the outcome was observed, float64 [2, n].
    design
        Columns, float64 [column, n], NaN where missing.
    linear
        Whether to use the columns; else the line is a constant.

    Returns
    -------
    tuple
        What the line expects of every row's outcome given its limits, float64 [n], and the noise's sd.

    """
    count = limits.shape[1]
    rows = np.unique(np.linspace(0, count - 1, min(count, MOST_ROWS)).astype(np.int64))
    used = linear and len(design) <= MOST_COLUMNS and 2 * len(design) < len(rows)
    some = design[:, rows] if used else np.empty((0, len(rows)))
    centre, scale = _scales(some)
    z = np.vstack([np.ones(len(rows)), np.nan_to_num((some - centre[:, None]) / scale[:, None], nan=0.0)])
    own = limits[:, rows]
    gram = z @ z.T + np.diag([1e-9, *np.ones(len(some))])  # slopes shrink as by one more row
    y = np.where(np.isinf(own[0]), own[1], np.where(np.isinf(own[1]), own[0], own.mean(axis=0)))
    sigma = float(np.std(y)) or 1.0
    free = max(len(rows) - 1 - len(some), 1)
    variance = np.zeros(len(rows))
    for _ in range(STEPS):
        slopes = np.linalg.solve(gram, z @ y)
        line = slopes @ z
        before = sigma
        sigma = math.sqrt(max(float(np.sum((y - line) ** 2 + variance)) / free, np.finfo(float).tiny))
        if abs(sigma - before) <= PRECISE * sigma:
            break
        y, variance = expect(own, line, sigma)
    everywhere = np.full(count, slopes[0])
    for slope, column, middle, width in zip(slopes[1:], design if used else [], centre, scale, strict=True):
        everywhere += slope * np.nan_to_num((column - middle) / width, nan=0.0)
    return expect(limits, everywhere, sigma)[0], sigma


def _scales(design: Floats) -> tuple[Floats, Floats]:
    """Return means and standard deviations of columns, missing values left out; 0 and 1 of constant ones."""
    known = np.isfinite(design)
    count = np.maximum(known.sum(axis=1), 1)
    centre = np.where(known, design, 0.0).sum(axis=1) / count
    scale = np.sqrt(np.where(known, (design - centre[:, None]) ** 2, 0.0).sum(axis=1) / count)
    return centre, np.where(scale > 0, scale, 1.0)
