"""The engine's own decisions, pinned to the exact acceptance probability from both sides.

Every proposal from every tree of an enumerated problem is put to the engine's compiled decision with a
uniform number a relative 1e-12 below and above the twin's min(1, e^r): it must accept and reject. So the
engine's acceptance probabilities are the twin's, and those leave the posterior invariant (test_moves).
"""

import math
from functools import partial

import numpy as np
import pytest
from numba import njit

from sampler.bart.chain import Chain
from sampler.bart.kernels import below_split, change_and_swap, change_bottom, tree_tables, tree_update
from sampler.kernels.random import uniform
from tests.reference import moves
from tests.reference.enumerator import LEAF, nodes, replaced
from tests.reference.prior import Sampled, SampledForest
from tests.support import toy_problems as toys
from tests.support.chain_driver import of_toy, plant

MIX = {"grow": 0.3, "prune": 0.7}
CGM = {"grow": 0.25, "prune": 0.25, "change": 0.4, "swap": 0.1}
SLACK = 1e-12
GROW, PRUNE, SWAP = 0, 1, 2


class Planted:
    """A chain of one tree on a toy, settable to any tree and next uniform number."""

    def __init__(self, toy, mix=MIX):
        self.toy = toy
        self.chain = Chain.start(of_toy(toy, num_trees=1, num_draws=1, moves=mix), 0)
        self.rng = np.random.default_rng(0)
        self.sampled = {}  # by tree

    def put(self, tree, u):
        """Plant a tree with some leaf values; return the engine's arrays."""
        if tree not in self.sampled:
            places = [n for n in nodes(self.toy, tree) if n.tree == LEAF]
            growable = [bool(self.toy.rules(n.rows)) for n in places]
            self.sampled[tree] = Sampled(tree, None, [n.depth for n in places], growable)
        sampled = self.sampled[tree]
        values = self.rng.normal(0, 0.25, sampled.num_leaves)
        plant(self.chain, SampledForest(None, [sampled], [values]), self.toy.sigma2)
        word = np.uint64(int(u * 2**52) << 12)
        self.chain._work.random[:] = 0, 5, 7, (word >> np.uint64(23)) | (word << np.uint64(41))
        return self.chain._data, self.chain._forests[0], self.chain._models[0], self.chain._work

    def grows(self, tree, slot, rule, u):
        """Return whether the engine accepts splitting the leaf numbered `slot` in pre-order."""
        state = self.put(tree, u)
        state[-1].proposal.rule[:3] = rule
        return decide(*state, GROW, slot)

    def prunes(self, tree, at, u):
        """Return whether the engine accepts pruning the split numbered `at` in pre-order."""
        return decide(*self.put(tree, u), PRUNE, at)

    def changes(self, tree, at, rule, u):
        """Return whether the engine accepts a new rule for the split numbered `at` in pre-order."""
        return decide_change(*self.put(tree, u), at, np.array(rule))

    def swaps(self, tree, child, u):
        """Return whether the engine accepts exchanging the rules of a split and its parent."""
        return decide(*self.put(tree, u), SWAP, child)


# Compiled whole: each function that Python calls with this much state takes seconds to compile.


@njit
def decide(data, forest, model, work, move, at):
    """Sum over the rows and decide on the proposed split of a leaf, a prune, or a swap with the parent."""
    tree_update.pass_rows(data, forest, model, work, 0, at if move == GROW else -1)
    tree_update.load_leaves(forest, model, work, 0)
    if move == SWAP:
        return change_and_swap.swap_at(data, forest, model, work, 0, at)
    if move == PRUNE:
        return math.log(uniform(work.random)) < tree_update.prune_ratio(forest, model, work, 0, at)
    ratio = tree_update.grow_ratio(forest, model, work, 0, at)
    return tree_update.decide_grow(data, forest, model, work, 0, at, ratio, math.log(uniform(work.random)))


@njit
def decide_change(data, forest, model, work, at, rule):
    """Sum over the rows and decide on a new rule of a split."""
    tree_update.pass_rows(data, forest, model, work, 0, -1)
    tree_update.load_leaves(forest, model, work, 0)
    work.proposal.rule[:3] = rule
    if tree_tables.is_bottom(forest.node[0], at):
        change_bottom.mark_split(data, forest, work, 0, at)
        return change_bottom.decide_change(data, forest, model, work, 0, at)
    labels = below_split.look_below(forest, work, 0, at)
    below_split.gather_rows(data, forest, work, 0, at == 0, np.uint8(labels))
    return change_and_swap.try_rule(data, forest, model, work, 0, at, labels)


def check_pinned(decide, log_ratio):
    """Check acceptance just below the exact probability and rejection just above."""
    probability = np.exp(min(log_ratio, 0.0))
    below = min(probability * (1 - SLACK), 1 - 2.0**-52)
    assert decide(below), f"rejected below {probability}"
    if log_ratio < -SLACK:
        assert not decide(min(probability * (1 + SLACK) + 2.0**-51, 1 - 2.0**-52)), (
            f"accepted above {probability}"
        )


def quantised(make, **changes):
    """Return the toy with y on the engine's grid, where its sums are exact."""
    toy = make(**changes)
    toy.y = np.round(toy.y * 2**15) / 2**15
    return toy


@pytest.mark.parametrize("make", [toys.golden, toys.gapped, toys.missing])
def test_grow(make):
    """Every split of every leaf of every tree is decided by the exact probability."""
    toy = quantised(make)
    planted = Planted(toy)
    for tree in toy.trees:
        slots = {n.turns: k for k, n in enumerate(n for n in nodes(toy, tree) if n.tree == LEAF)}
        choices = [(slots[n.turns], rule) for n in moves.growable(toy, tree) for rule in toy.rules(n.rows)]
        for (slot, rule), step in zip(choices, moves.grow(toy, tree, MIX), strict=True):
            check_pinned(partial(planted.grows, tree, slot, rule), step.log_ratio)


@pytest.mark.parametrize("make", [toys.golden, toys.gapped, toys.missing])
def test_prune(make):
    """Every prune of every tree is decided by the exact probability."""
    toy = quantised(make)
    planted = Planted(toy)
    for tree in toy.trees:
        places = {n.turns: k for k, n in enumerate(n for n in nodes(toy, tree) if n.tree != LEAF)}
        for node, step in zip(moves.nog(toy, tree), moves.prune(toy, tree, MIX), strict=True):
            check_pinned(partial(planted.prunes, tree, places[node.turns]), step.log_ratio)


def splits_of(toy, tree):
    """Return the splits of a tree in the engine's order, which is pre-order."""
    return [n for n in nodes(toy, tree) if n.tree != LEAF]


@pytest.mark.slow  # compiling what asks the kernel takes longest here
@pytest.mark.parametrize("make", [toys.golden, toys.gapped, partial(toys.missing, sides="stored")])
def test_change(make):
    """Every new rule of every split is decided by the exact probability, never accepted if invalid below."""
    toy = quantised(make)
    planted, refused = Planted(toy, CGM), 0
    for tree in toy.trees[:: 1 + len(toy.trees) // 200]:
        ratios = {step.tree: step.log_ratio for step in moves.change(toy, tree, CGM)}
        for at, node in enumerate(splits_of(toy, tree)):
            for rule in toy.rules(node.rows):
                decide = partial(planted.changes, tree, at, rule)
                new = replaced(tree, node.turns, (rule, *node.tree[1:]))
                if new in ratios:
                    check_pinned(decide, ratios[new])
                else:
                    assert not decide(1e-15)
                    refused += 1
    assert refused > 20


@pytest.mark.parametrize("make", [toys.golden, toys.gapped, partial(toys.missing, sides="stored")])
def test_swap(make):
    """Every swap of every tree is decided by the exact probability, identical children included."""
    toy = quantised(make)
    planted, refused, accepted = Planted(toy, CGM), 0, 0
    for tree in toy.trees[:: 1 + len(toy.trees) // 400]:
        places = {n.turns: k for k, n in enumerate(splits_of(toy, tree))}
        for node, turn in moves.pairs(toy, tree):
            step = moves.swap_one(toy, tree, node, turn)
            decide = partial(planted.swaps, tree, places[(*node.turns, turn)])
            if step is None:
                assert not decide(1e-15)
                refused += 1
            else:
                check_pinned(decide, step[1])
                accepted += 1
    assert refused > 5
    assert accepted > 5
