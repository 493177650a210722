"""Checkpoints: a chain's state between two iterations as bytes, with a checksum and bound to its training."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.bart.kernels.state import GRID_LIMIT, GROWABLE, Forest
from sampler.errors import PackedError
from sampler.kernels.arrays import ABSENT, BYTE_LEAVES, MISSING, Data
from sampler.moves import MOVE_NAMES
from sampler.training import Training

MAGIC = b"BSC2"
LARGEST = 1e100  # of a state's numbers
HEADER = struct.Struct("<4sIIIqqqi")  # magic, checksum, fingerprint, chain, iteration, kept, room, moves


def write_checkpoint(training: Training, numbers: tuple[int, int, int, int], body: bytes) -> bytes:
    """Pack `numbers` (chain, iteration, kept draws, room for leaves) and the bytes of the arrays."""
    packed = zlib.compress(body, 1)
    fields = (training.fingerprint, *numbers, len(MOVE_NAMES))
    check = zlib.crc32(HEADER.pack(MAGIC, 0, *fields) + packed)
    return HEADER.pack(MAGIC, check, *fields) + packed


def read_checkpoint(checkpoint: bytes, training: Training) -> tuple[tuple[int, int, int, int], bytes]:
    """Return the numbers and bytes that `write_checkpoint` was given.

    Raises
    ------
    PackedError
        For bytes that are damaged, of another version, or taken of other data or settings.

    """
    if len(checkpoint) < HEADER.size or checkpoint[:4] != MAGIC:
        raise PackedError("not a checkpoint, or of another version")
    magic, check, *fields = HEADER.unpack_from(checkpoint)
    packed = checkpoint[HEADER.size :]
    if zlib.crc32(HEADER.pack(magic, 0, *fields) + packed) != check or fields[-1] != len(MOVE_NAMES):
        raise PackedError("the checkpoint is damaged or of another version")
    fingerprint, chain, iteration, num_kept, capacity, _ = fields
    if fingerprint != training.fingerprint:
        raise PackedError("the checkpoint belongs to other data or settings")
    try:
        return (chain, iteration, num_kept, capacity), zlib.decompress(packed)
    except zlib.error as error:
        raise PackedError("the checkpoint is damaged") from error


def check_sizes(num_leaves: NDArray[np.int32], capacity: int, num_rows: int, least: int = 1) -> None:
    """Check trees' numbers of leaves, none of which is without rows; `least` is 0 where trees may be absent.

    Raises PackedError.
    """
    if not least <= num_leaves.min() <= num_leaves.max() <= min(capacity, num_rows):
        raise PackedError("the checkpoint's trees have impossible sizes: it is damaged or of another version")


def check_trees(forest: Forest, num_columns: int) -> None:
    """Check that each tree's splits and leaves hang together as kernels rely on; raise PackedError."""
    counts = np.maximum(forest.num_leaves, 1)  # an absent tree has the first one
    for count, nodes, slots in zip(counts.tolist(), forest.node, forest.leaf, strict=True):
        splits, leaves = nodes[: count - 1].tolist(), slots[:count].tolist()
        waiting, seen = [(0 if count > 1 else ~0, ABSENT, 0)], set[int]()
        while waiting:
            at, parent, depth = waiting.pop()
            fits = at not in seen and -count <= at < count - 1
            seen.add(at)
            if fits and at >= 0:
                feature, cut, side, left, right, above = splits[at]
                fits = 0 <= feature < num_columns and 0 <= cut < MISSING and side in (0, 1)
                fits = fits and above == parent
                waiting += [(left, at, depth + 1), (right, at, depth + 1)]
            elif fits:
                value, above, level, growable = leaves[~at]
                fits = (above, level) == (parent, depth) and growable in (0, 1) and abs(value) <= GRID_LIMIT
            if not fits:
                raise PackedError("the checkpoint's trees are none")


def check_leaves(forest: Forest, distinct: NDArray[np.int64]) -> None:
    """Check that leaves have rows, and growable ones two that differ; `distinct` rows are all kinds of rows.

    Raises PackedError for others, of which no further split could be drawn.
    """
    for tree, count in enumerate(np.maximum(forest.num_leaves, 1).tolist()):
        slot = forest.slots[tree, distinct].astype(np.int64)
        if count > BYTE_LEAVES:
            slot += 256 * forest.high[forest.plane[tree], distinct].astype(np.int64)
        kinds = np.bincount(slot, minlength=count)
        if len(kinds) > count or np.any(kinds < 1 + forest.leaf[tree, :count, GROWABLE]):
            raise PackedError("the checkpoint's trees don't part its rows")


def distinct_rows(data: Data) -> NDArray[np.int64]:
    """Choose one row of each kind, by a sum that only equal rows share, but for one in 2^64."""
    factors = np.random.default_rng(0).integers(1, 2**63, len(data.codes), np.uint64) * np.uint64(2) + 1
    key = np.zeros(data.num_rows, np.uint64)
    for factor, column in zip(factors, data.codes, strict=True):
        key += factor * (column[: data.num_rows].astype(np.uint64) + np.uint64(1)) ** np.uint64(3)
    return np.unique(key, return_index=True)[1]


def check_numbers(values: NDArray[Any]) -> None:
    """Check that numbers of a state are finite, and grid steps within the grid; raise PackedError."""
    largest = 4 * GRID_LIMIT if values.dtype == np.int32 else LARGEST
    if not np.all(np.abs(values.astype(np.float64)) <= largest):
        raise PackedError("the checkpoint's numbers are out of range")


class Reader:
    """Reader of arrays one after another from the body of a checkpoint."""

    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0

    def take(self, dtype: Any, count: int) -> np.ndarray[Any, Any]:
        """Take the next `count` values.

        Raises
        ------
        PackedError
            Where there are fewer: an earlier version had no such state.

        """
        if count < 0 or self.at + count * np.dtype(dtype).itemsize > len(self.body):
            raise PackedError("the checkpoint is of another version")
        values = np.frombuffer(self.body, dtype, count, self.at)
        self.at += values.nbytes
        return values
