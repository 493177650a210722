"""Quantiles of draws and of mixtures of normals, alike or weighted, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_STEPS = 100
CLOSE = 1e-9  # of a quantile, in the smallest of the mixture's sds


def of_draws(values: Floats, share: Floats | None, tails: Floats) -> Floats:
    """Sample quantiles [level, row] of values [row, draw].

    Draws that count alike are interpolated as `sampler.posterior.intervals` does; of weighted ones it is the
    smallest value whose draws up to it have the weight asked for. A tail below zero is an upper one.
    """
    wanted = np.where(tails < 0, 1 + tails, tails)
    if not len(wanted):
        return np.empty((0, len(values)))
    if share is None:
        return np.quantile(values, wanted, axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    total = np.cumsum(share[order], axis=1)
    place = np.array([np.argmax(total >= min(q, 1.0) * total[:, -1:] - 1e-12, axis=1) for q in wanted], int)
    return np.take_along_axis(ranked, place.reshape(len(wanted), -1).T, axis=1).T


def normal_mixture(centre: Floats, sd: Floats, share: Floats, tails: Floats) -> Floats:
    """Quantiles [level, row] of mixtures of Normal(centre, sd^2), [row, draw], weighted by `share` [draw].

    Found on the distribution function by Newton's steps kept inside a bracket: the same request has the same
    answer. A tail below zero is an upper one.
    """
    found = np.empty((len(tails), len(centre)))
    smallest = CLOSE * sd.min(axis=1) if len(centre) else np.empty(0)
    for level, tail in enumerate(tails):
        found[level] = _root(centre, sd, share, float(tail), smallest)
    return found


def _root(centre: Floats, sd: Floats, share: Floats, tail: float, close: Floats) -> Floats:
    sign = -1.0 if tail < 0 else 1.0  # an upper tail is the lower one of the mirror image
    mirrored, wanted = sign * centre, abs(tail)
    ends = mirrored + sd * ndtri(wanted)
    low, high = ends.min(axis=1), ends.max(axis=1)
    mean = mirrored @ share
    spread = np.sqrt(((mirrored - mean[:, None]) ** 2 + sd**2) @ share)
    at = np.clip(mean + spread * ndtri(wanted), low, high)
    active = np.arange(len(at))
    for _ in range(MOST_STEPS):
        z = (at[active, None] - mirrored[active]) / sd[active]
        below = ndtr(z) @ share - wanted
        density = (np.exp(-0.5 * z * z) / sd[active]) @ share / np.sqrt(2 * np.pi)
        low[active] = np.where(below < 0, at[active], low[active])
        high[active] = np.where(below > 0, at[active], high[active])
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = at[active] - below / density
        inside = (newton > low[active]) & (newton < high[active])
        after = np.where(below == 0, at[active], np.where(inside, newton, 0.5 * (low[active] + high[active])))
        moved = np.abs(after - at[active])
        at[active] = after
        active = active[moved > close[active]]
        if not len(active):
            break
    return np.asarray(sign * at)
