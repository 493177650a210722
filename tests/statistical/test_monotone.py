"""Monotone features: enumerated trees, Geweke's test, simulation-based calibration, and no violation."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.bart.chain import Chain
from sampler.preparation.monotone import MonotoneTraining
from tests.reference.enumerator import Toy
from tests.reference.monotone import draw_values, law, share_in_order
from tests.reference.prior import draw_tree
from tests.support.chain_driver import draws_of, f_of, fits, training, tree_counts
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model
from tests.support.reports.p_values import (
    ALARM,
    all_above,
    chi_square,
    holds,
    mean_is,
    rank_of,
    uniform_ranks,
)
from tests.support.toy_problems import golden, missing

THREE = Toy([[0, 1, 2]], [0.6, -0.1, 0.5], leaf_variance=0.25, sigma2=0.2)
PROBLEMS = {
    "three rows": (THREE, [1]),
    "both columns rise": (golden(), [1, 1, 0]),
    "one rises, one falls": (golden(), [-1, 1, 0]),
    "missing values": (missing(), [1, 0]),
}
TREES, LEAF_SD, SIGMA = 3, 0.5, 0.6
DIRECTIONS = [1, 0, -1]


def test_golden_values():
    """The law of three rows in a column is the golden one; shares of orders are known."""
    posterior, f = law(THREE, [1], np.random.default_rng(1), 400_000)
    counts = np.bincount([len(str(tree)) for tree in THREE.trees], posterior)
    np.testing.assert_allclose(np.sort(counts[counts > 0]), (0.08227175, 0.36627244, 0.55145581), atol=2e-3)
    np.testing.assert_allclose(f, (0.027842, 0.166098, 0.421359), atol=2e-3)
    assert share_in_order(4, [(0, 1), (1, 2), (2, 3)]) == pytest.approx(1 / 24)
    assert share_in_order(4, [(0, 1), (2, 3)]) == pytest.approx(6 / 24)


def check_trees(name, num_draws):
    """Check the frequency of every tree and E[f] against their law."""
    toy, directions = PROBLEMS[name]
    posterior, f = law(toy, directions, np.random.default_rng(2), 100_000)
    prior = {
        "leaf_sd": toy.leaf_variance**0.5,
        "alpha": toy.alpha,
        "beta": toy.beta,
        "sigma": toy.sigma2**0.5,
    }
    data = training(
        toy.codes, toy.y, prior=prior, num_trees=1, num_draws=num_draws, num_burnin=500, thin=150,
        moves="growprune", seed=4,
    )  # fmt: skip
    data = replace(data, parts={"monotone": MonotoneTraining(np.array(directions))})
    draws = draws_of(data)
    verdict = chi_square(tree_counts(toy, draws), np.append(posterior, 0.0))
    mean = mean_is(fits(draws, toy.codes, data.constants), f)
    print(f"\n{name}, {num_draws} draws: {verdict}; E[f] p {mean:.3g}")
    holds(verdict.p)
    holds(mean)


@pytest.mark.parametrize("name", PROBLEMS)
def test_trees_have_their_posterior_law(name):
    """Every tree is drawn as often as enumerated, with its leaves in order."""
    check_trees(name, 2_000)


@pytest.mark.long
@pytest.mark.parametrize("name", PROBLEMS)
def test_trees_have_their_posterior_law_long(name):
    """Trees are drawn as often as enumerated in many more draws."""
    check_trees(name, 30_000)


def draw_state(model, rng):
    """Draw f at the rows and the leaves of all trees from the prior."""
    codes = model.codes[:, : model.num_rows]
    f, counts = np.zeros(model.num_rows), []
    for _ in range(TREES):
        tree = draw_tree(codes, model.alpha, model.beta, rng)
        f += draw_values(tree.tree, codes, DIRECTIONS, LEAF_SD, rng)[tree.leaf]
        counts.append(tree.num_leaves)
    return f, counts


def functions_of(f, counts, y):
    """Return the functions that are compared."""
    return {
        "f at a row": f[0],
        "f at a row squared": f[0] ** 2,
        "f at two rows": f[3] * f[9],
        "spread of f": f.std(),
        "leaves": np.mean(counts),
        "leaves squared": np.mean(np.square(counts)),
        "residual": np.mean((y - f) ** 2),
    }


def start(model, y, seed):
    """Start a chain."""
    prior = {"leaf_sd": LEAF_SD, "alpha": model.alpha, "beta": model.beta, "sigma": SIGMA}
    data = training(
        model.codes[:, : model.num_rows], y, prior=prior, num_trees=TREES, moves="growprune", seed=seed,
        **ENDLESS,
    )  # fmt: skip
    return Chain.start(replace(data, parts={"monotone": MonotoneTraining(np.array(DIRECTIONS))}), 0)


def model_of(num_rows):
    """Return rows in which few trees outgrow the leaves that ordered ones may have."""
    return Model("monotone", num_rows=num_rows, num_trees=TREES, missing=0.1, beta=2.0, levels=(6, 3, 12))


def joint(rounds, draws):
    """Return the p-values of Geweke's test by function."""
    model, rng, prior = model_of(24), np.random.default_rng(7), []
    for _ in range(draws):
        f, counts = draw_state(model, rng)
        prior.append(functions_of(f, counts, f + SIGMA * rng.normal(size=len(f))))
    chain = start(model, rng.normal(size=model.num_rows), 3)

    def observe(chain):
        f = f_of(chain)
        y = f + SIGMA * rng.normal(size=len(f))
        return functions_of(f, chain.leaf_counts, y), y

    return keeps_joint_law(chain, prior, observe, rounds, left_out=6, batches=32)


@pytest.mark.slow
def test_joint():
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(joint(4800, 1500), ALARM)


@pytest.mark.long
def test_joint_long():
    """Geweke's test of monotone features with many more draws."""
    all_above(joint(80_000, 20_000), ALARM)


def calibrated(count, bins):
    """Return p-values of the truth's ranks among 63 draws being uniform over replications."""
    model, rng, ranks = model_of(40), np.random.default_rng(13), []
    for seed in range(count):
        f, _ = draw_state(model, rng)
        truth = f[0], f[5], f.std()
        chain, drawn = start(model, f + SIGMA * rng.normal(size=len(f)), seed), []
        chain.run(300)
        for _ in range(63):
            chain.run(20)
            own = f_of(chain)
            drawn.append((own[0], own[5], own.std()))
        ranks.append([rank_of(*pair, rng) for pair in zip(truth, np.transpose(drawn), strict=True)])
    names = ("f at a row", "f at another", "spread of f")
    return {name: uniform_ranks(own, 63, bins) for name, own in zip(names, np.transpose(ranks), strict=True)}


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform."""
    all_above(calibrated(64, 8), ALARM)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many more replications."""
    all_above(calibrated(768, 16), ALARM)
