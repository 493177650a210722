"""Draws of trees of soft splits at rows."""

from __future__ import annotations

import math
from typing import NamedTuple

from sampler.kernels.arrays import Bools, Float, Floats, Floats2, Floats3, Longs
from sampler.kernels.jit import kernel


class SoftTrees(NamedTuple):
    """Trees of draws, nodes in pre-order; start - first_split leaves come before those of a tree."""

    is_split: Bools  # [node]
    start: Longs  # [tree + 1], first node
    first_split: Longs  # [tree + 1]
    right: Longs  # [node], right child, counted from the tree's first node
    threshold: Floats  # [split]
    direction: Floats2  # [split, p]
    value: Floats2  # [leaf, k]
    width: Float  # of the splits


@kernel(allocates=False, entry=True)
def soft_values(trees: SoftTrees, x: Floats2, chosen: Longs, reach: Floats, into: Floats3) -> None:
    """Average the leaf values of the chosen trees at rows x [row, p], into [tree, row, k].

    `reach` [node] is room to work.
    """
    is_split, start, first_split, right, threshold, direction, value, width = trees
    columns, values = x.shape[1], value.shape[1]
    for place in range(len(chosen)):
        tree = chosen[place]
        base, many = start[tree], start[tree + 1] - start[tree]
        for row in range(len(x)):
            split, leaf = first_split[tree], base - first_split[tree]
            for k in range(values):
                into[place, row, k] = 0.0
            reach[0] = 1.0
            for node in range(many):
                here = reach[node]
                if not is_split[base + node]:
                    for k in range(values):
                        into[place, row, k] += here * value[leaf, k]
                    leaf += 1
                    continue
                a = -threshold[split]
                for d in range(columns):
                    a += direction[split, d] * x[row, d]
                a /= width
                e = math.exp(-abs(a))
                near = 1.0 / (1.0 + e)
                far = e * near
                reach[right[base + node]] = here * (near if a >= 0 else far)
                reach[node + 1] = here * (far if a >= 0 else near)
                split += 1
