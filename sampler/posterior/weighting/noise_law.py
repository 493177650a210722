"""The law of the noise in units of its sd: normal, or Student's t (docs/maths.md#heavy-tails).

Functions take the degrees of freedom of each draw, in a shape that broadcasts with the errors, or None for
normal noise. Degrees are on the grid of `sampler.noise.DEGREE_GRID`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

from sampler.kernels.jit import warm
from sampler.noise import DEGREE_GRID
from sampler.posterior.kernels import student

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LOG_2PI = float(np.log(2 * np.pi))
GRID = np.array(DEGREE_GRID)
CELLS = 64  # cells of the table per unit of t
REACH = 40  # largest t in the table; the law's own function serves beyond


class TailTable(NamedTuple):
    """Tail probabilities of t and densities at t = 0, 1/64, .. 40, float64 [place on the grid, point]."""

    tail: Floats
    density: Floats


def sd_of(degrees: Floats) -> Floats:
    """Return the standard deviation of t with that many degrees of freedom."""
    return np.asarray(np.sqrt(degrees / (degrees - 2)))


def are_degrees(degrees: Floats) -> bool:
    """Tell whether all values are on the grid."""
    return bool(np.all(np.isin(degrees, GRID)))


def log_density(z: Floats, degrees: Floats | None) -> Floats:
    """Compute the log density at z."""
    if degrees is None:
        return np.asarray(-0.5 * (z * z + LOG_2PI))
    sd = sd_of(degrees)
    return np.asarray(np.log(sd) + _log_t(z * sd, degrees))


def scaled_density(z: Floats, degrees: Floats | None) -> Floats:
    """Compute the density at z times the root of 2 pi."""
    if degrees is None:
        return np.asarray(np.exp(-0.5 * z * z))
    return np.asarray(np.exp(log_density(z, degrees) + 0.5 * LOG_2PI))


def below(z: Floats, degrees: Floats | None) -> Floats:
    """Compute the probability of values below z, within 1e-9."""
    if degrees is None:
        return np.asarray(ndtr(z))
    t = np.ascontiguousarray(z * sd_of(degrees))
    place = np.array(np.broadcast_to(np.searchsorted(GRID, degrees), t.shape), np.int64, order="C")
    p = np.empty(t.shape)
    table = _table()
    warm("heavy-tails")
    student.look_up(t.reshape(-1), place.reshape(-1), table.tail, table.density, CELLS, p.reshape(-1))
    far = p == student.UNKNOWN
    if np.any(far):
        p[far] = stdtr(np.broadcast_to(degrees, t.shape)[far], t[far])
    return p


def quantile(q: float, degrees: Floats | None) -> Floats:
    """Compute the q-quantile."""
    if degrees is None:
        return np.asarray(ndtri(q))
    return np.asarray(stdtrit(degrees, q) / sd_of(degrees))


def sample(rng: np.random.Generator, shape: tuple[int, ...], degrees: Floats | None) -> Floats:
    """Draw values of that shape, with which the degrees broadcast."""
    if degrees is None:
        return rng.standard_normal(shape)
    return np.asarray(rng.standard_t(degrees, shape) / sd_of(degrees))


def mean_size(mean: Floats, sd: Floats, degrees: Floats | None) -> Floats:
    """Compute E|Z| for Z of that mean and standard deviation."""
    z = mean / sd
    if degrees is None:
        return np.asarray(2 * sd * np.exp(-0.5 * (z * z + LOG_2PI)) + mean * (2 * ndtr(z) - 1))
    scale = sd_of(degrees)
    t = z * scale
    at = np.exp(_log_t(t, degrees)) * (degrees + t * t) / (degrees - 1)
    return np.asarray(sd / scale * (2 * at + t * (2 * below(z, degrees) - 1)))


def _log_t(t: Floats, degrees: Floats) -> Floats:
    half = 0.5 * degrees
    constant = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(np.pi * degrees)
    return np.asarray(constant - (half + 0.5) * np.log1p(t * t / degrees))


@cache
def _table() -> TailTable:
    points = np.arange(REACH * CELLS + 1) / CELLS
    return TailTable(stdtr(GRID[:, None], -points), np.exp(_log_t(points, GRID[:, None])))
