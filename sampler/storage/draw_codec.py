"""The codec of draws: compact blocks, exact and with checksums, that contain no code.

A block holds consecutive draws of one chain. Its sixth byte is its kind: 1, a sum of trees of sharp splits
(`sharp_codec` has the format); 2, trees of soft splits (`sampler.trees.soft.draws`); 3, single trees of sharp
splits (`sampler.trees.cart.codec`); 4, several forests or scalars (`forest_codec`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sampler.errors import PackedError
from sampler.storage.block_format import CODECS, kind_of
from sampler.storage.draws import Draws


def pack(draws: Draws) -> bytes:
    """Encode draws as one block; equal draws give equal bytes."""
    block: bytes = _codec(draws.kind).pack(draws)
    return block


def unpack(data: bytes) -> Draws:
    """Decode a block exactly; raise PackedError when it is not a block, damaged, or of a newer format."""
    draws: Draws = _codec(kind_of(data)).unpack(data)
    return draws


def sizes(data: bytes) -> tuple[int, int, int]:
    """Read the numbers of draws, trees per draw and nodes from a block's head; raise PackedError."""
    codec = _codec(kind_of(data))
    if len(data) < codec.HEAD.size:
        raise PackedError("the block of draws is damaged: its head is cut short")
    head = codec.HEAD.unpack_from(data)
    draws, trees, nodes = (head[place] for place in codec.SIZES)
    return draws, trees, nodes


def _codec(kind: int) -> Any:
    return import_module(CODECS[kind])
