"""Invariants of every state of a chain: a registry of checks on its trees, slots and residual."""

import numpy as np

CHECKS = []


def check(function):
    """Register a check, which takes (chain, tree number) and asserts."""
    CHECKS.append(function)
    return function


def check_all(chain):
    """Run every check on every tree, then check the residual."""
    for tree in range(len(chain.leaf_counts)):
        for one in CHECKS:
            one(chain, tree)
    residual_is_what_trees_leave(chain)


def tables(chain, tree):
    """Return (splits, leaves) of a tree: the used rows of its tables."""
    leaves = int(chain._forests[0].num_leaves[tree])
    return chain._forests[0].node[tree, : leaves - 1], chain._forests[0].leaf[tree, :leaves]


def members(chain, tree):
    """Return training rows at every split and leaf, walked from the root: {split number or ~slot: rows}."""
    nodes, _ = tables(chain, tree)
    codes, at = chain.training.codes, {}

    def walk(place, rows):
        at[place] = rows
        if place >= 0:
            feature, cut, side, left, right = nodes[place, :5]
            code = codes[feature, rows]
            goes_left = np.where(code == 255, side == 1, code <= cut)
            walk(int(left), rows[goes_left])
            walk(int(right), rows[~goes_left])

    walk(0 if len(nodes) else -1, np.arange(codes.shape[1]))
    return at


def slot_numbers(chain, tree):
    """Return the leaf slot of every training row."""
    forest, n = chain._forests[0], chain.training.codes.shape[1]
    high = forest.high[forest.plane[tree], :n].astype(int) if forest.plane[tree] >= 0 else 0
    return forest.slots[tree, :n].astype(int) + 256 * high


@check
def every_node_holds_rows(chain, tree):
    """Check that no split sends all rows one way."""
    assert all(len(rows) > 0 for rows in members(chain, tree).values())


@check
def every_node_is_reached_once(chain, tree):
    """Check that the tables hold exactly one tree: each node reached once, with its parent and depth."""
    nodes, leaves = tables(chain, tree)
    reached = members(chain, tree)
    assert sorted(reached) == sorted([*range(len(nodes)), *(~slot for slot in range(len(leaves)))])
    for number, node in enumerate(nodes):
        for child in node[3:5]:
            parent = nodes[child, 5] if child >= 0 else leaves[~child, 1]
            assert parent == number
    for leaf in leaves:
        depth, above = 0, leaf[1]
        while above >= 0:
            depth, above = depth + 1, nodes[above, 5]
        assert leaf[2] == depth


@check
def cuts_are_on_the_node_s_own_range(chain, tree):
    """Check that cuts lie between the lowest and highest code at the node; present | missing has both."""
    nodes, _ = tables(chain, tree)
    for place, rows in members(chain, tree).items():
        if place < 0:
            continue
        feature, cut = nodes[place, :2]
        code = chain.training.codes[feature, rows]
        present = code[code != 255]
        if cut == 254:
            assert len(present)
            assert len(present) < len(code)
        else:
            assert present.min() <= cut < present.max()


@check
def slots_and_counts_are_those_of_the_rules(chain, tree):
    """Check that every row's slot is the leaf its codes lead to, and that counts (weights) are exact."""
    slots, weights = slot_numbers(chain, tree), chain.training.grid_weights
    for place, rows in members(chain, tree).items():
        if place < 0:
            assert (slots[rows] == ~place).all()
            count = len(rows) if len(weights) == 0 else weights[rows].sum()
            assert chain._forests[0].count[tree, ~place] == count


@check
def growable_leaves_are_those_with_two_different_rows(chain, tree):
    """Check each leaf's flag for two rows that differ in some column."""
    _, leaves = tables(chain, tree)
    for place, rows in members(chain, tree).items():
        if place < 0:
            codes = chain.training.codes[:, rows]
            assert bool(leaves[~place, 3]) == bool((codes != codes[:, :1]).any())


def residual_is_what_trees_leave(chain):
    """Check that the sweep's residual equals y minus the sum of all leaf values exactly."""
    total = np.zeros(chain.training.codes.shape[1], np.int64)
    for tree in range(len(chain.leaf_counts)):
        total += tables(chain, tree)[1][slot_numbers(chain, tree), 0]
    probit = chain.training.settings.family == "probit"
    y = chain._likelihood.outcome.latent[: len(total)] if probit else chain.training.grid_y
    np.testing.assert_array_equal(chain.residual(), y - total)
