"""Draws arranged for prediction, and the sums of their trees at encoded rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler import interrupt
from sampler.data.encode import Coded, Copies
from sampler.errors import PackedError
from sampler.posterior.kernels import tree_sums
from sampler.posterior.kernels.tree_sums import SortedTrees
from sampler.storage.draws import Draws
from sampler.storage.model_header import Header

FEW_ROWS = 12  # up to this number, evaluating row by row is faster
HALF = 1 << 16
FEWEST_COPIED = 256  # rows, from which on dividing the trees costs less than it saves


class Ensemble:
    """Draws of all chains, one chain after the other, arranged for prediction.

    `parts` are sorted trees, with the number of grid steps that a unit of their leaves is; `largest` is the
    largest possible sum of a draw's trees, in size, and `has_room` tells whether sums of any of the trees fit
    int32.

    Raises PackedError when a split uses a column that doesn't exist.
    """

    def __init__(self, chains: Sequence[Draws], num_features: int) -> None:
        self.num_draws = sum(draws.num_draws for draws in chains)
        self.num_features = num_features
        if num_features > tree_sums.MAX_FEATURES:
            raise PackedError(f"the model has more than {tree_sums.MAX_FEATURES} columns")
        for draws in chains:
            draws.check(num_features)
        leaves = [draws.leaf for draws in chains]
        self.largest = _largest(chains)
        self.has_room = self.largest < 2**30  # differences of leaves of any of the trees add up within int32
        if self.largest < 2**31:
            self.parts = [(1, _sort(chains, leaves))]
        else:  # sums that may overflow int32 are made of two halves that can't
            self.parts = [
                (HALF, _sort(chains, [leaf >> 16 for leaf in leaves])),
                (1, _sort(chains, [leaf & (HALF - 1) for leaf in leaves])),
            ]

    def sums_of(self, coded: Coded, draws: NDArray[np.int64]) -> NDArray[np.int32] | NDArray[np.int64]:
        """Sum the trees of each draw at encoded rows as `sums`; of copies of rows with less work."""
        copies = coded.copies
        if copies is None or coded.num_rows * len(draws) < FEWEST_COPIED * self.num_draws:
            return self.sums(coded.codes, draws)
        return self._by_block(coded, copies, draws).reshape(len(draws), -1)

    def totals_of(self, coded: Coded, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sum the trees of each draw over the rows of each block of copies, [draw, block]."""
        if coded.copies is None:
            raise ValueError("the rows are no copies")
        return self._by_block(coded, coded.copies, draws, total=True)[:, :, 0]

    def _by_block(
        self, coded: Coded, copies: Copies, draws: NDArray[np.int64], *, total: bool = False
    ) -> NDArray[Any]:
        """Sum trees, [draw, block, row], or with `total` over rows, int64 [draw, block, 1].

        Trees that use none of the features that differ are evaluated once, those that use one of them for
        each of its values, and only the others for each block.
        """
        if self not in copies.divided:
            copies.divided[self] = self._divided(copies.features)
        none, *single = copies.divided[self][: len(copies.features) + 1]
        several = copies.divided[self][len(copies.features) + 1 :]
        count = copies.values.shape[1]
        codes = coded.codes.reshape(len(coded.codes), count, -1)
        key, zeros = (draws.tobytes(), total), np.zeros(count, np.int64)
        parts = [(none, zeros, copies.sums.setdefault((none, key), {}))]
        for ensemble, values in zip(single, copies.values, strict=True):
            again = len(single) > 1  # a later block may have the same value
            parts.append((ensemble, values, copies.sums.setdefault((ensemble, key), {}) if again else {}))
        sums = _zeros((len(draws), count, 1 if total else codes.shape[2]), self, total=total)
        if several:
            of_several = several[0].sums(coded.codes, draws).reshape(len(draws), count, -1)
            sums += of_several.sum(axis=2, keepdims=True, dtype=np.int64) if total else of_several
        for ensemble, values, known in parts:  # grid steps are exact: their sums don't depend on the order
            _add_by_value(sums, ensemble, codes, values, draws, known)
        return sums

    def _divided(self, features: Sequence[Sequence[int]]) -> list[Ensemble]:
        """Divide into the trees that use none of these features, each of them alone, and if any, several."""
        divided = [(scale, _divide(trees, features, self.num_features)) for scale, trees in self.parts]
        ensembles = [copy(self) for _ in divided[0][1]]
        for number, ensemble in enumerate(ensembles):
            ensemble.parts = [(scale, trees[number]) for scale, trees in divided]
        return ensembles

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
        ValueError, IndexError
            When the rows have another number of features than the model, or there are no such draws.

        """
        if codes.shape[0] != self.num_features:
            msg = f"rows have {codes.shape[0]} codes, the model has {self.num_features}"
            raise ValueError(msg)
        interrupt.look()
        codes = np.require(codes, np.uint8, ["C", "W"])
        chosen = np.arange(self.num_draws) if draws is None else chosen_of(draws, self.num_draws)
        (scale, first), *rest = self.parts
        if not rest:
            return _sums(first, codes, chosen)
        total = scale * _sums(first, codes, chosen).astype(np.int64)
        for _, part in rest:
            total += _sums(part, codes, chosen)
        return total


def chosen_of(draws: NDArray[np.int64], num_draws: int) -> NDArray[np.int64]:
    """Return positions of draws as compiled code reads them; raise IndexError for some that don't exist."""
    chosen = np.require(draws, np.int64, ["C", "W"])
    if len(chosen) and chosen.view(np.uint64).max() >= num_draws:  # negative ones are the largest
        raise IndexError(f"there are {num_draws} draws, none beyond")
    return chosen


def _add_by_value(
    sums: NDArray[Any],
    ensemble: Ensemble,
    codes: NDArray[np.uint8],
    values: NDArray[np.int64],
    draws: NDArray[np.int64],
    known: dict[int, NDArray[Any]],
) -> None:
    """Add to sums [draw, block, row], or [draw, block, 1] over rows, those of trees that go by the value.

    `codes` are uint8 [coded column, block, row]; `known` are the sums of earlier values.
    """
    distinct, first = np.unique(values, return_index=True)
    new = {int(value): block for value, block in zip(distinct, first, strict=True) if value not in known}
    if new:
        rows = codes[:, list(new.values())]
        fresh = ensemble.sums(rows.reshape(len(rows), -1), draws).reshape(len(sums), len(new), -1)
        if sums.shape[2] < fresh.shape[2]:
            fresh = fresh.sum(axis=2, keepdims=True, dtype=np.int64)
        known.update((value, fresh[:, number]) for number, value in enumerate(new))
    for block, value in enumerate(values.tolist()):
        sums[:, block] += known[value]


def _zeros(shape: tuple[int, int, int], ensemble: Ensemble, *, total: bool) -> NDArray[Any]:
    return np.zeros(shape, np.int64 if total or len(ensemble.parts) > 1 else np.int32)


def _largest(chains: Sequence[Draws]) -> int:
    """Return the largest possible sum of one leaf per tree, in size."""
    largest_sum = 0
    for draws in chains:
        largest = np.maximum.reduceat(np.abs(draws.leaf.astype(np.int64)), draws.tree_start[:-1])
        largest_sum = max(largest_sum, int(largest.reshape(draws.num_draws, -1).sum(axis=1).max(initial=0)))
    return largest_sum


def _sort(chains: Sequence[Draws], leaves: Sequence[NDArray[np.int32]]) -> SortedTrees:
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


class TreeMasks(NamedTuple):
    """Marks of some of the trees of each shape, bool [tree]."""

    two: NDArray[np.bool_]
    right: NDArray[np.bool_]
    left: NDArray[np.bool_]
    big: NDArray[np.bool_]


def _divide(trees: SortedTrees, features: Sequence[Sequence[int]], num_features: int) -> list[SortedTrees]:
    """Divide sorted trees into those that use no feature, with the bases, one alone, and several of many."""
    used = [_using(trees, columns, num_features) for columns in features]
    count = [np.sum(masks, axis=0) for masks in zip(*used, strict=True)]
    alone = [TreeMasks(*(m & (c == 1) for m, c in zip(masks, count, strict=True))) for masks in used]
    parts = [*alone, *([TreeMasks(*(c > 1 for c in count))] if len(features) > 1 else [])]
    zeros = np.zeros_like(trees.base)
    none = _select(trees, TreeMasks(*(c == 0 for c in count)), trees.base)
    return [none, *(_select(trees, which, zeros) for which in parts)]


def _using(trees: SortedTrees, columns: Sequence[int], num_features: int) -> TreeMasks:
    """Tell which trees split on any of these coded columns."""
    chosen = np.zeros(num_features, bool)
    chosen[list(columns)] = True
    splits = _running(chosen[trees.rule >> 1])
    return TreeMasks(
        two=chosen[trees.two_rule >> 1],
        right=chosen[trees.right_rule >> 1].reshape(-1, 2).any(axis=1),
        left=chosen[trees.left_rule >> 1].reshape(-1, 2).any(axis=1),
        big=splits[trees.big_split[1:]] > splits[trees.big_split[:-1]],
    )


def _select(trees: SortedTrees, which: TreeMasks, base: NDArray[np.int32]) -> SortedTrees:
    """Select some of the trees of all draws."""
    num_splits, num_leaves = np.diff(trees.big_split), np.diff(trees.big_leaf)
    splits, leaves = np.repeat(which.big, num_splits), np.repeat(which.big, num_leaves)
    start = np.empty_like(trees.start)
    for shape, mask in enumerate((*which, splits, leaves)):
        start[:, shape] = _running(mask)[trees.start[:, shape]]
    right, left = np.repeat(which.right, 2), np.repeat(which.left, 2)
    return SortedTrees(
        base=base,
        start=start,
        two_rule=trees.two_rule[which.two],
        two_cut=trees.two_cut[which.two],
        two_near=trees.two_near[which.two],
        right_rule=trees.right_rule[right],
        right_cut=trees.right_cut[right],
        right_value=trees.right_value[right],
        left_rule=trees.left_rule[left],
        left_cut=trees.left_cut[left],
        left_value=trees.left_value[left],
        big_split=_running(num_splits[which.big]),
        big_leaf=_running(num_leaves[which.big]),
        rule=trees.rule[splits],
        cut=trees.cut[splits],
        here=trees.here[splits],
        there=trees.there[splits],
        left=trees.left[splits],
        right=trees.right[splits],
        leaf=trees.leaf[leaves],
    )


def _running(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return the sum of the counts before each position, and that of all, int64."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _room(start: NDArray[np.int64]) -> SortedTrees:
    """Allocate an ensemble of the sizes in the last entry of `start`."""
    two, right, left, big, splits, leaves = (int(size) for size in start[-1])
    return SortedTrees(
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


def sums_at_own_rows(
    ensemble: Ensemble, draws: NDArray[np.int64], codes: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Sum the trees of each draw at rows of its own: int64 [draw, row] of codes [draw, coded column, row]."""
    total = np.zeros((len(draws), codes.shape[2]), np.int64)
    sums = np.empty(total.shape, np.int32)
    codes = np.ascontiguousarray(codes)
    for scale, trees in ensemble.parts:
        for place in range(len(draws)):
            tree_sums.sum_trees(trees, draws[place : place + 1], codes[place], sums[place : place + 1])
        total += scale * sums.astype(np.int64)
    return total


def _sums(ensemble: SortedTrees, codes: NDArray[np.uint8], draws: NDArray[np.int64]) -> NDArray[np.int32]:
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


def columns_of_codes(header: Header) -> NDArray[np.int64]:
    """Return the column of each coded column of the trees; for those beside the features one past them."""
    own, count = [column for column, _ in header.schema.coded], len(header.schema.columns)
    beside = [column for facts in header.parts.values() for column in facts.coded_columns(count)]
    return np.array(own + beside, np.int64)


def rules_per_draw(draws: Draws, header: Header) -> NDArray[np.int32]:
    """Count the rules of each draw that use each feature, int32 [draw, feature]."""
    column_of, num_columns = columns_of_codes(header), len(header.schema.columns)
    draws.check(len(column_of))
    nodes = np.diff(draws.tree_start[:: draws.num_trees])
    draw_of = np.repeat(np.arange(draws.num_draws), nodes)
    splits = draws.feature >= 0
    width = num_columns + 1
    cell = draw_of[splits] * width + column_of[draws.feature[splits]]
    counts = np.bincount(cell, minlength=draws.num_draws * width)
    return counts.reshape(draws.num_draws, width)[:, :num_columns].astype(np.int32)
