"""The generative tree prior simulated on coded rows of any number, by its definition."""

from dataclasses import dataclass

import numpy as np

from tests.twins.enumerator import MISSING, PRESENT_OR_MISSING


@dataclass(frozen=True)
class Sampled:
    """One tree from the prior: the leaf of every row (0, 1, ..), and what tests look at."""

    leaf: np.ndarray
    num_leaves: int
    depth: int
    uses: np.ndarray  # splits per column


def column_cuts(codes):
    """(least present code, greatest, whether any is missing); (0, 0, False) if none is present."""
    present = codes[codes != MISSING]
    missing = len(present) < len(codes)
    if not len(present):
        return 0, 0, False
    return int(present.min()), int(present.max()), missing


def draw_tree(codes, alpha, beta, rng):
    """A tree from the prior on codes uint8 [p, n]."""
    num_columns, num_rows = codes.shape
    leaf, uses = np.zeros(num_rows, int), np.zeros(num_columns, int)
    waiting, num_leaves, deepest = [(np.arange(num_rows), 0)], 0, 0
    while waiting:
        rows, depth = waiting.pop()
        ranges = [column_cuts(codes[j, rows]) for j in range(num_columns)]
        valid = [j for j, (low, high, missing) in enumerate(ranges) if high > low or missing]
        if not valid or rng.random() >= alpha * (1 + depth) ** -beta:
            leaf[rows] = num_leaves
            num_leaves += 1
            deepest = max(deepest, depth)
            continue
        j = valid[rng.integers(len(valid))]
        low, high, missing = ranges[j]
        pick = int(rng.integers(2 * (high - low) + missing))
        side, cut = pick & 1, low + pick // 2
        if pick == 2 * (high - low):
            side, cut = 0, PRESENT_OR_MISSING
        code = codes[j, rows]
        left = np.where(code == MISSING, bool(side), code <= cut)
        uses[j] += 1
        waiting += [(rows[left], depth + 1), (rows[~left], depth + 1)]
    return Sampled(leaf, num_leaves, deepest, uses)


@dataclass(frozen=True)
class SampledForest:
    """A forest from the prior with its leaf values: f at the rows and the trees it came from."""

    f: np.ndarray
    trees: list


def draw_forest(codes, num_trees, alpha, beta, leaf_sd, rng, offset=0.0):
    """m trees from the prior, leaf values N(0, leaf_sd^2); f = offset + their sum at every row."""
    trees = [draw_tree(codes, alpha, beta, rng) for _ in range(num_trees)]
    f = np.full(codes.shape[1], float(offset))
    for tree in trees:
        f += rng.normal(0, leaf_sd, tree.num_leaves)[tree.leaf]
    return SampledForest(f, trees)


def draw_sigma2(nu, lambda_, rng):
    """sigma^2 = nu lambda / chi2(nu)."""
    return nu * lambda_ / rng.chisquare(nu)
