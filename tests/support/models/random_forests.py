"""Random forests for tests of storage and prediction, and a plain walk down their trees."""

import numpy as np

from sampler.data.binning import MISSING
from sampler.storage.draws import Draws


def random_draws(seed, num_draws=3, num_trees=4, num_features=5, grow=0.45, num_codes=255, leaf_sd=20_000):
    """Return draws with trees grown at random, of any shape and depth, or as the prior does ("prior")."""
    rng = np.random.default_rng(seed)
    starts, feature, cut, side, leaf = [0], [], [], [], []
    for _ in range(num_draws * num_trees):
        depths = [0]
        while depths:
            depth = depths.pop()
            chance = 0.95 / (1 + depth) ** 2 if grow == "prior" else grow
            if rng.random() < chance and len(feature) - starts[-1] < 600:
                feature.append(rng.integers(num_features))
                cut.append(rng.integers(num_codes))
                side.append(rng.integers(2) if cut[-1] != 254 else 0)
                leaf.append(0)
                depths += [depth + 1] * 2
            else:
                feature.append(-1)
                cut.append(0)
                side.append(0)
                leaf.append(round(rng.normal(0, leaf_sd)))
        starts.append(len(feature))
    return Draws(
        num_trees=num_trees,
        sigma=rng.uniform(0.5, 1.5, num_draws),
        tree_start=np.array(starts, dtype=np.int64),
        feature=np.array(feature, dtype=np.int32),
        cut=np.array(cut, dtype=np.uint8),
        missing_left=np.array(side, dtype=np.uint8),
        leaf=np.array(leaf, dtype=np.int32),
    )


def random_codes(seed, num_features, num_rows, missing=0.2):
    """Return codes, uint8 [feature, row], with missing values."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 255, (num_features, num_rows)).astype(np.uint8)
    codes[rng.random(codes.shape) < missing] = MISSING
    return codes


def walk(draws, codes):
    """Return sums of the leaves reached, int64 [draw, row], node by node as defined."""
    sums = np.zeros((draws.num_draws, codes.shape[1]), dtype=np.int64)
    for row in range(codes.shape[1]):
        for tree in range(draws.num_draws * draws.num_trees):
            node = int(draws.tree_start[tree])
            while draws.feature[node] >= 0:
                code = codes[draws.feature[node], row]
                left = draws.missing_left[node] if code == MISSING else code <= draws.cut[node]
                node = node + 1 if left else _skip(draws.feature, node + 1)
            sums[tree // draws.num_trees, row] += draws.leaf[node]
    return sums


def _skip(feature, node):
    """Return the node after the subtree that starts here."""
    unfinished = 1
    while unfinished:
        unfinished += 1 if feature[node] >= 0 else -1
        node += 1
    return node
