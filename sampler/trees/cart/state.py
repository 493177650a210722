"""Allocation, growth and conversion of the kernels' arrays of single trees."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.cart.kernels import state
from sampler.cart.kernels.particle_filter import Cloud
from sampler.cart.kernels.state import KeptTrees, Room, Tree, TreeRows
from sampler.storage.draws import Draws
from sampler.training import Training
from sampler.trees.cart.leaf_models import leaf_model
from sampler.trees.cart.prior import tree_constants

FIRST_NODES = 64  # initial room per tree, doubled when needed
SUM_BITS = 61  # bits of the sum over all rows of a weighted statistic in integer units


def make_rows(training: Training) -> TreeRows:
    """Make the kernels' record of training rows and constants."""
    from scipy.special import gammaln  # noqa: PLC0415  # scipy is slow to import

    codes = np.ascontiguousarray(training.codes)
    present = [column[column != 255] for column in codes]
    constants, settings = tree_constants(training), training.settings
    y = np.rint((training.y - constants.offset) / constants.step).astype(np.int32)
    counts = np.arange(len(y) + 1)
    numbers = np.zeros(state.NUM_CONSTANTS)
    step = constants.step
    numbers[[state.ALPHA, state.BETA]] = constants.alpha, constants.beta
    numbers[[state.PRECISION, state.NU]] = constants.precision, constants.nu
    numbers[state.NU_LAMBDA] = constants.nu * constants.lambda_ / step**2
    numbers[state.CONCENTRATION] = constants.concentration
    numbers[state.LIKELIHOOD] = not settings.prior_only
    numbers[[state.STEP, state.OFFSET]] = step, constants.offset
    numbers[[state.UNIT_WEIGHT, state.UNIT_SUM, state.UNIT_SQUARES]] = 1.0
    model = leaf_model(settings)
    weighed = np.zeros((0, 3), np.int64)
    if model == state.CLASSES:
        all_of_them = constants.concentration * constants.classes
        table = np.array([gammaln(counts + constants.concentration), gammaln(counts + all_of_them)])
    else:
        numbers[state.TOTAL_SQUARES] = float(np.sum(y.astype(np.int64) ** 2))
        if training.weights is not None:
            w = training.weights
            parts = [_whole(values) for values in (w * y, w * y.astype(np.float64) ** 2, w)]
            weighed = np.stack([values for values, _ in parts], axis=1)
            numbers[[state.UNIT_SUM, state.UNIT_SQUARES, state.UNIT_WEIGHT]] = [unit for _, unit in parts]
            numbers[state.TOTAL_SQUARES] = float(weighed[:, 1].sum()) * numbers[state.UNIT_SQUARES]
        table = np.array([gammaln(0.5 * (counts + constants.nu)), np.zeros(len(counts))])
    return state.TreeRows(
        codes=codes,
        y=y,
        low=np.array([column.min(initial=255) for column in present], np.int64),
        high=np.array([column.max(initial=0) if len(column) else -1 for column in present], np.int64),
        missing=np.array([len(column) < codes.shape[1] for column in present], np.int64),
        model=model,
        constants=numbers,
        table=table,
        weighed=weighed,
    )


def _whole(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
    """Convert values to integers in the smallest unit for which their sum fits 64 bits; return both."""
    unit = 2.0 ** (math.frexp(float(np.sum(np.abs(values))))[1] - SUM_BITS)
    return np.rint(values / unit).astype(np.int64), unit


def num_stats(training: Training) -> int:
    """Return the number of statistics per leaf.

    These are one count per class, or count, sum, sum of squares and, with weights, the sum of weights.
    """
    return tree_constants(training).classes or (3 if training.weights is None else 4)


def num_values(training: Training) -> int:
    """Return the number of parameters per leaf: class probabilities, mean and standard deviation, or mean."""
    model = leaf_model(training.settings)
    return {state.CLASSES: tree_constants(training).classes, state.MEAN_VARIANCE: 2}.get(model, 1)


def make_tree(rows: TreeRows, stats: int, capacity: int) -> Tree:
    """Allocate a tree with all rows listed in order."""
    return state.Tree(
        size=np.ones(1, np.int64),
        node=np.zeros((capacity, state.NODE_SIZE), np.int32),
        span=np.zeros((capacity, 2), np.int64),
        stat=np.zeros((capacity, stats), np.int64),
        term=np.zeros((capacity, 2)),
        order=np.arange(len(rows.y), dtype=np.int32),
    )


def make_room(rows: TreeRows, stats: int, capacity: int, *, restructures: bool) -> Room:
    """Allocate the kernels' working arrays."""
    columns = len(rows.codes)
    return state.Room(
        rule=np.zeros(3, np.int64),
        code_span=np.zeros(3, np.int64),
        columns=np.zeros(columns, np.int32),
        shelf=np.zeros(len(rows.y), np.int32),
        left=np.zeros(stats, np.int64),
        right=np.zeros(stats, np.int64),
        stack=np.zeros(capacity + 2, np.int32),
        block=np.zeros((capacity if restructures else 1, columns, 3), np.int32),
        blocks=np.zeros(capacity, np.int32),
        bad=np.zeros((2, 257), np.int64),
        terms=np.zeros(512),
        bins=np.zeros((256, stats), np.int64),
        child_terms=np.zeros((2, 2)),
    )


def make_cloud(rows: TreeRows, stats: int, particles: int, capacity: int) -> Cloud:
    """Allocate the trees of all particles, each with all rows listed in order."""
    return Cloud(
        size=np.ones(particles, np.int64),
        next=np.zeros(particles, np.int64),
        log_weight=np.zeros(particles),
        node=np.zeros((particles, capacity, state.NODE_SIZE), np.int32),
        span=np.zeros((particles, capacity, 2), np.int64),
        stat=np.zeros((particles, capacity, stats), np.int64),
        term=np.zeros((particles, capacity, 2)),
        order=np.tile(np.arange(len(rows.y), dtype=np.int32), (particles, 1)),
    )


def enlarge(tree: Tree, capacity: int) -> Tree:
    """Copy a tree into arrays with room for `capacity` nodes."""

    def more(old: NDArray[Any]) -> NDArray[Any]:
        new = np.zeros((capacity, *old.shape[1:]), old.dtype)
        new[: len(old)] = old
        return new

    return tree._replace(
        node=more(tree.node), span=more(tree.span), stat=more(tree.stat), term=more(tree.term)
    )


def make_kept(draws: int, nodes: int, values: int) -> KeptTrees:
    """Allocate room for draws, with `nodes` nodes in all and `values` parameters per leaf."""
    return state.KeptTrees(
        fill=np.zeros(3, np.int64),
        sigma=np.zeros(draws),
        tree_start=np.zeros(draws + 1, np.int64),
        feature=np.zeros(nodes, np.int32),
        cut=np.zeros(nodes, np.uint8),
        missing_left=np.zeros(nodes, np.uint8),
        value=np.zeros((nodes // 2 + draws + 1, values)),
    )


def enlarge_kept(kept: KeptTrees, draws: int, nodes: int) -> KeptTrees:
    """Copy draws into larger arrays."""
    new = make_kept(draws, nodes, kept.value.shape[1])
    new.fill[:] = kept.fill
    for name in ("sigma", "tree_start", "feature", "cut", "missing_left", "value"):
        old, room = getattr(kept, name), getattr(new, name)
        used = min(len(old), len(room))  # the filled part always fits; the room of an array may shrink
        room[:used] = old[:used]
    return new


def take(kept: KeptTrees, log_weight: NDArray[np.float64] | None = None) -> Draws | None:
    """Convert the filled part to draws; None if it is empty."""
    draws, nodes, leaves = (int(value) for value in kept.fill)
    if draws == 0:
        return None
    return Draws(
        num_trees=1,
        sigma=kept.sigma[:draws].copy(),
        tree_start=kept.tree_start[: draws + 1].copy(),
        feature=kept.feature[:nodes].copy(),
        cut=kept.cut[:nodes].copy(),
        missing_left=kept.missing_left[:nodes].copy(),
        leaf=np.zeros(nodes, np.int32),
        value=kept.value[:leaves].copy(),
        log_weight=np.zeros(draws) if log_weight is None else log_weight,
    )
