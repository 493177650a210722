"""The bound on the residual, which says how many rows a sum of 32 bits may take."""

from __future__ import annotations

import numpy as np

from sampler.bart.kernels.state import BLOCK, BOUND, Forest, Work
from sampler.kernels.arrays import Int
from sampler.kernels.jit import kernel
from sampler.kernels.rows import largest_absolute

GRID_LIMIT = 1 << 25  # of a residual or a leaf value, in grid steps; the data fill about 2^20
LARGEST_BLOCK = 8192
SMALLEST_BLOCK = 64


@kernel(inline=True, allocates=False)
def plane_of(forest: Forest, tree: Int) -> Int:
    """The row of `high` with the high bytes of a tree's slots (any row if it has none)."""
    return max(np.int64(forest.plane[tree]), 0)


@kernel(inline=True, allocates=False)
def choose_block(work: Work) -> None:
    """The most rows whose sum must fit an int32, from the bound on the residual; 0 if even 64 might not."""
    block = LARGEST_BLOCK
    while block >= SMALLEST_BLOCK and block * work.state[BOUND] >= 2**31:
        block //= 2
    work.state[BLOCK] = block if block >= SMALLEST_BLOCK else 0


@kernel(inline=True, allocates=False)
def set_bound(work: Work, bound: Int) -> None:
    """Note that no |residual| exceeds `bound`; blocks are chosen for twice that: it may grow a while."""
    work.state[BOUND] = 2 * bound + 1
    choose_block(work)
    work.state[BOUND] = bound


@kernel(inline=True, allocates=False)
def widen_bound(work: Work, change: Int) -> None:
    """Note that the residual will move by `change` at most; measure it anew when the bound is large."""
    work.state[BOUND] += change
    if work.state[BOUND] * max(work.state[BLOCK], SMALLEST_BLOCK) >= 2**31:
        set_bound(work, largest_absolute(work.residual) + change)
