"""Survival curves of rows: the probability that an outcome exceeds each of some values, with bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from sampler import interrupt
from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.transform import Transform
from sampler.errors import SettingsError
from sampler.posterior.core.intervals import Request
from sampler.posterior.core.progress import track
from sampler.posterior.laws.law import Law
from sampler.posterior.refusals import check
from sampler.posterior.results.survival import Band, SurvivalCurves

MOST_TIMES = 1_000
DEFAULT_TIMES = 50
MOST_CELLS = 1 << 21  # draws times rows of a block


def default_times(low: float, high: float, *, positive: bool) -> Floats:
    """Choose 50 values, evenly spaced over the training outcomes, or from 0 where they are positive."""
    return (
        np.linspace(0.0, high, DEFAULT_TIMES + 1)[1:] if positive else np.linspace(low, high, DEFAULT_TIMES)
    )


def check_times(law: Law, times: Any) -> Floats:
    """Check the times of curves; None takes those of `default_times`; raise SettingsError."""
    check("survival", law)
    if times is None:
        target, positive = law.schema.target, bool(law.transform)
        assert target.min is not None
        assert target.max is not None
        return default_times(target.min, target.max, positive=positive)
    try:
        points = np.atleast_1d(np.asarray(times, np.float64))
    except (TypeError, ValueError):
        points = np.empty(0)
    fine = points.ndim == 1 and 0 < len(points) <= MOST_TIMES and bool(np.all(np.isfinite(points)))
    if not fine or np.any(np.diff(points) <= 0):
        raise SettingsError(
            f"times must be 1 to {MOST_TIMES} increasing finite numbers", field="times", code="out_of_range"
        )
    return points


def survival_curves(
    law: Law,
    coded: Coded,
    times: Sequence[float] | Floats | None,
    level: float = 0.9,
    num_draws: int | None = None,
) -> SurvivalCurves:
    """Compute the survival curves of rows; raise SettingsError for models of outcomes without censoring."""
    at = check_times(law, times)
    level = Request.check_level(level)
    ends = np.array([(1 - level) / 2, (1 + level) / 2])
    transform = law.transform
    learnt = transform.forward(at)
    shape = (coded.num_rows, len(at))
    curves = [np.empty(shape) for _ in range(3)]
    bands = np.empty((2, 3, coded.num_rows))
    draws = law.draws.num_chains * (num_draws or law.draws.num_draws)
    size = max(1, MOST_CELLS // draws)
    for start in track(range(0, coded.num_rows, size), "survival curves"):
        rows = slice(start, start + size)
        part = coded.part(rows)
        of_f, of_noise = law.f(part, num_draws), law.noise(part, num_draws)
        f, sd = of_f.reshape(-1, of_f.shape[2]), of_noise.reshape(-1, of_f.shape[2])  # [draw, row]
        for k, value in enumerate(learnt):
            interrupt.look()
            above = ndtr((f - value) / sd)
            curves[0][rows, k] = above.mean(axis=0)
            curves[1][rows, k], curves[2][rows, k] = np.quantile(above, ends, axis=0)
        middle = transform.inverse(f)
        restricted = restricted_mean(f, sd, float(at[-1]), transform)
        bands[0, 0, rows] = middle_of_mixture(f, sd, transform)
        bands[1, 0, rows] = restricted.mean(axis=0)
        bands[:, 1:, rows] = [np.quantile(each, ends, axis=0) for each in (middle, restricted)]
    median, mean = (Band(*band) for band in bands)
    warnings = list(coded.warnings)
    return SurvivalCurves(at, curves[0], curves[1], curves[2], median, mean, level, warnings, coded.labels)


def middle_of_mixture(f: Floats, sd: Floats, transform: Transform) -> Floats:
    """Find the median of each row's predictive distribution, from draws [draw, row], by bisection."""
    low, high = f.min(axis=0), f.max(axis=0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = ndtr((f - middle) / sd).mean(axis=0) > 0.5
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    middle = 0.5 * (low + high)
    return transform.inverse(middle)


def restricted_mean(f: Floats, sd: Floats, last: float, transform: Transform) -> Floats:
    """Compute E[min(y, last)] where y, or its logarithm, is Normal(f, sd^2)."""
    if not transform:
        z = (last - f) / sd
        density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
        return np.asarray(f * ndtr(z) - sd * density + last * ndtr(-z))
    if last <= 0:
        return np.full(f.shape, last)
    z = (np.log(last) - f) / sd
    with np.errstate(over="ignore", invalid="ignore"):
        below = np.exp(f + 0.5 * sd * sd) * ndtr(z - sd)
    return np.asarray(np.minimum(np.nan_to_num(below, nan=last, posinf=last) + last * ndtr(-z), last))
