"""Student's t as the shape of the noise (docs/maths.md#heavy-tails)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, stdtr, stdtrit

from sampler.array_types import Floats
from sampler.kernels.jit import warm
from sampler.noise import DEGREE_GRID
from sampler.posterior.kernels import student
from sampler.posterior.weighting.noise_law import LOG_2PI

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


@dataclass(frozen=True)
class Student:
    """Noise that is t with these degrees of freedom, of the grid `sampler.noise.DEGREE_GRID`."""

    degrees: Floats
    narrowest = 1.0

    def map(self, change: Callable[[Floats], Floats]) -> Student:
        """Return the shape with its degrees of freedom changed."""
        return Student(change(self.degrees))

    def mirrored(self) -> Student:
        """Return itself."""
        return self

    def log_density(self, z: Floats) -> Floats:
        """Compute the log density at z."""
        sd = sd_of(self.degrees)
        return np.asarray(np.log(sd) + _log_t(z * sd, self.degrees))

    def scaled_density(self, z: Floats) -> Floats:
        """Compute the density at z times the root of 2 pi."""
        return np.asarray(np.exp(self.log_density(z) + 0.5 * LOG_2PI))

    def below(self, z: Floats) -> Floats:
        """Compute the probability of values below z, within 1e-9."""
        degrees = self.degrees
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

    def around(self, q: float) -> tuple[Floats, Floats]:
        """Compute the q-quantile, twice."""
        quantile = np.asarray(stdtrit(self.degrees, q) / sd_of(self.degrees))
        return quantile, quantile

    def reach(self, sds: float) -> tuple[float, float]:
        """Return that many sds, on either side."""
        return -sds, sds

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw values of that shape, with which the degrees broadcast."""
        return np.asarray(rng.standard_t(self.degrees, shape) / sd_of(self.degrees))

    def mean_size(self, mean: Floats, sd: Floats) -> Floats:
        """Compute E|Z| for Z of that mean and standard deviation."""
        degrees = self.degrees
        z = mean / sd
        scale = sd_of(degrees)
        t = z * scale
        at = np.exp(_log_t(t, degrees)) * (degrees + t * t) / (degrees - 1)
        return np.asarray(sd / scale * (2 * at + t * (2 * self.below(z) - 1)))


def _log_t(t: Floats, degrees: Floats) -> Floats:
    half = 0.5 * degrees
    constant = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(np.pi * degrees)
    return np.asarray(constant - (half + 0.5) * np.log1p(t * t / degrees))


@cache
def _table() -> TailTable:
    points = np.arange(REACH * CELLS + 1) / CELLS
    return TailTable(stdtr(GRID[:, None], -points), np.exp(_log_t(points, GRID[:, None])))
