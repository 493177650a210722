"""Checkpoints of single-tree chains: a head that identifies training data and chain, then arrays in order."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import PackedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sampler.training import Training

HEAD = struct.Struct("<4sIII")  # magic, checksum of what follows it, fingerprint, chain
MAGIC = b"BST1"


def write(training: Training, chain: int, arrays: Sequence[np.ndarray[Any, Any]]) -> bytes:
    """Encode arrays as a checkpoint that `read` decodes."""
    parts = []
    for array in arrays:
        values = np.ascontiguousarray(array)
        shape = struct.pack(f"<2sB{values.ndim}q", values.dtype.str[1:].encode(), values.ndim, *values.shape)
        parts += [shape, values.tobytes()]
    body = zlib.compress(b"".join(parts), 1)
    rest = struct.pack("<II", training.fingerprint, chain)
    return MAGIC + struct.pack("<I", zlib.crc32(rest + body)) + rest + body


def read(training: Training, checkpoint: bytes) -> tuple[int, list[np.ndarray[Any, Any]]]:
    """Decode a checkpoint: the chain's number and its arrays.

    Raises
    ------
    PackedError
        For damaged checkpoints and those of other data or settings.

    """
    if len(checkpoint) < HEAD.size or not checkpoint.startswith(MAGIC):
        raise PackedError("not a checkpoint of this method, or of another version")
    _, check, owner, chain = HEAD.unpack_from(checkpoint)
    if zlib.crc32(checkpoint[8:]) != check:
        raise PackedError("the checkpoint is damaged")
    if owner != training.fingerprint:
        raise PackedError("the checkpoint belongs to other data or settings")
    body, at = zlib.decompress(checkpoint[HEAD.size :]), 0
    arrays = []
    while at < len(body):
        kind, dimensions = struct.unpack_from("<2sB", body, at)
        shape = struct.unpack_from(f"<{dimensions}q", body, at + 3)
        at += 3 + 8 * dimensions
        array = np.frombuffer(body, kind.decode(), int(np.prod(shape)), at).reshape(shape).copy()
        arrays.append(array)
        at += array.nbytes
    return chain, arrays
