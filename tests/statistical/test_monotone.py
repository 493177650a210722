"""Monotone features: enumerated trees, Geweke's test, simulation-based calibration, and no violation."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.preparation.monotone import MonotoneTraining
from tests.reference.enumerator import Toy
from tests.reference.monotone import draw_values, law, share_in_order
from tests.reference.prior import draw_tree
from tests.support.chain_driver import draws_of, f_of, fits, training, tree_counts
from tests.support.joint_law import Law, calibrated, keeps_joint_law
from tests.support.reports.p_values import ALARM, all_above, chi_square, holds, mean_is
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


class Monotone(Law):
    """Rows in which few trees outgrow the leaves that ordered ones may have; states: f, numbers of leaves."""

    left_out, batches, seed, of_outcomes = 6, 32, 13, True

    def __init__(self, num_rows):
        super().__init__("monotone", num_rows, TREES, missing=0.1, beta=2.0, levels=(6, 3, 12))
        self.codes = self.model.codes[:, :num_rows]

    def training(self, y, seed):
        prior = {"leaf_sd": LEAF_SD, "alpha": self.model.alpha, "beta": self.model.beta, "sigma": SIGMA}
        settings = {"num_trees": TREES, "moves": "growprune", "seed": seed, **self.lengths}
        data = training(self.codes, y, prior=prior, **settings)
        return replace(data, parts={"monotone": MonotoneTraining(np.array(DIRECTIONS))})

    def first(self, rng):
        return rng.normal(size=self.model.num_rows)

    def draw(self, rng):
        f, counts = np.zeros(self.model.num_rows), []
        for _ in range(TREES):
            tree = draw_tree(self.codes, self.model.alpha, self.model.beta, rng)
            f += draw_values(tree.tree, self.codes, DIRECTIONS, LEAF_SD, rng)[tree.leaf]
            counts.append(tree.num_leaves)
        return f, counts

    def state_of(self, chain):
        return f_of(chain), chain.leaf_counts

    def outcome(self, state, rng):
        return state[0] + SIGMA * rng.normal(size=self.model.num_rows)

    def functions(self, state, y):
        f, counts = state
        return {
            "f at a row": f[0],
            "f at a row squared": f[0] ** 2,
            "f at two rows": f[3] * f[9],
            "spread of f": f.std(),
            "leaves": np.mean(counts),
            "leaves squared": np.mean(np.square(counts)),
            "residual": np.mean((y - f) ** 2),
        }

    def figures(self, state):
        f, _ = state
        return {"f at a row": f[0], "f at another": f[5], "spread of f": f.std()}


@pytest.mark.slow
def test_joint():
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(keeps_joint_law(Monotone(24), 4800, 1500), ALARM)


@pytest.mark.long
def test_joint_long():
    """Geweke's test of monotone features with many more draws."""
    all_above(keeps_joint_law(Monotone(24), 80_000, 20_000), ALARM)


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform."""
    all_above(calibrated(Monotone(40), 64, 8, burnin=300, thin=20), ALARM)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many more replications."""
    all_above(calibrated(Monotone(40), 768, 16, burnin=300, thin=20), ALARM)
