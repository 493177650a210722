"""Checkpoints: a chain's state between two iterations as bytes, with a checksum and bound to its training."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import PackedError
from sampler.moves import MOVE_NAMES

if TYPE_CHECKING:
    from sampler.training import Training

MAGIC = b"BSC2"
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
    return (chain, iteration, num_kept, capacity), zlib.decompress(packed)


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
        if self.at + count * np.dtype(dtype).itemsize > len(self.body):
            raise PackedError("the checkpoint is of another version")
        values = np.frombuffer(self.body, dtype, count, self.at)
        self.at += values.nbytes
        return values
