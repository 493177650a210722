"""Codec of soft-split draws; the table of the format is in `sampler.trees.soft.draws`."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from sampler.errors import PackedError
from sampler.storage.block_format import MAGIC, SOFT_TREES, VERSION, fields_of, seal
from sampler.trees.soft.draws import SoftDraws

HEAD = struct.Struct("<4sBBHIIIIIQd")
SIZES = (5, 6, 9)  # places of draws, trees of a draw and nodes in it
MOST_NODES = 1 << 32  # largest number of nodes in a head, so that no size computed from it overflows


def pack(draws: SoftDraws) -> bytes:
    """Encode draws as one block; equal draws give equal bytes."""
    value, log_weight = draws.part("value"), draws.part("log_weight")
    head = HEAD.pack(
        MAGIC,
        VERSION,
        SOFT_TREES,
        0,
        0,
        len(draws.sigma),
        draws.num_trees,
        draws.direction.shape[1],
        value.shape[1],
        len(draws.is_split),
        draws.sharpness,
    )
    shape = np.packbits(draws.is_split, bitorder="little").tobytes()
    before, after = (draws.sigma, log_weight), (draws.threshold, draws.direction, value)
    body = b"".join([*map(_bytes, before), shape, *map(_bytes, after)])
    return seal(head, body)


def unpack(data: bytes) -> SoftDraws:
    """Decode a block exactly; raise PackedError when it is not a block, damaged, or of a newer format."""
    *_, d, m, p, k, n, sharpness = fields_of(data, HEAD, SOFT_TREES)
    if n > MOST_NODES or len(data) < HEAD.size + 16 * d + (n + 7) // 8:
        raise PackedError("the block of draws is damaged: its sizes contradict each other")
    reader = _Reader(data)
    sigma, log_weight = reader.floats(d), reader.floats(d)
    is_split = reader.bits(n)
    splits = int(np.count_nonzero(is_split))
    if len(data) != reader.at + 8 * (splits * (1 + p) + (n - splits) * k):
        raise PackedError("the block of draws is damaged: its sizes contradict each other")
    threshold, direction = reader.floats(splits), reader.floats(splits * p).reshape(splits, p)
    value = reader.floats((n - splits) * k).reshape(n - splits, k)
    numbers = (sigma, log_weight, threshold, direction, value)
    if not 0 < sharpness < np.inf or not all(np.all(np.isfinite(each)) for each in numbers):
        raise PackedError("the block of draws is damaged: its parameters are not finite numbers")
    return SoftDraws.from_parts(
        num_trees=m,
        sharpness=sharpness,
        sigma=sigma,
        log_weight=log_weight,
        is_split=is_split,
        threshold=threshold,
        direction=direction,
        value=value,
    )


class _Reader:
    """Reader of the arrays that follow the head of a block."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, HEAD.size

    def floats(self, count: int) -> NDArray[np.float64]:
        values = np.frombuffer(self.data, "<f8", count, self.at).astype(np.float64)
        self.at += 8 * count
        return values

    def bits(self, count: int) -> NDArray[np.bool_]:
        raw = np.frombuffer(self.data, np.uint8, (count + 7) // 8, self.at)
        self.at += len(raw)
        return np.unpackbits(raw, count=count, bitorder="little").astype(bool)


def _bytes(values: NDArray[np.float64]) -> bytes:
    return np.ascontiguousarray(values, "<f8").tobytes()
