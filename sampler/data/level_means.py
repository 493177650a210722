"""Text of many levels as one number: at each level the mean of the outcome, cross-fitted for training rows.

Means are drawn towards that of all rows by the share of their variance that is noise (empirical Bayes;
Micci-Barreca 2001, SIGKDD Explorations 3(1), 27-32). As in scikit-learn's `TargetEncoder`, a training row has
the mean of the rows of the four other folds, so that trees see its level's but never its own outcome, and
new rows have that of all rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.definitions.data import COLUMN_ROLES

FOLDS = 5
ENCODED_TARGETS = ("numbers", "two", "counts")
PER_UNIT = [name for name, role in COLUMN_ROLES.items() if role.per_unit]


class LevelOutcomes(NamedTuple):
    """Outcomes whose means levels have, by unit of what they grow with, and weights, float64 [n]."""

    y: Floats
    weights: Floats

    @classmethod
    def of(cls, y: Floats, by_role: Mapping[str, Floats]) -> LevelOutcomes:
        """Take outcomes with what columns with a role say of them."""
        units, ones = [by_role[role] for role in PER_UNIT if role in by_role], np.ones(len(y))
        size = math.prod(units, start=ones)
        return cls(y / size, size * by_role.get("weights", ones))


def level_means(level: NDArray[np.intp], count: int, outcomes: LevelOutcomes) -> Floats:
    """Estimate the mean of each level, less that of all rows, float64 [level].

    Parameters
    ----------
    level
        Number of each row's level, -1 for missing.
    count
        Number of levels; those without a row have 0.
    outcomes
        Those of the rows.

    Returns
    -------
    ndarray
        The means.

    """
    known = (level >= 0) & (outcomes.weights > 0)
    level, y = level[known], outcomes.y[known]
    if not len(y):
        return np.zeros(count)
    weights = outcomes.weights[known] / outcomes.weights[known].mean()
    y = y - np.average(y, weights=weights)
    size = np.bincount(level, weights, count)
    total = np.bincount(level, weights * y, count)
    mean = np.divide(total, size, out=np.zeros(count), where=size > 0)
    levels = int(np.count_nonzero(size))
    within = float(np.sum(weights * (y - mean[level]) ** 2)) / max(len(y) - levels, 1)
    usual = len(y) - float(size @ size) / len(y)
    between = max((float(size @ mean**2) - (levels - 1) * within) / max(usual, 1e-12), 0.0)
    if len(y) <= levels or between == 0:
        return np.zeros(count)
    return np.asarray(mean * between * size / (between * size + within))


def cross_fitted(level: NDArray[np.intp], count: int, outcomes: LevelOutcomes) -> Floats:
    """Give each row the mean of its level, less that of all, by the other four folds, float64 [n].

    NaN where the level is missing.
    """
    values = np.full(len(level), np.nan)
    fold = np.random.default_rng(0).permutation(len(level)) % FOLDS
    for number in range(FOLDS):
        others, own = fold != number, (fold == number) & (level >= 0)
        means = level_means(level[others], count, LevelOutcomes(outcomes.y[others], outcomes.weights[others]))
        values[own] = means[level[own]]
    return values
