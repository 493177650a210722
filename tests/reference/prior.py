"""The generative tree prior simulated by its definition, on any number of coded rows."""

from dataclasses import dataclass

import numpy as np

from tests.reference.enumerator import LEAF, MISSING, PRESENT_OR_MISSING


@dataclass(frozen=True)
class Sampled:
    """One tree from the prior: nested tuples as the enumerator's, and its leaves in pre-order.

    leaf: the leaf of every row; depths: of every leaf; growable: whether a leaf has a valid rule.
    """

    tree: tuple
    leaf: np.ndarray
    depths: list
    growable: list

    @property
    def num_leaves(self):
        return len(self.depths)


def column_cuts(codes):
    """Return (lowest present code, highest, whether any is missing); (0, 0, False) if none is present."""
    present = codes[codes != MISSING]
    if not len(present):
        return 0, 0, False
    return int(present.min()), int(present.max()), len(present) < len(codes)


def draw_tree(codes, alpha, beta, rng, num_train=None, shares=None):
    """Draw a tree from the prior on codes uint8 [p, n]; rows from `num_train` on are only routed.

    shares: probabilities of the columns [p]; equal by default.
    """
    num_rows = codes.shape[1]
    num_train = num_rows if num_train is None else num_train
    sampled = Sampled(LEAF, np.zeros(num_rows, int), [], [])

    def grown(rows, depth):
        train = rows[rows < num_train]
        ranges = [column_cuts(column[train]) for column in codes]
        valid = [j for j, (low, high, missing) in enumerate(ranges) if high > low or missing]
        if not valid or rng.random() >= alpha * (1 + depth) ** -beta:
            sampled.leaf[rows] = sampled.num_leaves
            sampled.depths.append(depth)
            sampled.growable.append(bool(valid))
            return LEAF
        if shares is None:
            j = valid[rng.integers(len(valid))]
        else:
            j = rng.choice(valid, p=shares[valid] / shares[valid].sum())
        low, high, missing = ranges[j]
        pick = int(rng.integers(2 * (high - low) + missing))
        rule = (j, PRESENT_OR_MISSING, 0) if pick == 2 * (high - low) else (j, low + pick // 2, pick & 1)
        code = codes[j, rows]
        left = np.where(code == MISSING, bool(rule[2]), code <= rule[1])
        below = grown(rows[left], depth + 1)
        return rule, below, grown(rows[~left], depth + 1)

    tree = grown(np.arange(num_rows), 0)
    return Sampled(tree, sampled.leaf, sampled.depths, sampled.growable)


@dataclass(frozen=True)
class SampledForest:
    """A forest from the prior: f at the rows, the trees, and their leaf values in pre-order."""

    f: np.ndarray
    trees: list
    values: list


def draw_forest(
    codes, num_trees, alpha, beta, leaf_sd, rng, offset=0.0, num_train=None, step=None, shares=None
):
    """Draw m trees, leaf values N(0, leaf_sd^2) on a grid of `step`; f = offset + their sum."""
    trees = [draw_tree(codes, alpha, beta, rng, num_train, shares) for _ in range(num_trees)]
    values = [rng.normal(0, leaf_sd, tree.num_leaves) for tree in trees]
    if step:
        values = [step * np.rint(value / step) for value in values]
    f = np.full(codes.shape[1], float(offset))
    for tree, value in zip(trees, values, strict=True):
        f += value[tree.leaf]
    return SampledForest(f, trees, values)


def draw_sigma2(nu, lambda_, rng):
    """Draw sigma^2 = nu lambda / chi2(nu)."""
    return nu * lambda_ / rng.chisquare(nu)
