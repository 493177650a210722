"""Rows that reach each split, added up by draw and column."""

from __future__ import annotations

import numpy as np

from sampler.kernels.arrays import Bytes, Bytes2, Int, Ints, Longs, Longs2
from sampler.kernels.jit import kernel


@kernel(allocates=False, entry=True)
def count_rows(
    tree_start: Longs,
    num_trees: Int,
    feature: Ints,
    cut: Bytes,
    missing_left: Bytes,
    column_of: Longs,
    codes: Bytes2,
    scratch: Longs2,
    count: Longs2,
) -> None:
    """Add to `count` [draw, column] the rows at each split; `scratch` [2, node] has room for a tree's nodes.

    In pre-order a leaf is followed by the right child of the nearest split that still waits for one.
    """
    waiting, right = scratch[0], scratch[1]
    for draw in range(len(count)):
        for tree in range(draw * num_trees, (draw + 1) * num_trees):
            first, held = tree_start[tree], 0
            for node in range(first, tree_start[tree + 1]):
                if feature[node] >= 0:
                    waiting[held] = node
                    held += 1
                elif held > 0:
                    held -= 1
                    right[waiting[held] - first] = node + 1
            for row in range(codes.shape[1]):
                at = first
                while feature[at] >= 0:
                    count[draw, column_of[feature[at]]] += 1
                    side = missing_left[at]
                    goes_left = np.uint8(codes[feature[at], row] + side) <= np.uint8(cut[at] + side)
                    at = at + 1 if goes_left else right[at - first]
