"""Blocks of single trees of sharp splits: kind 3 of `sampler.storage.draw_codec`.

After the trees, as `sampler.storage.sharp_codec` writes them, stand the log weight of each draw, then the k
values of each leaf, as float64.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sampler.errors import PackedError
from sampler.storage.block_format import HEAD, SINGLE_TREES, SIZES
from sampler.storage.draws import Draws
from sampler.storage.sharp_codec import pack_trees, unpack_trees

__all__ = ["HEAD", "SIZES", "pack", "unpack"]


def pack(draws: Draws) -> bytes:
    """Encode draws as one block; equal draws give equal bytes."""
    assert draws.value is not None
    assert draws.log_weight is not None
    more = draws.log_weight.astype("<f8").tobytes() + draws.value.astype("<f8").tobytes()
    return pack_trees(draws, SINGLE_TREES, more)


def unpack(data: bytes) -> Draws:
    """Decode a block exactly; raise PackedError when it is damaged or of a newer format."""
    draws, more = unpack_trees(data, SINGLE_TREES)
    num_leaves = (draws.num_nodes + draws.num_draws) // 2
    room = len(more) - 8 * draws.num_draws
    if draws.num_trees != 1 or not num_leaves or room <= 0 or room % (8 * num_leaves):
        raise PackedError("the block of draws is damaged: its sizes contradict each other")
    numbers = np.frombuffer(more, "<f8").astype(np.float64)
    if np.any(draws.leaf) or not np.all(np.isfinite(numbers)):
        raise PackedError("the block of draws is damaged: its leaves are not finite numbers")
    return replace(
        draws,
        value=numbers[draws.num_draws :].reshape(num_leaves, -1),
        log_weight=numbers[: draws.num_draws],
    )
