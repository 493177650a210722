"""Probabilities of mixtures of normals, each value's own."""

from __future__ import annotations

import numpy as np

from sampler.kernels.arrays import Floats, Floats2, Longs
from sampler.kernels.jit import kernel
from sampler.posterior.kernels.mixture import CDF, DENSITY, PER_UNIT, REACH


@kernel(allocates=False, entry=True)
def probability_below(
    z: Floats, place: Longs, share: Floats2, mean: Floats2, inverse: Floats2, below: Floats
) -> None:
    """Compute the probability below z of the mixture at `place`.

    Shares, means and one over sds are [mixture, component]; components after one of share 0 count for none.
    The normal's comes from a table and its Taylor series (`kernels.mixture`).
    """
    for i in range(len(z)):
        m, total = place[i], 0.0
        for k in range(share.shape[1]):
            if share[m, k] == 0.0:
                break
            u = min(max((z[i] - mean[m, k]) * inverse[m, k], -float(REACH)), float(REACH))
            nearest = np.int64(u * PER_UNIT + (REACH * PER_UNIT + 0.5))
            x = np.float64(nearest - REACH * PER_UNIT) * (1 / PER_UNIT)
            t = u - x
            h2 = x * x - 1
            h3 = x * (h2 - 2)
            series = t * (1 - t * (x * (1 / 2) - t * (h2 * (1 / 6) - t * (h3 * (1 / 24)))))
            total += share[m, k] * (CDF[nearest] + DENSITY[nearest] * series)
        below[i] = total


@kernel(allocates=False, entry=True)
def density_at(
    z: Floats, place: Longs, share: Floats2, mean: Floats2, inverse: Floats2, density: Floats
) -> None:
    """Compute the density at z of the mixture at `place`; see `probability_below`."""
    for i in range(len(z)):
        m, total = place[i], 0.0
        for k in range(share.shape[1]):
            if share[m, k] == 0.0:
                break
            u = (z[i] - mean[m, k]) * inverse[m, k]
            total += share[m, k] * inverse[m, k] * np.exp(-0.5 * u * u)
        density[i] = total * 0.3989422804014327
