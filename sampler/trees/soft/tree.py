"""A tree of soft splits as a state: its topology, its parameters, and moves between topologies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats, Words
from sampler.kernels.random import below, normal, uniform
from sampler.soft.kernels import state
from sampler.soft.kernels.density import break_stick
from sampler.soft.kernels.state import SoftRoom, SoftRows, SoftShape, zeros
from sampler.training import Training
from sampler.trees.soft.prior import CODES, soft_constants

TINY = np.finfo(np.float64).tiny


def make_soft_rows(training: Training) -> SoftRows:
    """Make the kernels' record of training rows and constants; equal rows are merged."""
    constants = soft_constants(training)
    codes, first, group = np.unique(training.codes, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")  # in order of first appearance, which fixes the sums
    place = np.argsort(order)[group.reshape(-1)]
    n = -(-len(order) // state.LINE) * state.LINE  # padded to whole registers by the last row, weight 0
    x = scale_codes(constants.values, codes[:, np.append(order, np.repeat(order[-1], n - len(order)))])
    weights = np.ones(len(training.y)) if training.weights is None else training.weights
    many: Floats = np.bincount(place, weights, n).astype(np.float64)
    numbers = np.zeros(state.STICKS)
    numbers[[state.MEAN, state.SD]] = constants.offset, constants.leaf_sd
    numbers[[state.SHAPE, state.SCALE]] = constants.sigma_shape, constants.sigma_scale
    numbers[state.CONCENTRATION] = constants.concentration
    numbers[state.LIKELIHOOD] = not training.settings.prior_only
    numbers[state.TOTAL] = len(training.y)
    count: Floats
    mean: Floats
    if constants.classes:
        count, mean = np.zeros((constants.classes, x.shape[1])), np.zeros(x.shape[1])
        np.add.at(count, (training.y.astype(np.int64), place), 1)
    else:
        count, mean = many[None], np.bincount(place, weights * training.y, n) / np.maximum(many, TINY)
        numbers[state.WITHIN] = float(np.sum(weights * (training.y - mean[place]) ** 2))
    numbers = with_common(numbers, len(x), constants.classes)
    return state.SoftRows(x, np.ascontiguousarray(count), mean, constants.classes, numbers)


def with_common(numbers: Floats, columns: int, classes: int) -> Floats:
    """Complete `SoftRows.constants` with what all log densities share."""
    constants = np.concatenate([numbers[: state.STICKS], stick_shifts(columns)])
    if classes:
        alpha = float(numbers[state.CONCENTRATION])
        constants[state.OF_LEAF] = math.lgamma(alpha * classes) - classes * math.lgamma(alpha)
    else:
        a, b = float(numbers[state.SHAPE]), float(numbers[state.SCALE])
        constants[state.OF_LEAF] = -0.5 * math.log(2 * math.pi) - math.log(numbers[state.SD])
        constants[state.OF_TREE] = a * math.log(b) - math.lgamma(a)
    constants[state.OF_DIRECTION], constants[state.OF_AXIS] = math.lgamma(columns), -math.log(columns)
    return constants


def stick_shifts(columns: int) -> Floats:
    """Compute the shifts that centre a direction's logits at equal weights, float64 [columns - 1]."""
    return np.log(np.arange(columns - 1, 0, -1, dtype=np.float64))


def scale_codes(values: Sequence[Sequence[float]], codes: NDArray[np.uint8]) -> Floats:
    """Look up the numbers in [0, 1] that codes uint8 [p, row] stand for, float64 [p, row]."""
    unit = np.empty(codes.shape)
    for j, column in enumerate(values):
        table = np.full(CODES, column[-2] if len(column) > 1 else column[-1])
        table[: len(column) - 1] = column[:-1]
        table[-1] = column[-1]
        unit[j] = table[codes[j]]
    return unit


def outcomes_at(training: Training) -> tuple[float, float]:
    """Return mean and sd of the outcomes, or those of the leaves' prior for classes and for `prior_only`."""
    constants = soft_constants(training)
    if training.settings.prior_only or constants.classes:
        return constants.offset, constants.leaf_sd
    sd = float(np.std(training.y)) or constants.leaf_sd
    return float(np.average(training.y, weights=training.weights)), sd


def scale_guesses(training: Training, rows: SoftRows) -> Floats:
    """Guess posterior sds, float64 [4]: logits of thresholds, logits of directions, means, log of sigma."""
    constants, many = soft_constants(training), max(len(training.y), 2)
    _, spread = outcomes_at(training)
    if training.settings.prior_only:
        return np.array([1.0, 1.0, spread, 0.5])
    gap = max(1.0 / max(len(np.unique(column)) - 1, 1) for column in rows.x)
    place = min(4 * (constants.sharpness + 0.25 * gap), 1.0)
    mean = spread * min(math.sqrt(4 / many), 1.0)
    return np.array([place, min(2 * place, 1.0), mean, 1 / math.sqrt(2 * many)])


@dataclass(frozen=True)
class SoftTree:
    """Topology (bits in pre-order, at least one split) and parameters u, in the order of the kernels."""

    is_split: tuple[bool, ...]
    axis: NDArray[np.int64]  # [split], -1 where a split has a direction
    u: Floats

    @property
    def splits(self) -> int:
        """Number of splits, one less than leaves."""
        return len(self.axis)

    def copy(self) -> SoftTree:
        """Copy the tree and its arrays."""
        return SoftTree(self.is_split, self.axis.copy(), self.u.copy())


def shape_of(is_split: Sequence[bool], axis: NDArray[np.int64]) -> SoftShape:
    """Convert a topology to the kernels' form."""
    right = np.zeros(len(is_split), np.int64)
    slot = np.zeros(len(is_split), np.int64)
    waiting: list[int] = []  # splits whose right child has not been reached
    counts = [0, 0]
    for node, splits in enumerate(is_split):
        slot[node] = counts[splits]
        counts[splits] += 1
        if splits:
            waiting.append(node)
        elif waiting and node + 1 < len(is_split):
            right[waiting.pop()] = node + 1
    return SoftShape(right, slot, axis)


def make_room(rows: SoftRows, splits: int) -> SoftRoom:
    """Allocate the kernels' working arrays for trees with that many splits."""
    (p, n), nodes = rows.x.shape, 2 * splits + 1
    return SoftRoom(
        right=zeros(splits, n),
        left=zeros(splits, n),
        flow=zeros(nodes, n),
        below=zeros(nodes, n),
        threshold=zeros(splits),
        direction=zeros(splits, p),
        slope=zeros(p),
        table=zeros(splits + 1, max(rows.classes, 1)),
    )


def depths_of(is_split: Sequence[bool]) -> list[int]:
    """Compute the depth of each node."""
    depths, waiting, depth = [], [], 0
    for splits in is_split:
        depths.append(depth)
        if splits:
            waiting.append(depth + 1)
            depth += 1
        elif waiting:
            depth = waiting.pop()
    return depths


def log_topology(is_split: Sequence[bool], alpha: float, beta: float) -> float:
    """Compute the log prior of a topology, which depends on no rule and no row (docs/maths.md#soft-trees)."""
    total = 0.0
    for splits, depth in zip(is_split, depths_of(is_split), strict=True):
        chance = alpha * (1.0 + depth) ** -beta
        total += math.log(chance) if splits else math.log1p(-chance)
    return total


def leaves_of(is_split: Sequence[bool]) -> list[int]:
    """List the leaves, in order."""
    return [node for node, splits in enumerate(is_split) if not splits]


def prunable_of(is_split: Sequence[bool]) -> list[int]:
    """List the splits whose children are both leaves, in order."""
    return [
        node
        for node, splits in enumerate(is_split)
        if splits and not is_split[node + 1] and not is_split[node + 2]
    ]


def grow_at(is_split: Sequence[bool], node: int) -> tuple[bool, ...]:
    """Return the topology with that leaf split."""
    return (*is_split[:node], True, False, False, *is_split[node + 1 :])


def prune_at(is_split: Sequence[bool], node: int) -> tuple[bool, ...]:
    """Return the topology with that split, whose children are leaves, made a leaf."""
    return (*is_split[:node], False, *is_split[node + 3 :])


class Parameters:
    """Layout of parameters, and their creation and removal with splits, for given columns and classes.

    A new leaf's mean is drawn from the prior or, with equal probability, from the distribution of the
    outcomes. Where the two are far apart, draws from the prior alone would leave rows without a suitable
    leaf, and draws from the outcomes alone would leave superfluous leaves without a way to be removed.
    """

    def __init__(self, training: Training, columns: int, *, by_axis: bool) -> None:
        constants = soft_constants(training)
        self.columns, self.by_axis = columns, by_axis
        self.sticks = 0 if by_axis else columns - 1
        self.means = not constants.classes
        self.outcomes = outcomes_at(training)
        self._means_from = (constants.offset, constants.leaf_sd), self.outcomes
        self._shifts, self._direction = stick_shifts(columns), np.zeros(columns)

    def size(self, splits: int) -> int:
        """Return the number of parameters of a tree with that many splits."""
        return splits * (1 + self.sticks) + (splits + 2 if self.means else 0)

    def kinds(self, splits: int) -> NDArray[np.int64]:
        """Return the kind of each parameter, int64 [u]: 0 threshold, 1 direction, 2 mean, 3 sigma."""
        counts = [splits, splits * self.sticks, *((splits + 1, 1) if self.means else (0, 0))]
        return np.repeat(np.arange(4), counts)

    def first(self, random: Words, is_split: tuple[bool, ...] = (True, False, False)) -> SoftTree:
        """Draw a tree's splits from their prior, and its means and sigma as the outcomes suggest."""
        splits = [self._split(random) for _ in range(sum(is_split))]
        u = [threshold for threshold, _, _ in splits] + [stick for _, sticks, _ in splits for stick in sticks]
        if self.means:
            centre, sd = self.outcomes
            u += [centre + sd * _normal(random) for _ in range(len(splits) + 1)] + [math.log(sd)]
        return SoftTree(is_split, np.array([axis for _, _, axis in splits], np.int64), np.array(u))

    def grow(self, tree: SoftTree, node: int, random: Words) -> tuple[SoftTree, float]:
        """Split the leaf at `node` at random; return the tree and the log density of the new parameters.

        The left child keeps the leaf's mean.
        """
        threshold, sticks, axis = self._split(random)
        mean = 0.0
        if self.means:
            centre, sd = self._means_from[_uniform(random) < 0.5]
            mean = centre + sd * _normal(random)
        split, leaf = _counts_before(tree.is_split, node)
        u = list(tree.u)
        first_mean = tree.splits * (1 + self.sticks)
        if self.means:
            u.insert(first_mean + leaf + 1, mean)
        at = tree.splits + split * self.sticks
        u[at:at] = sticks
        u.insert(split, threshold)
        axes = np.insert(tree.axis, split, axis)
        return SoftTree(grow_at(tree.is_split, node), axes, np.array(u)), self._log_new(
            threshold, sticks, mean
        )

    def prune(self, tree: SoftTree, node: int) -> tuple[SoftTree, float]:
        """Undo the split at `node`; return the tree and the log density of the removed parameters."""
        split, leaf = _counts_before(tree.is_split, node)
        u = list(tree.u)
        mean = 0.0
        if self.means:
            mean = u.pop(tree.splits * (1 + self.sticks) + leaf + 1)
        at = tree.splits + split * self.sticks
        sticks = u[at : at + self.sticks]
        del u[at : at + self.sticks]
        threshold = u.pop(split)
        less = SoftTree(prune_at(tree.is_split, node), np.delete(tree.axis, split), np.array(u))
        return less, self._log_new(threshold, sticks, mean)

    def _split(self, random: Words) -> tuple[float, list[float], int]:
        """Draw a new split from the prior: threshold and sticks in units of u, and column."""
        share = _uniform(random)
        axis = int(below(random, self.columns)) if self.by_axis else -1
        sticks, left = [], 1.0
        parts = [-math.log(_uniform(random)) for _ in range(self.columns)] if self.sticks else []
        total = math.fsum(parts)
        for k, part in enumerate(parts[:-1]):
            here = part / total
            z = min(max(here / left, 1e-12), 1 - 1e-12)
            sticks.append(math.log(z / (1 - z)) + math.log(self.columns - 1 - k))
            left = max(left - here, 1e-300)
        return math.log(share / (1 - share)), sticks, axis

    def _log_new(self, threshold: float, sticks: Sequence[float], mean: float) -> float:

        total = -float(np.logaddexp(0, threshold) + np.logaddexp(0, -threshold))
        if self.by_axis:
            total -= math.log(self.columns)
        else:
            total += math.lgamma(self.columns)
            total += float(break_stick(self._shifts, np.array(sticks, np.float64), self._direction))
        if self.means:
            of_prior, of_outcomes = (_log_normal(mean, *law) for law in self._means_from)
            total += float(np.logaddexp(of_prior, of_outcomes)) - math.log(2)
        return total

    def taken_apart(self, tree: SoftTree) -> dict[str, Any]:
        """Split parameters into threshold, direction, mean (None for classes) and sigma (1 for classes)."""
        splits = tree.splits
        direction = np.zeros((splits, self.columns))
        for j in range(splits):
            if self.by_axis:
                direction[j, tree.axis[j]] = 1.0
                continue
            at = splits + j * self.sticks
            break_stick(self._shifts, tree.u[at : at + self.sticks], direction[j])
        return {
            "threshold": 1 / (1 + np.exp(-tree.u[:splits])),
            "direction": direction,
            "mean": tree.u[-splits - 2 : -1].copy() if self.means else None,
            "sigma": math.exp(tree.u[-1]) if self.means else 1.0,
        }


def _counts_before(is_split: Sequence[bool], node: int) -> tuple[int, int]:
    splits = sum(is_split[:node])
    return splits, node - splits


def _uniform(random: Words) -> float:

    return float(uniform(random))


def _log_normal(value: float, mean: float, sd: float) -> float:
    return -0.5 * ((value - mean) / sd) ** 2 - math.log(sd) - 0.5 * math.log(2 * math.pi)


def _normal(random: Words) -> float:

    return float(normal(random))
