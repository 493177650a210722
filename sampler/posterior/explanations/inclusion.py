"""Inclusion proportions: the share of split rules that use each feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sampler.posterior.core.intervals import equal_tailed
from sampler.posterior.results.rankings import Inclusion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def inclusion(names: list[str], counts: NDArray[np.int32] | Floats, level: float) -> Inclusion:
    """Compute inclusion proportions from the number of rules by draw and feature.

    Draws without any rule are left out of the mean; their number is reported.

    Parameters
    ----------
    names
        Names of the features.
    counts
        Number of rules, [draw, feature].
    level
        Probability of the interval.

    Returns
    -------
    Inclusion
        Shares by feature, with intervals.

    """
    total = counts.sum(axis=1)
    if not np.any(total):
        nothing = np.zeros(len(names))
        return Inclusion(names, nothing, nothing, nothing, level, len(total))
    shares = counts[total > 0] / total[total > 0, None]
    lower, upper = equal_tailed(shares, level)
    return Inclusion(names, shares.mean(axis=0), lower, upper, level, int(np.sum(total == 0)))
