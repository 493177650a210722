"""Bound on the residual, which limits the rows whose sum fits 32 bits."""

from __future__ import annotations

from sampler.kernels.arrays import Int, Ints, Longs
from sampler.kernels.jit import kernel
from sampler.kernels.rows import largest_absolute

LARGEST_BLOCK = 8192
SMALLEST_BLOCK = 64
BOUND, BLOCK, BOUND_SIZE = 0, 1, 2  # of |residual|; rows a block, 0 if even 64 might overflow


@kernel(inline=True, allocates=False)
def choose_block(bound: Longs) -> None:
    """Choose the largest block of rows whose sum fits an int32; 0 if even 64 rows might not."""
    block = LARGEST_BLOCK
    while block >= SMALLEST_BLOCK and block * bound[BOUND] >= 2**31:
        block //= 2
    bound[BLOCK] = block if block >= SMALLEST_BLOCK else 0


@kernel(inline=True, allocates=False)
def set_bound(bound: Longs, largest: Int) -> None:
    """Note that no |residual| exceeds `largest`; blocks are chosen for twice that: it may grow a while."""
    bound[BOUND] = 2 * largest + 1
    choose_block(bound)
    bound[BOUND] = largest


@kernel(allocates=False, entry=True)
def measure_bound(residual: Ints, bound: Longs) -> None:
    """Measure the largest |residual|."""
    set_bound(bound, largest_absolute(residual))


@kernel(inline=True, allocates=False)
def widen_bound(residual: Ints, bound: Longs, change: Int) -> None:
    """Note that the residual will move by `change` at most; measure it anew when the bound is large."""
    bound[BOUND] += change
    if bound[BOUND] * max(bound[BLOCK], SMALLEST_BLOCK) >= 2**31:
        set_bound(bound, largest_absolute(residual) + change)
