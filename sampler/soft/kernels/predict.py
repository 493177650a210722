"""Draws of trees of soft splits at rows."""

from __future__ import annotations

import math

from sampler.kernels.arrays import Bools, Float, Floats, Floats2, Floats3, Longs, array, boolean
from sampler.kernels.jit import kernel

bools_1 = array(boolean)


@kernel(
    allocates=False,
    entry=True,
)
def soft_values(
    is_split: Bools,
    start: Longs,
    first_split: Longs,
    right: Longs,
    threshold: Floats,
    direction: Floats2,
    value: Floats2,
    width: Float,
    x: Floats2,
    chosen: Longs,
    reach: Floats,
    into: Floats3,
) -> None:
    """Average the leaf values of the chosen trees at rows x [row, p], into [tree, row, k].

    Nodes of a tree are in pre-order from `start`; `right` is the right child, counted from there. So many
    leaves as start - first_split come before those of a tree. `reach` [node] is room to work.
    """
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
