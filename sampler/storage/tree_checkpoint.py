"""Checkpoints of single-tree chains: a head that identifies training data and chain, then arrays in order."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from sampler.errors import PackedError
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


def read(training: Training, checkpoint: bytes, kinds: str) -> tuple[int, list[np.ndarray[Any, Any]]]:
    """Decode a checkpoint: the chain's number and its arrays.

    Parameters
    ----------
    training
        Data and settings of the chain.
    checkpoint
        What `write` returned.
    kinds
        Kinds of the first arrays and their numbers of dimensions, as in "i8:1 u8:1"; the second is the state
        of the random numbers.

    Returns
    -------
    tuple
        The chain's number and the arrays in their order.

    Raises
    ------
    PackedError
        For damaged checkpoints, those of other data or settings, and arrays of another kind.

    """
    if len(checkpoint) < HEAD.size or not checkpoint.startswith(MAGIC):
        raise PackedError("not a checkpoint of this method, or of another version")
    _, check, owner, chain = HEAD.unpack_from(checkpoint)
    if zlib.crc32(checkpoint[8:]) != check:
        raise PackedError("the checkpoint is damaged")
    if owner != training.fingerprint:
        raise PackedError("the checkpoint belongs to other data or settings")
    try:
        arrays = _arrays(zlib.decompress(checkpoint[HEAD.size :]))
    except (zlib.error, struct.error, ValueError, TypeError, OverflowError) as error:
        raise PackedError("the checkpoint is damaged") from error
    found = [f"{array.dtype.str[1:]}:{array.ndim}" for array in arrays]
    wanted = kinds.split()
    if found[: len(wanted)] != wanted or arrays[0].size < 2 or arrays[1].size != 4 or not arrays[1].any():
        raise PackedError("the checkpoint's arrays are not those of a chain of this method")
    return chain, arrays


def _arrays(body: bytes) -> list[np.ndarray[Any, Any]]:
    """Read arrays one after another; raise ValueError, TypeError or struct.error for others."""
    arrays, at = list[np.ndarray[Any, Any]](), 0
    while at < len(body):
        kind, dimensions = struct.unpack_from("<2sB", body, at)
        if kind[:1] not in b"biuf":
            raise ValueError("an array is not of numbers")
        shape = struct.unpack_from(f"<{dimensions}q", body, at + 3)
        at += 3 + 8 * dimensions
        array = np.frombuffer(body, kind.decode(), math.prod(shape), at).reshape(shape).copy()
        arrays.append(array)
        at += array.nbytes
    return arrays
