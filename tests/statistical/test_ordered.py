"""Ordered classes: enumerated trees with thresholds drawn, Geweke's test, simulation-based calibration."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr

from sampler.bart.prior import law_of_number
from tests.reference.enumerator import Toy
from tests.reference.ordered import OrderedTrees
from tests.reference.prior import draw_forest
from tests.support.chain_driver import STEP, draws_of, fits, training, tree_counts
from tests.support.joint_law import Law, calibrated, keeps_joint_law
from tests.support.reports.p_values import ALARM, all_above, chi_square, holds, mean_is
from tests.support.toy_problems import golden

TREES, LEAF_SD = 3, 0.6
STARTS = (-0.5, 0.6)  # of two thresholds
THREE = Toy([[0, 1, 2]], [0, 1, 2], leaf_variance=0.8, sigma2=1.0)
FIVE = golden(leaf_variance=0.8, sigma2=1.0)
FIVE.y = np.array([1.0, 0.0, 1.0, 2.0, 0.0])


@pytest.mark.parametrize(
    ("toy", "thresholds", "evidence", "leaves"),
    [
        (THREE, STARTS, -3.3455101950, (0.02949282, 0.49780607, 0.47270111)),
        (FIVE, STARTS, -5.6827826869, (0.03578351, 0.34124091, 0.35278078, 0.20735746, 0.06283734)),
        (THREE, None, -3.91183157, (0.030538, 0.507993, 0.461470)),
    ],
    ids=["three rows", "five rows", "thresholds drawn"],
)
def test_golden_values(toy, thresholds, evidence, leaves):
    """The evidence by quadrature, and the law of the number of leaves, are the golden ones."""
    law = OrderedTrees(toy, thresholds)
    assert law.log_evidence == pytest.approx(evidence, abs=5e-5 if thresholds is None else 2e-7)
    np.testing.assert_allclose(law.leaves, leaves, atol=5e-6)


def test_golden_moments():
    """E[f] with thresholds known, and E of drawn thresholds, are the golden ones."""
    np.testing.assert_allclose(
        OrderedTrees(THREE, STARTS).mean_f, (-0.55016882, 0.02752693, 0.58738199), atol=2e-7
    )
    np.testing.assert_allclose(OrderedTrees(THREE).mean_thresholds, (-0.572005, 0.572013), atol=1e-4)


def test_evidences_of_all_outcomes_sum_to_one():
    """Over all classes that the rows may have, the evidences are a distribution."""
    total = 0.0
    for y in product(range(3), repeat=3):
        toy = Toy(THREE.codes, y, leaf_variance=0.8, sigma2=1.0)
        total += np.exp(OrderedTrees(toy, STARTS).log_evidence)
    assert total == pytest.approx(1.0, abs=1e-12)


def check_trees(toy, num_draws, moves="default"):
    """Check the frequency of every tree, E[f] and E of the thresholds against quadrature."""
    law = OrderedTrees(toy)
    prior = {"leaf_sd": toy.leaf_variance**0.5, "alpha": toy.alpha, "beta": toy.beta}
    data = training(
        toy.codes, toy.y, prior=prior, family="ordinal", num_trees=1, num_draws=num_draws,
        num_burnin=500, thin=40, moves=moves, seed=4,
    )  # fmt: skip
    draws = draws_of(data)
    verdict = chi_square(tree_counts(toy, draws), np.append(law.posterior, 0.0))
    thresholds = np.stack([draws.scalars["threshold 1"], draws.scalars["threshold 2"]], axis=1)
    means = {
        "thresholds": mean_is(thresholds, law.mean_thresholds),
        "f": mean_is(fits(draws, toy.codes, data.constants), law.mean_f),
    }
    print(f"\n{moves}, {num_draws} draws: {verdict}; {means}")
    holds(verdict.p)
    for p in means.values():
        holds(p)
    assert np.all(thresholds[:, 0] < thresholds[:, 1])


@pytest.mark.slow
@pytest.mark.parametrize("toy", [THREE, FIVE], ids=["three rows", "five rows"])
def test_trees_have_their_posterior_law(toy):
    """Every tree is drawn as often as enumerated with thresholds integrated out."""
    check_trees(toy, 3_000)


@pytest.mark.long
@pytest.mark.parametrize("moves", ["default", "growprune", "cgm", "growprunechange", "pg"])
@pytest.mark.parametrize("toy", [THREE, FIVE], ids=["three rows", "five rows"])
def test_trees_have_their_posterior_law_long(toy, moves):
    """Every set of moves draws trees as often as enumerated, with many more draws."""
    check_trees(toy, 60_000, moves)


class Ordered(Law):
    """States: f at the rows, the leaves of all trees and two thresholds."""

    left_out, batches, seed, of_outcomes = 6, 32, 13, True

    def __init__(self, num_rows=24, number=""):
        super().__init__("ordered", num_rows, TREES, missing=0.1, number=number)
        self.codes = self.model.codes[:, :num_rows]

    def training(self, y, seed):
        model = self.model
        entries = {"leaf_sd": LEAF_SD, "alpha": model.alpha, "beta": model.beta, "step": STEP}
        entries |= {"num_trees": model.number} if model.number else {}
        settings = {"family": "ordinal", "num_trees": TREES, "seed": seed, **self.lengths}
        data = training(self.codes, y, prior=entries, **settings)
        return replace(data, constants=replace(data.constants, thresholds=STARTS))

    def first(self, rng):
        return np.arange(self.model.num_rows) % 3

    def draw(self, rng):
        model, number = self.model, TREES
        if model.number:
            number = rng.choice(TREES + 1, p=law_of_number(model.number, TREES / 2, TREES))
        forest = draw_forest(self.codes, number, model.alpha, model.beta, LEAF_SD, rng, step=STEP)
        leaves = [*(tree.num_leaves for tree in forest.trees), *[0] * (TREES - number)]
        return forest.f, leaves, np.sort(rng.normal(size=2))

    def state_of(self, chain):
        latent = chain._likelihood.outcome.latent[: self.model.num_rows]
        f = chain.training.constants.step * (latent - chain.residual())
        return f, chain.leaf_counts, chain._likelihood.scalars[1:3].copy()

    def outcome(self, state, rng):
        f, _, thresholds = state
        return np.searchsorted(thresholds, f + rng.normal(size=len(f))).astype(float)

    def functions(self, state, y):
        f, leaves, thresholds = state
        edges = np.array([-np.inf, *thresholds, np.inf])
        own = y.astype(int)
        return {
            "first threshold": thresholds[0],
            "first threshold squared": thresholds[0] ** 2,
            "gap": thresholds[1] - thresholds[0],
            "f at a row": f[0],
            "f at a row squared": f[0] ** 2,
            "f times threshold": f[3] * thresholds[1],
            "P(y <= 1) at a row": ndtr(thresholds[1] - f[7]),
            "leaves": np.mean(leaves),
            "share of the last class": np.mean(y == 2),
            "log likelihood": np.log(ndtr(edges[own + 1] - f) - ndtr(edges[own] - f)).mean(),
        }

    def figures(self, state):
        f, _, (first, second) = state
        return {
            "first threshold": first,
            "second threshold": second,
            "f": f[0],
            "P(y <= 1)": ndtr(second - f[5]),
        }


@pytest.mark.slow
def test_joint():
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(keeps_joint_law(Ordered(), 4800, 1500), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("number", ["", "uniform"])
def test_joint_long(number):
    """Geweke's test of ordered classes with many more draws."""
    all_above(keeps_joint_law(Ordered(number=number), 80_000, 20_000), ALARM)


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform."""
    all_above(calibrated(Ordered(40), 64, 8, burnin=200, thin=12), ALARM)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many more replications."""
    all_above(calibrated(Ordered(40), 768, 16, burnin=200, thin=12), ALARM)
