"""Draws arranged for prediction, and the sums of their trees at encoded rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sampler import interrupt
from sampler.errors import PackedError
from sampler.posterior.kernels import tree_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.storage.draws import Draws

FEW_ROWS = 12  # up to this number, evaluating row by row is faster
HALF = 1 << 16


class Ensemble:
    """Draws of all chains, one chain after the other, arranged for prediction.

    Raises PackedError when a split uses a column that doesn't exist.
    """

    def __init__(self, chains: Sequence[Draws], num_features: int) -> None:
        self.num_draws = sum(draws.num_draws for draws in chains)
        self.num_features = num_features
        if num_features > tree_sums.MAX_FEATURES:
            raise PackedError(f"the model has more than {tree_sums.MAX_FEATURES} columns")
        for draws in chains:
            if int(draws.feature.max(initial=-1)) >= num_features:
                raise PackedError("the draws split on columns that the model doesn't have")
        leaves = [draws.leaf for draws in chains]
        if _fits(chains):
            self._parts = [(1, _sort(chains, leaves))]
        else:  # sums that may overflow int32 are made of two halves that can't
            self._parts = [
                (HALF, _sort(chains, [leaf >> 16 for leaf in leaves])),
                (1, _sort(chains, [leaf & (HALF - 1) for leaf in leaves])),
            ]

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return sum(array.nbytes for _, part in self._parts for array in part)

    def sums(
        self, codes: NDArray[np.uint8], draws: NDArray[np.int64] | None = None
    ) -> NDArray[np.int32] | NDArray[np.int64]:
        """Sum the trees of each draw at encoded rows.

        Parameters
        ----------
        codes
            uint8 [feature, row].
        draws
            Positions of the draws, int64; None takes all.

        Returns
        -------
        NDArray
            Sums in grid steps [draw, row], int32, or int64 where these could overflow.

        Raises
        ------
        InterruptedWorkError
            When the computation was cancelled (`sampler.interrupt`).

        """
        if codes.shape[0] != self.num_features:
            msg = f"rows have {codes.shape[0]} codes, the model has {self.num_features}"
            raise ValueError(msg)
        interrupt.look()
        codes = np.require(codes, np.uint8, ["C", "W"])
        chosen = np.arange(self.num_draws) if draws is None else np.require(draws, np.int64, ["C", "W"])
        (scale, first), *rest = self._parts
        if not rest:
            return _sums(first, codes, chosen)
        total = scale * _sums(first, codes, chosen).astype(np.int64)
        for _, part in rest:
            total += _sums(part, codes, chosen)
        return total


def _fits(chains: Sequence[Draws]) -> bool:
    """Tell whether every possible sum of one leaf per tree fits int32."""
    for draws in chains:
        largest = np.maximum.reduceat(np.abs(draws.leaf.astype(np.int64)), draws.tree_start[:-1])
        if largest.reshape(draws.num_draws, -1).sum(axis=1).max(initial=0) >= 2**31:
            return False
    return True


def _sort(chains: Sequence[Draws], leaves: Sequence[NDArray[np.int32]]) -> tree_sums.SortedTrees:
    counts = []
    for draws in chains:
        count = np.empty((draws.num_draws, tree_sums.NUM_SHAPES), dtype=np.int64)
        tree_sums.count_shapes(draws.tree_start, draws.num_trees, draws.feature, count)
        counts.append(count)
    start = np.zeros((sum(map(len, counts)) + 1, tree_sums.NUM_SHAPES), dtype=np.int64)
    np.cumsum(np.concatenate(counts), axis=0, out=start[1:])
    into = _room(start)
    first = 0
    for draws, leaf in zip(chains, leaves, strict=True):
        tree_sums.sort_trees(
            draws.tree_start, draws.num_trees, draws.feature, draws.cut, draws.missing_left, leaf, first, into
        )
        first += draws.num_draws
    return into


def _room(start: NDArray[np.int64]) -> tree_sums.SortedTrees:
    """Allocate an ensemble of the sizes in the last entry of `start`."""
    two, right, left, big, splits, leaves = (int(size) for size in start[-1])
    return tree_sums.SortedTrees(
        base=np.empty(len(start) - 1, np.int32),
        start=start,
        two_rule=np.empty(two, np.uint16),
        two_cut=np.empty(two, np.uint8),
        two_near=np.empty(two, np.int32),
        right_rule=np.empty(2 * right, np.uint16),
        right_cut=np.empty(2 * right, np.uint8),
        right_value=np.empty(2 * right, np.int32),
        left_rule=np.empty(2 * left, np.uint16),
        left_cut=np.empty(2 * left, np.uint8),
        left_value=np.empty(2 * left, np.int32),
        big_split=np.zeros(big + 1, np.int64),
        big_leaf=np.zeros(big + 1, np.int64),
        rule=np.empty(splits, np.uint16),
        cut=np.empty(splits, np.uint8),
        here=np.empty(splits, np.int32),
        there=np.empty(splits, np.int32),
        left=np.empty(splits, np.int32),
        right=np.empty(splits, np.int32),
        leaf=np.empty(leaves, np.int32),
    )


def _sums(
    ensemble: tree_sums.SortedTrees, codes: NDArray[np.uint8], draws: NDArray[np.int64]
) -> NDArray[np.int32]:
    num_rows = codes.shape[1]
    if num_rows > FEW_ROWS:
        sums = np.empty((len(draws), num_rows), dtype=np.int32)
        tree_sums.sum_trees(ensemble, draws, codes, sums)
        return sums
    by_row = np.empty((num_rows, len(draws)), dtype=np.int32)
    for row in range(num_rows):
        code = np.stack([codes[:, row], codes[:, row] + np.uint8(1)], axis=1).reshape(-1)  # by rule
        tree_sums.sum_trees_at_row(ensemble, draws, code, by_row[row])
    return by_row.T
