"""Boosted trees by weighted least squares, small and of equal depth."""

from __future__ import annotations

from sampler.kernels.arrays import Bytes2, Float, Floats, Floats2, Int, Longs
from sampler.kernels.jit import kernel


@kernel(allocates=False, entry=True)
def boost(
    binned: Bytes2, y: Floats, weights: Floats, trees: Int, depth: Int, bins: Int, rate: Float,
    shrinkage: Float, sums: Floats2, split: Longs, leaf: Longs, fit: Floats,
) -> None:  # fmt: skip
    """Fit trees one after the other; `fit` gets their sum at every row, also at those of weight 0.

    Parameters
    ----------
    binned
        Columns' bins [column, n].
    y, weights
        [n].
    trees, depth, bins, rate
        How many, and their depth; bins of a column; the share of a tree's values that is added.
    shrinkage
        Weight, in rows, of a leaf value of 0.
    sums, split
        Room for sums of residuals and weights by leaf, column and bin, [leaves x columns x bins, 2], and for
        the leaves' best splits, [leaves].
    leaf
        Room for the rows' leaves, [n].
    fit
        [n].

    """
    columns, rows = binned.shape
    width = columns * bins
    for i in range(rows):
        fit[i] = 0.0
    for _ in range(trees):
        for i in range(rows):
            leaf[i] = 0
        for level in range(depth):
            for place in range(width << level):
                sums[place, 0] = sums[place, 1] = 0.0
            for j in range(columns):
                for i in range(rows):
                    place = leaf[i] * width + j * bins + binned[j, i]
                    sums[place, 0] += weights[i] * (y[i] - fit[i])
                    sums[place, 1] += weights[i]
            for k in range(1 << level):
                best = -1.0
                for j in range(columns):
                    first = k * width + j * bins
                    for place in range(first + 1, first + bins):
                        sums[place, 0] += sums[place - 1, 0]
                        sums[place, 1] += sums[place - 1, 1]
                    for place in range(first, first + bins):
                        total, size = sums[place, 0], sums[place, 1]
                        rest, others = sums[first + bins - 1, 0] - total, sums[first + bins - 1, 1] - size
                        gain = total * total / (size + shrinkage) + rest * rest / (others + shrinkage)
                        if gain > best:
                            best, split[k] = gain, place - k * width
            for i in range(rows):
                best_split = split[leaf[i]]
                right = binned[best_split // bins, i] > best_split % bins
                leaf[i] = 2 * leaf[i] + (1 if right else 0)
        for k in range(1 << depth):
            sums[k, 0] = sums[k, 1] = 0.0
        for i in range(rows):
            sums[leaf[i], 0] += weights[i] * (y[i] - fit[i])
            sums[leaf[i], 1] += weights[i]
        for i in range(rows):
            fit[i] += rate * (sums[leaf[i], 0] / (sums[leaf[i], 1] + shrinkage))
