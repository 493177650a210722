"""Trees that rise with some columns, by their definition: which leaves are below which, and their law."""

from itertools import permutations
from math import factorial

import numpy as np

from tests.reference.enumerator import LEAF, MISSING, leaves


def boxes(tree, codes):
    """Return the codes that each leaf takes of each column, in pre-order; 255 where rows lack the column."""
    whole = [{*range(255)} | ({MISSING} if MISSING in column else set()) for column in np.asarray(codes)]
    found = []

    def walk(node, box):
        if node == LEAF:
            found.append(box)
            return
        (column, cut, side), left, right = node
        goes_left = {c for c in box[column] if (bool(side) if c == MISSING else c <= cut)}
        walk(left, [goes_left if k == column else own for k, own in enumerate(box)])
        walk(right, [box[column] - goes_left if k == column else own for k, own in enumerate(box)])

    walk(tree, whole)
    return found


def relations(tree, codes, directions):
    """Return the pairs (low, high) of leaves of which one has to be at most the other."""
    found, all_boxes = [], boxes(tree, codes)
    for low, first in enumerate(all_boxes):
        for high, second in enumerate(all_boxes):
            apart = [k for k in range(len(first)) if not first[k] & second[k]] if low != high else []
            if len(apart) != 1 or directions[apart[0]] == 0:
                continue
            own, other = (box[apart[0]] - {MISSING} for box in (first, second))
            if own and other and (max(own) < min(other)) == (directions[apart[0]] > 0):
                found.append((low, high))
    return found


def in_order(values, pairs):
    """Tell which draws of leaves' values [.., leaf] are in order."""
    inside = np.ones(np.shape(values)[:-1], bool)
    for low, high in pairs:
        inside &= values[..., low] <= values[..., high]
    return inside


def share_in_order(count, pairs):
    """Return e(T) / b!, the probability that independent values of one law are in order."""
    if not pairs:
        return 1.0
    ranks = np.array([*permutations(range(count))])
    return in_order(ranks, pairs).sum() / factorial(count)


def law(toy, directions, rng, draws=20_000):
    """Return p(T | y) and E[f] of one tree of an enumerated problem, by draws of each tree's leaves."""
    weights, means = [], []
    for tree, prior, evidence in zip(toy.trees, toy.log_prior, toy.log_likelihood, strict=True):
        parts = leaves(toy, tree)
        size = np.array([len(toy.members(rows)) for rows in parts])
        total = np.array([toy.y[toy.members(rows)].sum() for rows in parts])
        spread = toy.sigma2 + size * toy.leaf_variance
        sd = np.sqrt(toy.sigma2 * toy.leaf_variance / spread)
        values = toy.leaf_variance * total / spread + sd * rng.normal(size=(draws, len(parts)))
        pairs = relations(tree, toy.codes, directions)
        inside = in_order(values, pairs)
        f = np.zeros(toy.num_rows)
        for k, rows in enumerate(parts):
            f[toy.members(rows)] = values[inside, k].mean() if inside.any() else 0.0
        weights.append(np.exp(prior + evidence) * inside.mean() / share_in_order(len(parts), pairs))
        means.append(f)
    posterior = np.array(weights) / np.sum(weights)
    return posterior, posterior @ np.array(means)


def draw_values(tree, codes, directions, leaf_sd, rng):
    """Draw the leaves' values of a tree from its prior, by rejection."""
    pairs = relations(tree, codes, directions)
    while True:
        values = leaf_sd * rng.normal(size=len(boxes(tree, codes)))
        if in_order(values, pairs):
            return values
