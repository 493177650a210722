"""Draws of trees with soft splits, and the format of their blocks.

A row goes right at a split with probability 1 / (1 + exp(-(x . direction - threshold) / sharpness)); Linero
and Yang (2018), Cochrane, Wills and Johnson (2023). Everything is kept as sampled, in float64. The blocks are
the second kind of `sampler.storage.draw_codec`, little-endian:

======  =========  =====================================================================================
offset  type       content
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
28      uint64     n, number of nodes
36      float64    sharpness
44      float64[]  sigma of each draw, then the log weight of each draw
...     bytes      n bits, 1 for a split, trees in pre-order, from the lowest bit of every byte up
...     float64[]  threshold of each split, direction [split, p], value [leaf, k]
======  =========  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.errors import PackedError
from sampler.storage.block_format import SOFT_TREES
from sampler.storage.draws import LEAF, Draws

PARTS = ("sigma", "log_weight", "is_split", "threshold", "direction", "value")


@dataclass(frozen=True, eq=False)
class SoftDraws(Draws):
    """Kept draws of soft trees, in order; `made` builds them.

    The attributes of `Draws` are present, with these differences: `feature` of a split is the column with the
    largest weight, `cut` and `missing_left` have no meaning, `value` and `log_weight` are never None.

    Attributes
    ----------
    sharpness
        Width h of every split, in units of the scaled features.
    threshold, direction
        float64 [split] and [split, feature], for the splits in order.

    """

    sharpness: float = 1.0
    threshold: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    direction: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def from_parts(
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
        """Build draws from their parts.

        Parameters
        ----------
        num_trees
            Number of trees in a draw.
        sharpness
            Width h of every split.
        sigma, log_weight
            float64 [draw].
        is_split
            bool [node], trees in pre-order.
        threshold, direction
            float64 [split] and [split, feature].
        value
            float64 [leaf, k].

        Returns
        -------
        SoftDraws
            The draws.

        Raises
        ------
        PackedError
            For parts whose sizes contradict each other.

        """
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
            raise PackedError("the parts of the soft draws contradict each other")
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
    def join(cls, parts: Sequence[SoftDraws]) -> SoftDraws:
        """Join the draws of several blocks of one chain; raise PackedError where their sharpness differs."""
        if len({part.sharpness for part in parts}) > 1:
            raise PackedError("the blocks of soft draws have splits of different sharpness")
        return cls.from_parts(
            num_trees=parts[0].num_trees,
            sharpness=parts[0].sharpness,
            **{name: np.concatenate([part.part(name) for part in parts]) for name in PARTS},
        )

    @property
    def kind(self) -> int:
        """Kind of their blocks."""
        return SOFT_TREES

    @property
    def is_split(self) -> NDArray[np.bool_]:
        """Whether each node is a split, bool [node]."""
        return self.feature >= 0

    def part(self, name: str) -> NDArray[Any]:
        """Return the array of that name, one of `PARTS`."""
        part: NDArray[Any] = getattr(self, name)
        return part

    def __getitem__(self, draws: slice) -> SoftDraws:
        """Return the draws of a contiguous slice (step 1), as views."""
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
        """Compare all arrays."""
        if not isinstance(other, SoftDraws):
            return NotImplemented
        alike = (self.num_trees, self.sharpness) == (other.num_trees, other.sharpness)
        return alike and all(np.array_equal(self.part(name), other.part(name)) for name in PARTS)

    __hash__ = None


def tree_ends(is_split: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Find the last node of each tree, int64 [tree]; raise PackedError when the last tree is incomplete."""
    # A split opens one more subtree, a leaf closes one: a tree ends at each new minimum of the open count.
    still_open = np.cumsum(np.where(is_split, 1, -1))
    lowest = np.minimum.accumulate(np.minimum(still_open, 0))
    ends: NDArray[np.int64] = np.flatnonzero(np.diff(lowest, prepend=0) < 0)
    if len(still_open) and (len(ends) == 0 or ends[-1] != len(still_open) - 1):
        raise PackedError("the last soft tree is incomplete")
    return ends
