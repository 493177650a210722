"""Draws of trees with soft splits, and their record: the second kind of `draw_codec`'s blocks.

A row goes right at a split with probability 1 / (1 + exp(-(x . direction - threshold) / sharpness)); Linero
and Yang (2018), Cochrane, Wills and Johnson (2023). Everything is kept as sampled, in float64. Little-endian:

======  =========  =====================================================================================
offset  type       what
======  =========  =====================================================================================
0       4 bytes    the magic ``BDRW``
4       uint8      format version, 1
5       uint8      kind of record: 2, trees of soft splits
6       uint16     0
8       uint32     CRC-32 of the bytes before and after this field
12      uint32     d, draws
16      uint32     m, trees in a draw
20      uint32     p, features of a direction
24      uint32     k, values of a leaf (1 for a mean; a count for each class)
28      uint64     n, nodes in all
36      float64    sharpness
44      float64[]  sigma of each draw, then the log weight of each draw
...     bytes      n bits, 1 for a split, trees in pre-order, from the lowest bit of every byte up
...     float64[]  threshold of each split, direction [split, p], value [leaf, k]
======  =========  =====================================================================================
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import PackedError
from sampler.storage.draw_codec import MAGIC, SOFT_TREES, VERSION
from sampler.storage.draws import LEAF, Draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

HEAD = struct.Struct("<4sBBHIIIIIQd")
MOST_NODES = 1 << 32  # sizes a head may name, so that none overflows
PARTS = ("sigma", "log_weight", "is_split", "threshold", "direction", "value")


@dataclass(frozen=True, eq=False)
class SoftDraws(Draws):
    """Kept draws of soft trees, in order; make them with `made`.

    Beside what any draws have (`feature` of a split is the column that weighs most, cuts and sides mean
    nothing, `value` and `log_weight` are always there):

    Attributes
    ----------
    sharpness
        The width h of every split, in units of the scaled features.
    threshold, direction
        Float64 [split] and [split, feature], for the splits in order.

    """

    sharpness: float = 1.0
    threshold: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    direction: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def made(
        cls,
        *,
        num_trees: int,
        sharpness: float,
        sigma: NDArray[np.float64],
        log_weight: NDArray[np.float64],
        is_split: NDArray[np.bool_],
        threshold: NDArray[np.float64],
        direction: NDArray[np.float64],
        value: NDArray[np.float64],
    ) -> SoftDraws:
        """Draws of their parts, `is_split` bool [node]; raises PackedError for parts that don't fit."""
        ends = tree_ends(is_split)
        splits, nodes = int(np.count_nonzero(is_split)), len(is_split)
        fits = (
            sigma.shape == log_weight.shape
            and threshold.shape == (splits,)
            and len(direction) == splits
            and len(value) == nodes - splits
            and len(ends) == len(sigma) * num_trees
        )
        if not fits:
            raise PackedError("the parts of the soft draws don't belong together")
        feature = np.full(nodes, LEAF, np.int32)
        feature[is_split] = direction.argmax(axis=1) if splits else 0
        return cls(
            num_trees=num_trees,
            sigma=sigma,
            tree_start=np.concatenate([np.zeros(1, np.int64), ends + 1]),
            feature=feature,
            cut=np.zeros(nodes, np.uint8),
            missing_left=np.zeros(nodes, np.uint8),
            leaf=np.zeros(nodes, np.int32),
            value=value,
            log_weight=log_weight,
            sharpness=sharpness,
            threshold=threshold,
            direction=direction,
        )

    @classmethod
    def joined(cls, parts: Sequence[SoftDraws]) -> SoftDraws:
        """The draws of several blocks of one chain, in order; raises PackedError for widths that differ."""
        if len({part.sharpness for part in parts}) > 1:
            raise PackedError("the blocks of soft draws have splits of different sharpness")
        return cls.made(
            num_trees=parts[0].num_trees,
            sharpness=parts[0].sharpness,
            **{name: np.concatenate([part.part(name) for part in parts]) for name in PARTS},
        )

    @property
    def is_split(self) -> NDArray[np.bool_]:
        """Bool [node]."""
        return self.feature >= 0

    def part(self, name: str) -> NDArray[Any]:
        """One of `PARTS`."""
        found: NDArray[Any] = getattr(self, name)
        return found

    def __getitem__(self, draws: slice) -> SoftDraws:
        """The draws of a contiguous slice (step 1), as views."""
        plain = super().__getitem__(draws)
        start = draws.indices(self.num_draws)[0]
        first = int(self.tree_start[start * self.num_trees])
        before = (first - start * self.num_trees) // 2  # a binary tree of k nodes has (k - 1) / 2 splits
        splits = slice(before, before + int(np.count_nonzero(plain.feature >= 0)))
        shared = {each.name: getattr(plain, each.name) for each in fields(Draws)}
        return SoftDraws(
            **shared,
            sharpness=self.sharpness,
            threshold=self.threshold[splits],
            direction=self.direction[splits],
        )

    def __eq__(self, other: object) -> bool:
        """Equal when every array is."""
        if not isinstance(other, SoftDraws):
            return NotImplemented
        alike = (self.num_trees, self.sharpness) == (other.num_trees, other.sharpness)
        return alike and all(np.array_equal(self.part(name), other.part(name)) for name in PARTS)

    __hash__ = None


def tree_ends(is_split: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The last node of each tree, int64 [tree]; raises PackedError when the last tree has no end."""
    # Every split opens one subtree more, every leaf closes one: a tree ends at each new lowest count.
    still_open = np.cumsum(np.where(is_split, 1, -1))
    lowest = np.minimum.accumulate(np.minimum(still_open, 0))
    ends: NDArray[np.int64] = np.flatnonzero(np.diff(lowest, prepend=0) < 0)
    if len(still_open) and (len(ends) == 0 or ends[-1] != len(still_open) - 1):
        raise PackedError("the last soft tree has no end")
    return ends


def pack_soft(draws: SoftDraws) -> bytes:
    """The draws as one block; the same draws give the same bytes."""
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
    return head[:8] + struct.pack("<I", _checksum(head, body)) + head[12:] + body


def unpack_soft(data: bytes) -> SoftDraws:
    """The draws of a block, exactly as packed; raises PackedError when it is none, damaged or newer."""
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise PackedError("this is no block of draws")
    _, version, kind, _, checksum, d, m, p, k, n, sharpness = HEAD.unpack_from(data)
    if version > VERSION or kind != SOFT_TREES:
        raise PackedError(
            f"the block of draws has format {version}, kind {kind}, not {VERSION}, {SOFT_TREES}"
        )
    if _checksum(data[: HEAD.size], data[HEAD.size :]) != checksum:
        raise PackedError("the block of draws is damaged: its checksum doesn't fit")
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
        raise PackedError("the block of draws is damaged: its parameters are no numbers")
    return SoftDraws.made(
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
    """Arrays one after another, from behind the head."""

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


def _checksum(head: bytes, body: bytes) -> Any:
    return zlib.crc32(body, zlib.crc32(head[12:], zlib.crc32(head[:8])))
