"""Kept draws of a chain as flat arrays, as engines return them and predictions read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.errors import PackedError
from sampler.storage.block_format import FORESTS, SHARP_TREES, SINGLE_TREES

LEAF = -1  # `feature` of a leaf
NUM_TREES = "num_trees"  # name of the scalar with the number of trees, where it is drawn
PRESENT_OR_MISSING = 254  # `cut` of the rule "present left, missing right"


@dataclass(frozen=True)
class Draws:
    """Kept draws of one chain, in order; nodes of a tree in pre-order (node, left subtree, right subtree).

    A draw has `num_trees` trees, and ``f(x) = offset + step * (sum over the trees of the leaf x reaches)``.
    At a split a present code goes left iff ``code <= cut``, a missing one iff `missing_left`.

    Attributes
    ----------
    num_trees
        Number of trees in a draw, m.
    sigma
        float64 [draw], noise standard deviation in units of y (all ones for probit).
    tree_start
        int64 [draw * m + 1], first node of each tree; the last entry is the number of nodes.
    feature
        int32 [node], coded column, -1 at a leaf.
    cut
        uint8 [node], 0 at a leaf.
    missing_left
        uint8 [node], 0 at a leaf.
    leaf
        int32 [node], leaf value in grid steps, 0 at a split; all zeros for single-tree methods.
    value
        float64 [leaf, k], single-tree methods only: the parameters of each leaf in order, in units of y, or
        probabilities. None for a sum of trees.
    log_weight
        float64 [draw], single-tree methods only: log importance weights, all 0 where draws have equal
        weights.
    scalars
        float64 [draw] by name: scalars of the model besides sigma.
    forests
        Draws by name: further forests of the model, in the order of its sweep, with the same draws and sigma.

    """

    num_trees: int
    sigma: NDArray[np.float64]
    tree_start: NDArray[np.int64]
    feature: NDArray[np.int32]
    cut: NDArray[np.uint8]
    missing_left: NDArray[np.uint8]
    leaf: NDArray[np.int32]
    value: NDArray[np.float64] | None = None
    log_weight: NDArray[np.float64] | None = None
    scalars: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    forests: dict[str, Draws] = field(default_factory=dict)

    @property
    def kind(self) -> int:
        """Kind of their blocks (`sampler.storage.block_format`)."""
        if self.forests or self.scalars:
            return FORESTS
        return SHARP_TREES if self.value is None else SINGLE_TREES

    @property
    def num_draws(self) -> int:
        """Number of kept draws, d."""
        return len(self.sigma)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all trees, splits and leaves."""
        return len(self.feature)

    @property
    def leaf_counts(self) -> NDArray[np.int64]:
        """Number of leaves per tree, int64 [draw, tree]; a binary tree of k nodes has (k + 1) / 2.

        Where the number of trees is drawn, absent ones, which are kept as leaves of value 0, have none.
        """
        leaves = ((np.diff(self.tree_start) + 1) // 2).reshape(self.num_draws, self.num_trees)
        if NUM_TREES not in self.scalars:
            return leaves
        value = self.leaf[self.tree_start[:-1]].reshape(leaves.shape)
        first_absent = np.argsort(2 * (leaves > 1) + (value != 0), axis=1, kind="stable")
        absent = np.arange(self.num_trees) < self.num_trees - self.scalars[NUM_TREES][:, None]
        np.put_along_axis(
            leaves, first_absent, np.where(absent, 0, np.take_along_axis(leaves, first_absent, 1)), 1
        )
        return leaves

    def check(self, num_columns: int) -> None:
        """Check what compiled code relies on: there are trees, arrays as long, and columns that are split on.

        Raises PackedError for draws of which this is not so.
        """
        lengths = {len(self.feature), len(self.cut), len(self.missing_left), len(self.leaf)}
        trees = self.num_draws * self.num_trees
        if trees < 1 or lengths != {int(self.tree_start[-1])} or len(self.tree_start) != trees + 1:
            raise PackedError("the draws have no trees, or arrays of nodes that don't fit each other")
        if int(self.feature.max(initial=-1)) >= num_columns:
            raise PackedError("the draws split on columns that the model doesn't have")

    @property
    def layout(self) -> tuple[Any, ...]:
        """Parts that all draws of a model share: trees, numbers of a leaf, names of scalars and forests."""
        width = None if self.value is None else self.value.shape[1:]
        forests = tuple((name, forest.layout) for name, forest in self.forests.items())
        return self.num_trees, width, tuple(self.scalars), forests

    def with_leaf(self, leaf: NDArray[np.int32]) -> Draws:
        """Return the same trees with other leaf values, int32 [node]."""
        return replace(self, leaf=leaf)

    def __getitem__(self, draws: slice) -> Draws:
        """Return the draws of a contiguous slice (step 1), as views."""
        start, stop, step = draws.indices(self.num_draws)
        if step != 1:
            msg = "draws can be sliced with step 1 only"
            raise IndexError(msg)
        stop = max(start, stop)
        trees = self.tree_start[start * self.num_trees : stop * self.num_trees + 1]
        nodes = slice(int(trees[0]), int(trees[-1]))
        # a binary tree of s splits has s + 1 leaves
        before = (int(trees[0]) + start * self.num_trees) // 2
        after = (int(trees[-1]) + stop * self.num_trees) // 2
        return Draws(
            num_trees=self.num_trees,
            sigma=self.sigma[start:stop],
            tree_start=trees - trees[0],
            feature=self.feature[nodes],
            cut=self.cut[nodes],
            missing_left=self.missing_left[nodes],
            leaf=self.leaf[nodes],
            value=None if self.value is None else self.value[before:after],
            log_weight=None if self.log_weight is None else self.log_weight[start:stop],
            scalars={name: values[start:stop] for name, values in self.scalars.items()},
            forests={name: forest[start:stop] for name, forest in self.forests.items()},
        )

    def __eq__(self, other: object) -> bool:
        """Compare all arrays."""
        if not isinstance(other, Draws):
            return NotImplemented
        names = ("sigma", "tree_start", "feature", "cut", "missing_left", "leaf", "value", "log_weight")
        return (
            self.num_trees == other.num_trees
            and all(_same(getattr(self, name), getattr(other, name)) for name in names)
            and list(self.scalars) == list(other.scalars)
            and all(map(_same, self.scalars.values(), other.scalars.values()))
            and list(self.forests.items()) == list(other.forests.items())
        )

    __hash__ = None  # type: ignore[assignment]


def _same(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _joined(parts: Sequence[NDArray[np.float64] | None]) -> NDArray[np.float64] | None:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None


def concatenate(parts: list[Draws]) -> Draws:
    """Join the draws of blocks or chains in order; raise PackedError where they are not of one model."""
    if len(parts) == 1:
        return parts[0]
    if len({part.layout for part in parts}) > 1:
        raise PackedError("the blocks of draws differ in their trees, forests or scalars")
    kind: Any = type(parts[0])
    if kind is not Draws:
        joined: Draws = kind.join(parts)
        return joined
    sizes = np.cumsum([0] + [part.num_nodes for part in parts])
    starts = [part.tree_start[:-1] + size for part, size in zip(parts, sizes, strict=False)]
    return Draws(
        num_trees=parts[0].num_trees,
        sigma=np.concatenate([part.sigma for part in parts]),
        tree_start=np.concatenate([*starts, sizes[-1:]]),
        feature=np.concatenate([part.feature for part in parts]),
        cut=np.concatenate([part.cut for part in parts]),
        missing_left=np.concatenate([part.missing_left for part in parts]),
        leaf=np.concatenate([part.leaf for part in parts]),
        value=_joined([part.value for part in parts]),
        log_weight=_joined([part.log_weight for part in parts]),
        scalars={name: np.concatenate([part.scalars[name] for part in parts]) for name in parts[0].scalars},
        forests={name: concatenate([part.forests[name] for part in parts]) for name in parts[0].forests},
    )
