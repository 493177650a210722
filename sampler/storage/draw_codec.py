"""The codec of draws: compact blocks, exact and with checksums, that contain no code.

A block holds consecutive draws of one chain. Format 1, little-endian:

======  =========  =====================================================================================
offset  type       content
======  =========  =====================================================================================
0       4 bytes    the magic ``BDRW``
4       uint8      format version, 1
5       uint8      kind of record: 1, a sum of trees of sharp splits; 3, single trees (2: `soft_draws`; 4:
                   `forest_codec`)
6       uint8      F, bits of a feature number (0 to 31)
7       uint8      L, bits of a leaf value (1 to 32)
8       uint32     CRC-32 of the bytes before and after this field
12      uint32     d, draws
16      uint32     m, trees in a draw
20      uint64     number of nodes
28      uint64     number of bits in the stream
36      float64[]  sigma of each draw
36+8d   uint64[]   the stream, padded with zero bits to whole words
...     float64[]  kind 3 only: the log weight of each draw, then the k values of each leaf
======  =========  =====================================================================================

The stream lists the d * m trees in order, each in pre-order, from the lowest bit of every word up. A split
is 1, then the cut (8 bits), the side of missing values (1 bit, 1: left) and the feature (F bits). A leaf is
0, then its value in grid steps, folded (0, -1, 1, -2 become 0, 1, 2, 3), in L bits; L ones mean that the
folded value follows in 32 bits. L is the width that makes the block smallest.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np

from sampler.errors import PackedError
from sampler.kernels import packing
from sampler.storage.block_format import FORESTS, MAGIC, SHARP_TREES, SINGLE_TREES, SOFT_TREES, VERSION
from sampler.storage.draws import Draws
from sampler.storage.forest_codec import pack_forests, unpack_forests
from sampler.storage.soft_codec import HEAD as SOFT_HEAD
from sampler.storage.soft_codec import pack_soft, unpack_soft
from sampler.storage.soft_draws import SoftDraws

HEAD = struct.Struct("<4sBBBBIIIQQ")


def pack(draws: Draws) -> bytes:
    """Encode draws as one block; equal draws give equal bytes."""
    if isinstance(draws, SoftDraws):
        return pack_soft(draws)
    if draws.forests or draws.scalars:
        return pack_forests(draws, pack)
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
        SHARP_TREES if draws.value is None else SINGLE_TREES,
        feature_bits,
        leaf_bits,
        0,
        draws.num_draws,
        draws.num_trees,
        draws.num_nodes,
        num_bits,
    )
    body = draws.sigma.astype("<f8").tobytes() + words[:-1].astype("<u8").tobytes()
    if draws.value is not None and draws.log_weight is not None:
        body += draws.log_weight.astype("<f8").tobytes() + draws.value.astype("<f8").tobytes()
    return head[:8] + struct.pack("<I", _checksum(head, body)) + head[12:] + body


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


def _checksum(head: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(head[12:], zlib.crc32(head[:8])))


def unpack(data: bytes) -> Draws:
    """Decode a block exactly; raise PackedError when it is not a block, damaged, or of a newer format."""
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise PackedError("this is not a block of draws")
    if data[5] == FORESTS:
        return unpack_forests(data, unpack)
    if data[5] == SOFT_TREES:
        return unpack_soft(data)
    _, version, kind, feature_bits, leaf_bits, checksum, num_draws, num_trees, num_nodes, num_bits = (
        HEAD.unpack_from(data)
    )
    if version > VERSION or kind not in (SHARP_TREES, SINGLE_TREES):
        raise PackedError(
            f"the block of draws has format {version}, kind {kind}; this version reads up to {VERSION}, "
            f"{SHARP_TREES} or {SINGLE_TREES}"
        )
    if _checksum(data[: HEAD.size], data[HEAD.size :]) != checksum:
        raise PackedError("the block of draws is damaged: its checksum doesn't match")
    num_words = (num_bits + 63) // 64
    more = len(data) - HEAD.size - 8 * (num_draws + num_words)
    fits = more == 0 if kind == SHARP_TREES else more >= 0
    # every node takes at least two bits, so these checks also bound what a forged head can allocate
    if not fits or num_nodes > num_bits or num_draws * num_trees > num_nodes or not 1 <= leaf_bits <= 32:
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
    return draws if kind == SHARP_TREES else _with_values(draws, data[len(data) - more :])


def sizes(data: bytes) -> tuple[int, int, int]:
    """Read the numbers of draws, trees per draw and nodes from a block's head; raise PackedError."""
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise PackedError("this is not a block of draws")
    head = HEAD.unpack_from(data)
    if head[2] == SOFT_TREES:
        if len(data) < SOFT_HEAD.size:
            raise PackedError("the block of draws is damaged: its head is cut short")
        head = SOFT_HEAD.unpack_from(data)
        return head[5], head[6], head[9]
    return head[6], head[7], head[8]


def _with_values(draws: Draws, data: bytes) -> Draws:
    """Add the log weights and leaf values in `data` to the draws of single trees."""
    num_leaves = (draws.num_nodes + draws.num_draws) // 2
    room = len(data) - 8 * draws.num_draws
    if draws.num_trees != 1 or not num_leaves or room <= 0 or room % (8 * num_leaves):
        raise PackedError("the block of draws is damaged: its sizes contradict each other")
    numbers = np.frombuffer(data, "<f8").astype(np.float64)
    if np.any(draws.leaf) or not np.all(np.isfinite(numbers)):
        raise PackedError("the block of draws is damaged: its leaves are not finite numbers")
    return replace(
        draws,
        value=numbers[draws.num_draws :].reshape(num_leaves, -1),
        log_weight=numbers[: draws.num_draws],
    )
