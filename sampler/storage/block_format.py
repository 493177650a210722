"""Blocks of draws: what their heads share, and the codec of each kind by name."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from sampler.errors import PackedError

MAGIC = b"BDRW"
VERSION = 1
SHARP_TREES, SOFT_TREES, SINGLE_TREES, FORESTS = 1, 2, 3, 4
CODECS = {
    SHARP_TREES: "sampler.storage.sharp_codec",
    SOFT_TREES: "sampler.trees.soft.codec",
    SINGLE_TREES: "sampler.trees.cart.codec",
    FORESTS: "sampler.storage.forest_codec",
}
HEAD = struct.Struct("<4sBBBBIIIQQ")  # of all kinds but soft trees
SIZES = (6, 7, 8)  # places of draws, trees of a draw and nodes in it
_CHECKSUM = struct.Struct("<I")  # at byte 8, of the bytes before and after it


def kind_of(data: bytes) -> int:
    """Return the kind of a block; raise PackedError for what isn't one that this version knows."""
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise PackedError("this is not a block of draws")
    if data[5] not in CODECS:
        raise PackedError(f"the block of draws has kind {data[5]}; this version reads 1 to {max(CODECS)}")
    return data[5]


def seal(head: bytes, body: bytes) -> bytes:
    """Return the block of a head, whose checksum is 0, and a body."""
    return head[:8] + _CHECKSUM.pack(_checksum(head, body)) + head[12:] + body


def fields_of(data: bytes, head: struct.Struct, kind: int) -> tuple[Any, ...]:
    """Return the fields of a head after the checksum.

    Raises
    ------
    PackedError
        For a block of another kind, of a newer format, or damaged.

    """
    if len(data) < head.size or not data.startswith(MAGIC):
        raise PackedError("this is not a block of draws")
    fields = head.unpack_from(data)
    if fields[1] > VERSION or fields[2] != kind:
        raise PackedError(
            f"the block of draws has format {fields[1]}, kind {fields[2]}; this version reads "
            f"up to {VERSION}, here of kind {kind}"
        )
    if _CHECKSUM.unpack_from(data, 8)[0] != _checksum(data[: head.size], data[head.size :]):
        raise PackedError("the block of draws is damaged: its checksum doesn't match")
    return fields


def _checksum(head: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(head[12:], zlib.crc32(head[:8])))
