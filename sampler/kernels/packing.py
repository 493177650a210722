"""Trees to bits and back: one stream, read and written from the lowest bit of each 64-bit word up."""

from __future__ import annotations

import numpy as np

from sampler.kernels.arrays import Bytes, Int, Ints, Longs, Words
from sampler.kernels.jit import kernel

DONE, TOO_SHORT, BAD_SHAPE, BAD_NUMBERS = 0, 1, 2, 3
CUT_BITS, SIDE_BITS, RAW_BITS = 8, 1, 32


@kernel(entry=True)
def encode_trees(
    words: Words,
    num_bits: Int,
    feature: Ints,
    cut: Bytes,
    missing_left: Bytes,
    leaf: Ints,
    feature_bits: Int,
    leaf_bits: Int,
) -> Int:
    """Write every node into zeroed words; return the bits written, or -1 if they would pass `num_bits`."""
    escape = (np.uint64(1) << np.uint64(leaf_bits)) - np.uint64(1)
    position = 0
    for node in range(len(feature)):
        extra = np.uint64(0)
        extra_bits = 0
        if feature[node] >= 0:
            side = np.uint64(missing_left[node]) << np.uint64(CUT_BITS)
            rule = np.uint64(feature[node]) << np.uint64(CUT_BITS + SIDE_BITS) | side | np.uint64(cut[node])
            value = rule << np.uint64(1) | np.uint64(1)
            bits = 1 + SIDE_BITS + CUT_BITS + feature_bits
        else:
            signed = np.int64(leaf[node])
            folded = np.uint64((signed << 1) ^ (signed >> 63))  # 0, -1, 1, -2, ... as 0, 1, 2, 3, ...
            value = min(folded, escape) << np.uint64(1)
            bits = 1 + leaf_bits
            if folded >= escape:
                extra = folded
                extra_bits = RAW_BITS
        if position + bits + extra_bits > num_bits:
            return -1
        for part in range(2):
            if part == 1:
                value, bits = extra, extra_bits
            if bits > 0:
                word, shift = position >> 6, position & 63
                words[word] |= value << np.uint64(shift)
                if shift + bits > 64:
                    words[word + 1] |= value >> np.uint64(64 - shift)
                position += bits
    return position


@kernel(entry=True)
def decode_trees(
    words: Words,
    num_bits: Int,
    feature_bits: Int,
    leaf_bits: Int,
    tree_start: Longs,
    feature: Ints,
    cut: Bytes,
    missing_left: Bytes,
    leaf: Ints,
) -> Int:
    """Fill the arrays of `Draws` from the stream, whatever it holds; `words` has one word to spare.

    DONE, or why not: the stream ends too soon, or doesn't hold this many trees of this many nodes.
    """
    escape = (np.uint64(1) << np.uint64(leaf_bits)) - np.uint64(1)
    one, all_cuts = np.uint64(1), np.uint64(255)
    rule_bits = 1 + SIDE_BITS + CUT_BITS + feature_bits
    feature_mask = (one << np.uint64(feature_bits)) - one
    num_nodes, num_trees = len(feature), len(tree_start) - 1
    position, node = 0, 0
    for tree in range(num_trees):
        tree_start[tree] = node
        unfinished = 1  # subtrees of this tree still to be read
        while unfinished > 0:
            if node >= num_nodes or position >= num_bits:
                return BAD_SHAPE if node >= num_nodes else TOO_SHORT
            word, shift = position >> 6, position & 63
            value = words[word] >> np.uint64(shift)
            if shift > 0:
                value |= words[word + 1] << np.uint64(64 - shift)
            if value & one:
                value >>= one
                feature[node] = np.int32((value >> np.uint64(CUT_BITS + SIDE_BITS)) & feature_mask)
                missing_left[node] = np.uint8((value >> np.uint64(CUT_BITS)) & one)
                cut[node] = np.uint8(value & all_cuts)
                leaf[node] = 0
                position += rule_bits
                unfinished += 1
            else:
                folded = (value >> one) & escape
                position += 1 + leaf_bits
                if folded == escape:
                    if position + RAW_BITS > num_bits:
                        return TOO_SHORT
                    word, shift = position >> 6, position & 63
                    folded = words[word] >> np.uint64(shift)
                    if shift > 0:
                        folded |= words[word + 1] << np.uint64(64 - shift)
                    folded &= np.uint64(0xFFFFFFFF)
                    position += RAW_BITS
                signed = np.int64(folded >> one)
                leaf[node] = np.int32(-signed - 1 if folded & one else signed)
                feature[node] = -1
                cut[node] = 0
                missing_left[node] = 0
                unfinished -= 1
            node += 1
            if position > num_bits:
                return TOO_SHORT
    tree_start[num_trees] = node
    return DONE if node == num_nodes and position == num_bits else BAD_NUMBERS
