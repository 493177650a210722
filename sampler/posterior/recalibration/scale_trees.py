"""Boosted trees by least squares, for the scale of a recalibrated law: some hundred numbers in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats, Longs

TREES, DEPTH, LEAF_ROWS, RATE = 60, 3, 40, 0.1
BINS = 64
INNER, LEAVES = (1 << DEPTH) - 1, 1 << DEPTH
MOST_FEATURES = 100_000  # a stored feature is no larger


@dataclass(frozen=True)
class ScaleTrees:
    """Sum of trees of equal depth; rows whose feature is above the limit of a split go right.

    Attributes
    ----------
    feature, limit
        Of the splits, [tree, split], level by level; a split that sends no row right has the limit infinity.
    value
        float64 [tree, leaf].

    """

    feature: Longs
    limit: Floats
    value: Floats

    def of(self, features: Floats) -> Floats:
        """Compute the sum at rows of features [feature, row], float64 [row]."""
        trees = np.arange(len(self.feature))[:, None]
        at = np.zeros((len(self.feature), features.shape[1]), np.int64)
        for _ in range(DEPTH):
            right = features[self.feature[trees, at], np.arange(features.shape[1])] > self.limit[trees, at]
            at = 2 * at + 1 + right
        return np.asarray(self.value[trees, at - INNER].sum(axis=0))

    @classmethod
    def fit(cls, features: Floats, y: Floats) -> Self:
        """Fit trees to rows of features [feature, row] and y [row], without any chance."""
        limits = [_limits(own) for own in features]
        width = max((len(each) for each in limits), default=0) + 1
        bins = np.array([np.searchsorted(own, x) for own, x in zip(limits, features, strict=True)])
        cells = bins + width * np.arange(len(bins))[:, None]
        rest = y - y.mean()
        rows, trees = len(y), []
        for _ in range(TREES):
            leaf, splits = np.zeros(rows, np.int64), []
            for level in range(DEPTH):
                for feature, place in _best_splits(cells, rest, leaf, 1 << level, width):
                    splits.append((feature, limits[feature][place] if place >= 0 else np.inf))
                own = splits[-(1 << level) :]
                chosen = np.array([feature for feature, _ in own])[leaf]
                above = features[chosen, np.arange(rows)] > np.array([limit for _, limit in own])[leaf]
                leaf = 2 * leaf + above
            sizes = np.bincount(leaf, minlength=LEAVES)
            value = RATE * np.bincount(leaf, rest, LEAVES) / np.maximum(sizes, 1)
            rest = rest - value[leaf]
            trees.append((splits, value))
        return cls(
            np.array([[feature for feature, _ in splits] for splits, _ in trees]),
            np.array([[limit for _, limit in splits] for splits, _ in trees]),
            np.array([value for _, value in trees]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the trees as JSON values."""
        limit = [[None if np.isinf(each) else each for each in own] for own in self.limit.tolist()]
        return {"feature": self.feature.tolist(), "limit": limit, "value": self.value.tolist()}

    @classmethod
    def from_json(cls, values: Any, num_features: int) -> Self:
        """Read what `to_json` returned, of so many features; raise ValueError for anything else."""
        limit = [[np.inf if each is None else each for each in own] for own in values["limit"]]
        feature = np.array(values["feature"], np.int64)
        trees = cls(feature, np.array(limit, np.float64), np.array(values["value"], np.float64))
        shapes = [each.shape for each in (trees.feature, trees.limit, trees.value)]
        if shapes != [(TREES, INNER), (TREES, INNER), (TREES, LEAVES)]:
            raise ValueError("the trees of its recalibration don't have the sizes that they should")
        if feature.min() < 0 or feature.max() >= num_features or np.isnan(trees.limit).any():
            raise ValueError("the splits of its recalibration are out of range")
        if not np.abs(trees.value).max() < 10:
            raise ValueError("the leaves of its recalibration are out of range")
        return trees


def _limits(x: Floats) -> Floats:
    """Choose the limits of splits: halfway between values that are next to each other, evenly by rows."""
    values = np.unique(x[np.isfinite(x)])
    if len(values) > BINS:
        values = np.unique(np.quantile(x[np.isfinite(x)], np.linspace(0, 1, BINS), method="inverted_cdf"))
    return np.asarray((values[1:] + values[:-1]) / 2)


def _best_splits(
    cells: NDArray[np.int64], rest: Floats, leaf: Longs, leaves: int, width: int
) -> Sequence[tuple[int, int]]:
    """Find the split of each leaf by which squares fall most: its feature, and its place or -1 for none.

    `cells` are the rows' bins, numbered through all features.
    """
    features = len(cells)
    shape, size = (leaves, features, width), leaves * features * width
    place = (cells + leaf * (features * width)).reshape(-1)
    weights = np.broadcast_to(rest, cells.shape).reshape(-1)
    sums = np.bincount(place, weights, size).reshape(shape).cumsum(axis=2)
    rows = np.bincount(place, minlength=size).reshape(shape).cumsum(axis=2, dtype=np.float64)
    other_sums, other_rows = sums[:, :, -1:] - sums, rows[:, :, -1:] - rows
    gain = sums * sums / np.maximum(rows, 1) + other_sums * other_sums / np.maximum(other_rows, 1)
    gain[np.minimum(rows, other_rows) < LEAF_ROWS] = -1.0
    each = gain.reshape(leaves, -1)
    best = each.argmax(axis=1)
    chosen = zip(best.tolist(), each[np.arange(leaves), best].tolist(), strict=True)
    return [divmod(at, width) if found >= 0 else (0, -1) for at, found in chosen]
