"""Blocks of draws of several forests, or with scalars besides sigma: kind 4 of `sampler.storage.draw_codec`.

Little-endian:

======  =========  =====================================================================================
offset  type       content
======  =========  =====================================================================================
0       4 bytes    the magic ``BDRW``
4       uint8      format version, 1
5       uint8      kind of record: 4
6       uint8      F, forests
7       uint8      S, scalars besides sigma: 255 stands for as many or more, as the names tell
8       uint32     CRC-32 of the bytes before and after this field
12      uint32     d, draws
16      uint32     m, trees of all forests in a draw
20      uint64     number of nodes
28      uint64     T, bytes of the names
36      bytes      names of the scalars and of all forests but the first, UTF-8, each ended by a zero byte
36+T    float64[]  the scalars of each draw, one scalar after the other
...                for each forest: uint64, the bytes of its block; its block, of kind 1
======  =========  =====================================================================================
"""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np

from sampler.errors import PackedError
from sampler.storage import sharp_codec
from sampler.storage.block_format import FORESTS, HEAD, MAGIC, SHARP_TREES, SIZES, VERSION, fields_of, seal
from sampler.storage.draws import Draws

__all__ = ["HEAD", "SIZES", "pack", "unpack"]

LENGTH = struct.Struct("<Q")
MANY = 255


def pack(draws: Draws) -> bytes:
    """Encode draws as one block; equal draws give equal bytes."""
    forests = [replace(draws, scalars={}, forests={}), *draws.forests.values()]
    names = "".join(f"{name}\0" for name in (*draws.scalars, *draws.forests)).encode()
    body = names + b"".join(values.astype("<f8").tobytes() for values in draws.scalars.values())
    for forest in forests:
        assert forest.kind == SHARP_TREES
        block = sharp_codec.pack(forest)
        body += LENGTH.pack(len(block)) + block
    head = HEAD.pack(
        MAGIC, VERSION, FORESTS, len(forests), min(len(draws.scalars), MANY), 0, draws.num_draws,
        sum(forest.num_trees for forest in forests), sum(forest.num_nodes for forest in forests), len(names),
    )  # fmt: skip
    return seal(head, body)


def unpack(data: bytes) -> Draws:
    """Decode a block exactly.

    Raises
    ------
    PackedError
        For bytes that are damaged, or whose parts don't belong together.

    """
    _, _, _, num_forests, few, _, num_draws, num_trees, num_nodes, text = fields_of(data, HEAD, FORESTS)
    names = data[HEAD.size : HEAD.size + text].decode(errors="replace").split("\0")[:-1]
    num_scalars = len(names) + 1 - num_forests
    at = HEAD.size + text + 8 * num_draws * num_scalars
    counted = min(num_scalars, MANY) == few and len({*names}) == len(names)
    if len(data) < at or num_forests < 1 or not counted:
        raise PackedError("the block of draws is damaged: its sizes contradict each other")
    numbers = np.frombuffer(data, "<f8", num_draws * num_scalars, HEAD.size + text).astype(np.float64)
    forests = []
    for _ in range(num_forests):
        size = LENGTH.unpack_from(data, at)[0] if len(data) >= at + LENGTH.size else 0
        block = data[at + LENGTH.size : at + LENGTH.size + size]
        if len(block) < HEAD.size or len(block) != size or block[5] != SHARP_TREES:
            raise PackedError("the block of draws is damaged: its forests are inconsistent")
        forests.append(sharp_codec.unpack(block))
        at += LENGTH.size + size
    fits = (
        at == len(data)
        and all(forest.num_draws == num_draws for forest in forests)
        and sum(forest.num_trees for forest in forests) == num_trees
        and sum(forest.num_nodes for forest in forests) == num_nodes
        and bool(np.all(np.isfinite(numbers)))
    )
    if not fits:
        raise PackedError("the block of draws is damaged: its forests are inconsistent")
    return replace(
        forests[0],
        scalars=dict(zip(names, numbers.reshape(num_scalars, num_draws), strict=False)),
        forests=dict(zip(names[num_scalars:], forests[1:], strict=True)),
    )
