"""Probabilities of the classes that rows have, and log-likelihoods of draws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats

DRAWS_AT_ONCE = 1024  # 200 rows of ten classes take 16 MB
LEAST = -1e9  # of a row: sums with an infinite one couldn't be compared


def own_probabilities(p: Floats, y: Floats) -> Floats:
    """Look up the probability [.., row] of each row's class y [row] in p [.., row, class].

    Any other class than those has probability 0.
    """
    own = y.astype(np.int64)
    known = own < p.shape[-1]
    return np.where(known, p[..., np.arange(len(own)), np.where(known, own, 0)], 0.0)


def log_of_own(p: Floats, y: Floats) -> Floats:
    """Return the logarithms of `own_probabilities`, of 0 that of the smallest positive float."""
    return np.asarray(np.log(np.maximum(own_probabilities(p, y), np.finfo(np.float64).smallest_subnormal)))


def sum_over_rows(densities: Callable[[NDArray[np.int64]], Floats], chosen: NDArray[np.int64]) -> Floats:
    """Sum log densities to log-likelihoods [draw]; `densities` computes them for some draws, [draw, row]."""
    parts = np.split(chosen, range(DRAWS_AT_ONCE, len(chosen), DRAWS_AT_ONCE))
    return np.concatenate([np.maximum(densities(part), LEAST).sum(axis=1) for part in parts])
