"""The engine under test: chains on coded data with absolute constants, and its draws as plain trees."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np

from sampler.bart.chain import Chain
from sampler.bart.prior import calibrate
from sampler.bart.state import can_split
from sampler.chains import resume_chain, start_chain
from sampler.kernels.arrays import ABSENT, LEFT, PARENT, RIGHT
from sampler.moves import MOVE_SETS
from sampler.preparation import prepare
from sampler.settings import Settings
from sampler.storage.draws import concatenate
from sampler.training import Training
from tests.reference.enumerator import LEAF, MISSING

# y up to 1,000 stays inside the grid (heavy tails of the noise), and rounding has no measurable effect
STEP = 2.0**-15
RESTRUCTURED = {"grow": 0.3, "prune": 0.3, "restructure": 0.4}


def training(codes, y, *, weights=None, prior=None, **settings):
    """Make training data for the engine; `prior` has absolute constants, including the grid step."""
    codes = np.ascontiguousarray(codes, np.uint8)
    y = np.asarray(y, float)
    num_codes = np.array([max([int(c) for c in column if c != MISSING], default=-1) + 1 for column in codes])
    resolved = Settings.resolve(**{"num_chains": 1, "num_burnin": 0, "thin": 1} | settings)
    on_grid = resolved.family in ("gaussian", "probit")
    prior = ({"offset": 0.0, "step": STEP} if on_grid else {}) | (prior or {})
    constants = calibrate(y, codes.astype(float), weights, resolved, prior)
    return Training(codes, num_codes, y, weights, constants, resolved)


def of_toy(toy, prior=None, **settings):
    """Set up the engine for an enumerated problem with its constants; noise is known unless in `prior`."""
    prior = {
        "leaf_sd": toy.leaf_variance**0.5,
        "alpha": toy.alpha,
        "beta": toy.beta,
    } | ({"sigma": toy.sigma2**0.5} if prior is None else prior)
    return training(toy.codes, toy.y, weights=toy.weights, prior=prior, **settings)


def move_sets():
    """Return the named move sets; "default" is dropped for another name of the same mix."""
    names = sorted(MOVE_SETS, key=lambda name: name != "default")
    return sorted({tuple(sorted(MOVE_SETS[name].items())): name for name in names}.values())


def mixes():
    """Return the named move sets, and one with the move that no set has."""
    return [*move_sets(), RESTRUCTURED]


def draws_of(data, chain=0):
    """Return all kept draws of a whole chain."""
    running = Chain.start(data, chain)
    running.run(running.iterations)
    return running.take()


def check_resuming(data, *, chain=0, run=lambda running: running.run(1), burnin=20):
    """Compare a chain resumed from a checkpoint after each piece with a whole one, bit for bit.

    Parameters
    ----------
    data
        The training.
    chain
        The chain's number.
    run
        Function (chain) that runs a piece: one iteration by default.
    burnin
        Most iterations of the burn-in, to which it is cut: later ones are no different.

    Returns
    -------
    Draws
        Those of the whole chain.

    """
    burnin = min(data.settings.num_burnin or 0, burnin)
    data = replace(data, settings=replace(data.settings, num_burnin=burnin))
    whole, running, parts = start_chain(data, chain), start_chain(data, chain), []
    while not whole.done:
        whole.run(10**6)
    while not running.done:
        run(running)
        parts.append(running.take())
        running = resume_chain(data, running.checkpoint())
    assert running.checkpoint() == whole.checkpoint()
    assert running.statistics() == whole.statistics()
    assert running.take() is None
    draws = whole.take()
    assert concatenate([part for part in parts if part is not None]) == draws
    return draws


def with_outcome(chain, y):
    """Replace the outcome of a running chain, keeping trees, leaf values, sigma and random numbers."""
    assert not chain.done, "a chain that is done stands still: it needs more iterations than the test makes"
    chain.training = replace(chain.training, y=np.asarray(y, float))
    chain._recompute()


def f_of(chain):
    """Return f of the chain's state at its rows, from the running residual."""
    constants, rows = chain.training.constants, len(chain.training.y)
    probit = chain.training.settings.family == "probit"
    outcome = chain._likelihood.outcome.latent[:rows] if probit else chain.training.grid_y
    return constants.offset + constants.step * (outcome - chain.residual())


def tree_keys(draws):
    """Return the bytes of every tree without leaf values, [draw][tree]: equal keys are equal trees."""
    nodes = np.stack([(draws.feature + 1).astype(np.uint8), draws.cut, draws.missing_left], axis=1)
    raw, start = nodes.tobytes(), (3 * draws.tree_start).tolist()
    flat = [raw[a:b] for a, b in pairwise(start)]
    m = draws.num_trees
    return [flat[i : i + m] for i in range(0, len(flat), m)]


def decode(key):
    """Convert a tree key to the nested tuples of the twins."""

    def read(at):
        if key[at] == 0:
            return LEAF, at + 3
        rule = (key[at] - 1, key[at + 1], key[at + 2])
        left, after = read(at + 3)
        right, after = read(after)
        return (rule, left, right), after

    tree, end = read(0)
    assert end == len(key)
    return tree


def tree_counts(toy, draws):
    """Count the draws of each tree of `toy.trees`, with a last cell for trees outside the support; m = 1."""
    counts = np.zeros(len(toy.trees) + 1)
    for key, number in Counter(key for (key,) in tree_keys(draws)).items():
        counts[toy.index.get(toy.canonical(decode(key)), -1)] += number
    return counts


def partition_counts(forest, draws):
    """Count the draws of each tuple of row partitions, with a last cell for those outside the support."""
    toy, places = forest.toy, {}
    shape = (len(forest.grams),) * forest.num_trees
    counts = np.zeros(len(forest.tuples) + 1)
    for keys, number in Counter(map(tuple, tree_keys(draws))).items():
        for key in keys:
            if key not in places:
                place = toy.index.get(toy.canonical(decode(key)))
                places[key] = None if place is None else int(forest.partition[place])
        places_of = [places[key] for key in keys]
        counts[-1 if None in places_of else np.ravel_multi_index(places_of, shape)] += number
    return counts


def leaf_places(tree, codes):
    """Return for every row of codes [p, n] the pre-order position of its leaf."""
    place = np.zeros(codes.shape[1], int)

    def walk(node, rows, at):
        if node == LEAF:
            place[rows] = at
            return at + 1
        (column, cut, side), left, right = node
        code = codes[column, rows]
        goes_left = np.where(code == MISSING, bool(side), code <= cut)
        after = walk(left, rows[goes_left], at + 1)
        return walk(right, rows[~goes_left], after)

    walk(tree, np.arange(codes.shape[1]), 0)
    return place


def fits(draws, codes, constants):
    """Compute f at rows of codes, [draw, row], by walking down every tree in plain Python."""
    places, out = {}, np.empty((draws.num_draws, codes.shape[1]))
    for d, keys in enumerate(tree_keys(draws)):
        total = np.zeros(codes.shape[1])
        for t, key in enumerate(keys):
            if key not in places:
                places[key] = leaf_places(decode(key), codes)
            total += draws.leaf[draws.tree_start[d * draws.num_trees + t] + places[key]]
        out[d] = constants.offset + constants.step * total
    return out


def plant(chain, sampled, sigma2):
    """Set a chain's state to a forest sampled by the twins (values on the chain's grid) and sigma^2."""
    step = chain.training.constants.step
    while chain._forests[0].leaf.shape[1] < max(tree.num_leaves for tree in sampled.trees) + 1:
        chain._enlarge_trees()
    (forest,) = chain._forests
    for t, (tree, values) in enumerate(zip(sampled.trees, sampled.values, strict=True)):
        if tree.num_leaves:
            _plant_tree(forest.node[t], forest.leaf[t], tree, np.rint(values / step).astype(int))
        else:  # absent
            forest.leaf[t, 0] = 0, ABSENT, 0, can_split(chain._data)
        forest.num_leaves[t] = tree.num_leaves
    chain._noise[0] = sigma2 / step**2
    chain._recompute()


def _plant_tree(node, leaf, sampled, values):
    """Write one tree into the engine's tables, nodes and leaves numbered in pre-order."""
    numbers = {"node": 0, "leaf": 0}

    def write(tree, parent):
        if tree == LEAF:
            slot = numbers["leaf"]
            numbers["leaf"] += 1
            leaf[slot] = values[slot], parent, sampled.depths[slot], sampled.growable[slot]
            return ~slot
        at = numbers["node"]
        numbers["node"] += 1
        node[at, :3] = tree[0]
        node[at, PARENT] = parent
        node[at, LEFT] = write(tree[1], at)
        node[at, RIGHT] = write(tree[2], at)
        return at

    write(sampled.tree, ABSENT)


def wide_training(moves="default"):
    """Make training data for few trees with hundreds of leaves, whose slots take two bytes."""
    rng = np.random.default_rng(8)
    X = rng.uniform(size=(1500, 5))
    prior = {"alpha": 0.9999, "beta": 0.02, "sigma": 0.02, "leaf_sd": 1.0}
    y = rng.normal(size=1500)
    return prepare(
        X, y, num_trees=2, num_chains=1, num_burnin=0, num_draws=40, thin=250, prior=prior, moves=moves
    ).training
