"""The law of the noise in units of its sd: normal, or one that draws have a shape of.

A shape, Student's t (`student_noise`) or a mixture of normals (`mixture_noise`), has mean 0 and sd 1 in every
draw. Its arrays broadcast with the errors; None stands for normal noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from sampler.array_types import Floats

LOG_2PI = float(np.log(2 * np.pi))


class Shape(Protocol):
    """Shape of the noise in each draw."""

    @property
    def narrowest(self) -> Floats | float:
        """Width in sds that steps must resolve: 1 for a shape about as smooth as a normal."""

    def map(self, change: Callable[[Floats], Floats]) -> Shape:
        """Return the shape with its arrays of figures by draw [chain, draw] changed."""

    def mirrored(self) -> Shape:
        """Return the shape of the noise with the sign changed."""

    def log_density(self, z: Floats) -> Floats:
        """Compute the log density at z."""

    def scaled_density(self, z: Floats) -> Floats:
        """Compute the density at z times the root of 2 pi."""

    def below(self, z: Floats) -> Floats:
        """Compute the probability of values below z."""

    def around(self, q: float) -> tuple[Floats, Floats]:
        """Compute values between which the q-quantile lies, for a q up to .5."""

    def reach(self, sds: float) -> tuple[Floats | float, Floats | float]:
        """Compute values between which all is but what is that many sds from the middle of a normal."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw values of that shape, with which its arrays broadcast."""

    def mean_size(self, mean: Floats, sd: Floats) -> Floats:
        """Compute E|Z| for Z of that mean and standard deviation."""


def log_density(z: Floats, shape: Shape | None) -> Floats:
    """Compute the log density at z."""
    return np.asarray(-0.5 * (z * z + LOG_2PI)) if shape is None else shape.log_density(z)


def scaled_density(z: Floats, shape: Shape | None) -> Floats:
    """Compute the density at z times the root of 2 pi."""
    return np.asarray(np.exp(-0.5 * z * z)) if shape is None else shape.scaled_density(z)


def below(z: Floats, shape: Shape | None) -> Floats:
    """Compute the probability of values below z, within 1e-9."""
    return np.asarray(ndtr(z)) if shape is None else shape.below(z)


def around(q: float, shape: Shape | None) -> tuple[Floats, Floats]:
    """Compute values between which the q-quantile lies, for a q up to .5; of a normal both are that."""
    if shape is None:
        quantile = np.asarray(ndtri(q))
        return quantile, quantile
    return shape.around(q)


def sample(rng: np.random.Generator, size: tuple[int, ...], shape: Shape | None) -> Floats:
    """Draw values of that size, with which the arrays of the shape broadcast."""
    return rng.standard_normal(size) if shape is None else shape.sample(rng, size)


def mean_size(mean: Floats, sd: Floats, shape: Shape | None) -> Floats:
    """Compute E|Z| for Z of that mean and standard deviation."""
    if shape is not None:
        return shape.mean_size(mean, sd)
    z = mean / sd
    return np.asarray(2 * sd * np.exp(-0.5 * (z * z + LOG_2PI)) + mean * (2 * ndtr(z) - 1))
