"""Depths of trees."""

from __future__ import annotations

from sampler.kernels.arrays import Ints, Longs
from sampler.kernels.jit import kernel


@kernel(allocates=False, entry=True)
def tree_depths(tree_start: Longs, feature: Ints, waiting: Ints, depth: Ints) -> None:
    """Find the depth of each tree's deepest leaf, 0 for a lone one; `waiting` has room for a tree's nodes.

    In pre-order a leaf is followed by the right child of the nearest split that still waits for one:
    `waiting` holds the depths of those, the nearest last.
    """
    for tree in range(len(depth)):
        deepest, here, held = 0, 0, 0
        for node in range(tree_start[tree], tree_start[tree + 1]):
            if feature[node] >= 0:
                here += 1
                waiting[held] = here
                held += 1
            else:
                deepest = max(deepest, here)
                if held > 0:
                    held -= 1
                    here = waiting[held]
        depth[tree] = deepest
