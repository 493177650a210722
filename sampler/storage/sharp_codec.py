"""Blocks of a sum of trees of sharp splits: kind 1 of `sampler.storage.draw_codec`.

Format 1, little-endian:

======  =========  =====================================================================================
offset  type       content
======  =========  =====================================================================================
0       4 bytes    the magic ``BDRW``
4       uint8      format version, 1
5       uint8      kind of record: 1 (3: `sampler.trees.cart.codec`, which adds to this)
6       uint8      F, bits of a feature number (0 to 31)
7       uint8      L, bits of a leaf value (1 to 32)
8       uint32     CRC-32 of the bytes before and after this field
12      uint32     d, draws
16      uint32     m, trees in a draw
20      uint64     number of nodes
28      uint64     number of bits in the stream
36      float64[]  sigma of each draw
36+8d   uint64[]   the stream, padded with zero bits to whole words
======  =========  =====================================================================================

The stream lists the d * m trees in order, each in pre-order, from the lowest bit of every word up. A split
is 1, then the cut (8 bits), the side of missing values (1 bit, 1: left) and the feature (F bits). A leaf is
0, then its value in grid steps, folded (0, -1, 1, -2 become 0, 1, 2, 3), in L bits; L ones mean that the
folded value follows in 32 bits. L is the width that makes the block smallest.
"""

from __future__ import annotations

import numpy as np

from sampler.errors import PackedError
from sampler.kernels import packing
from sampler.storage.block_format import HEAD, MAGIC, SHARP_TREES, SIZES, VERSION, fields_of, seal
from sampler.storage.draws import Draws

__all__ = ["HEAD", "SIZES", "pack", "unpack"]


def pack(draws: Draws) -> bytes:
    """Encode draws as one block; equal draws give equal bytes."""
    return pack_trees(draws, SHARP_TREES, b"")


def unpack(data: bytes) -> Draws:
    """Decode a block exactly; raise PackedError when it is damaged or of a newer format."""
    draws, more = unpack_trees(data, SHARP_TREES)
    if more:
        raise PackedError("the block of draws is damaged: its sizes contradict each other")
    return draws


def pack_trees(draws: Draws, kind: int, more: bytes) -> bytes:
    """Encode the trees and sigma of draws as a block of that kind, which ends with `more`."""
    splits = draws.feature >= 0
    feature_bits = int(draws.feature.max(initial=0)).bit_length()
    leaf_bits, leaves_bits = _leaf_width(draws.leaf[~splits])
    num_splits = int(np.count_nonzero(splits))
    num_bits = draws.num_nodes + leaves_bits
    num_bits += num_splits * (packing.CUT_BITS + packing.SIDE_BITS + feature_bits)
    words = np.zeros((num_bits + 63) // 64 + 1, dtype=np.uint64)
    written = packing.encode_trees(
        words,
        num_bits,
        np.require(draws.feature, np.int32, ["C", "W"]),
        np.require(draws.cut, np.uint8, ["C", "W"]),
        np.require(draws.missing_left, np.uint8, ["C", "W"]),
        np.require(draws.leaf, np.int32, ["C", "W"]),
        feature_bits,
        leaf_bits,
    )
    assert written == num_bits
    head = HEAD.pack(
        MAGIC,
        VERSION,
        kind,
        feature_bits,
        leaf_bits,
        0,
        draws.num_draws,
        draws.num_trees,
        draws.num_nodes,
        num_bits,
    )
    body = draws.sigma.astype("<f8").tobytes() + words[:-1].astype("<u8").tobytes()
    return seal(head, body + more)


def _leaf_width(leaf: np.ndarray[tuple[int], np.dtype[np.int32]]) -> tuple[int, int]:
    """Choose the bits per leaf that make the block smallest; return them with the bits of all leaves."""
    wide = leaf.astype(np.int64)
    folded = (wide << 1) ^ (wide >> 63)
    lengths = np.bincount(np.frexp(folded + 1)[1], minlength=packing.RAW_BITS + 2)  # a value of k bits: k
    longer = len(folded) - np.cumsum(lengths)  # folded values of which value + 1 needs more bits are escaped
    sizes = {
        bits: len(folded) * bits + int(longer[bits]) * packing.RAW_BITS
        for bits in range(1, packing.RAW_BITS + 1)
    }
    best = min(sizes, key=lambda bits: sizes[bits])
    return best, sizes[best]


def unpack_trees(data: bytes, kind: int) -> tuple[Draws, bytes]:
    """Decode a block of that kind exactly; return the draws, and what follows their trees.

    Raises
    ------
    PackedError
        For a block of another kind, of a newer format, or damaged.

    """
    *_, feature_bits, leaf_bits, _, num_draws, num_trees, num_nodes, num_bits = fields_of(data, HEAD, kind)
    num_words = (num_bits + 63) // 64
    more = len(data) - HEAD.size - 8 * (num_draws + num_words)
    # every node takes at least two bits, so these checks also bound what a forged head can allocate
    if more < 0 or num_nodes > num_bits or num_draws * num_trees > num_nodes or not 1 <= leaf_bits <= 32:
        raise PackedError("the block of draws is damaged: its sizes contradict each other")
    if feature_bits > 31:
        raise PackedError("the block of draws is damaged: its widths are out of range")
    sigma_end = HEAD.size + 8 * num_draws
    words = np.zeros(num_words + 1, dtype=np.uint64)
    words[:-1] = np.frombuffer(data, "<u8", num_words, sigma_end)
    draws = Draws(
        num_trees=num_trees,
        sigma=np.frombuffer(data, "<f8", num_draws, HEAD.size).astype(np.float64),
        tree_start=np.empty(num_draws * num_trees + 1, dtype=np.int64),
        feature=np.empty(num_nodes, dtype=np.int32),
        cut=np.empty(num_nodes, dtype=np.uint8),
        missing_left=np.empty(num_nodes, dtype=np.uint8),
        leaf=np.empty(num_nodes, dtype=np.int32),
    )
    status = packing.decode_trees(
        words,
        num_bits,
        feature_bits,
        leaf_bits,
        draws.tree_start,
        draws.feature,
        draws.cut,
        draws.missing_left,
        draws.leaf,
    )
    if status != packing.DONE:
        raise PackedError("the block of draws is damaged: its trees are inconsistent")
    return draws, data[len(data) - more :]
