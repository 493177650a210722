"""Hurdles: enumerated trees of both parts, simulation-based calibration, and coverage of unseen rows."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.special import ndtr

from sampler import fit
from sampler.prior import HurdleConstants
from tests.reference.enumerator import Toy
from tests.reference.ordered import OrderedTrees
from tests.reference.prior import draw_forest
from tests.support.chain_driver import STEP, draws_of, training, tree_counts
from tests.support.joint_law import Law, calibrated
from tests.support.reports.p_values import ALARM, all_above, chi_square, holds
from tests.support.toy_problems import GOLDEN_X, GOLDEN_Y

AT = np.array([False, True, False, False, True])
OFFSET, POINT_SD, SIGMA = -0.3, 0.9, 0.25
TREES, LEAF_SD = 3, 0.6
HURDLE = {"point": 0.0, "point_offset": OFFSET}


def of_hurdle(codes, y, at_point, prior, point_sd, **settings):
    """Set up a chain's training of outcomes y of which some are at the point."""
    data = training(codes, np.where(at_point, 0.0, y), prior=prior, **settings)
    constants = HurdleConstants(**asdict(data.constants), **HURDLE, point_sd=point_sd)
    settings = replace(data.settings, family="hurdle")
    return replace(data, constants=constants, settings=settings, at_point=at_point)


def check_trees(num_draws, moves="default"):
    """Check the frequency of every tree of either part, and of each pair of their numbers of leaves."""
    toys = (
        Toy(GOLDEN_X.T[:, ~AT], GOLDEN_Y[~AT], sigma2=SIGMA**2),
        Toy(GOLDEN_X.T, AT, leaf_variance=POINT_SD**2),
    )
    of_point = OrderedTrees(toys[1], np.array([-OFFSET, 9.0]))  # the second class is all above the threshold
    laws = toys[0].posterior, of_point.posterior
    prior = {"leaf_sd": toys[0].leaf_variance ** 0.5, "sigma": SIGMA, "alpha": 0.95, "beta": 1.0}
    data = of_hurdle(
        GOLDEN_X.T, GOLDEN_Y, AT, prior, POINT_SD, num_trees=1, num_draws=num_draws, num_burnin=1000,
        thin=40 if moves in ("default", "pg") else 150, moves=moves, seed=3,
    )  # fmt: skip
    draws = draws_of(data)
    parts = draws, draws.forests["at_point"]
    for name, toy, law, part in zip(("numbers", "point"), toys, laws, parts, strict=True):
        verdict = chi_square(tree_counts(toy, part), np.append(law, 0.0))
        print(f"\n{name}, {moves}, {num_draws} draws: {verdict}")
        holds(verdict.p)
    leaves = [part.leaf_counts[:, 0] for part in parts]
    sizes = [np.bincount(own, minlength=6)[1:] / num_draws for own in leaves]
    pairs = np.bincount(6 * leaves[0] + leaves[1], minlength=36).reshape(6, 6)[1:, 1:]
    both = chi_square(pairs.ravel(), np.outer(*sizes).ravel())
    print(f"pairs of numbers of leaves: {both}")
    holds(both.p)


def test_evidence_is_of_both_parts():
    """Over all sets of rows at the point, and outcomes of the others, the law of the data sums to one."""
    total = 0.0
    for labels in np.ndindex((2,) * 5):
        toy = Toy(GOLDEN_X.T, labels, leaf_variance=POINT_SD**2)
        total += np.exp(OrderedTrees(toy, np.array([-OFFSET, 9.0])).log_evidence)
    assert total == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
def test_trees_have_their_posterior_law():
    """Trees of the numbers and of the point are drawn as often as enumerated apart, and independently."""
    check_trees(3_000)


@pytest.mark.long
@pytest.mark.parametrize("moves", ["default", "growprune", "cgm", "pg"])
def test_trees_have_their_posterior_law_long(moves):
    """Every set of moves draws trees of both parts as often as enumerated, with many more draws."""
    check_trees(60_000, moves)


class Hurdle(Law):
    """States: f of the rows that are not at the point, g of all, and which are at the point."""

    seed = 13

    def draw(self, rng):
        model, at = self.model, np.zeros(self.model.num_rows, bool)
        codes, shared = model.codes[:, : model.num_rows], (model.alpha, model.beta)
        while not 1 < at.sum() < len(at) - 1:
            g = draw_forest(codes, TREES, *shared, POINT_SD, rng, step=STEP).f
            at = rng.uniform(size=len(g)) < ndtr(OFFSET + g)
        return draw_forest(codes[:, ~at], TREES, *shared, LEAF_SD, rng, step=STEP).f, g, at

    def outcome(self, state, rng):
        f, _, at = state
        y = np.zeros(len(at))
        y[~at] = f + rng.normal(0, 0.5, len(f))
        return y

    def training(self, y, seed):
        entries = {"leaf_sd": LEAF_SD, "sigma": 0.5, "alpha": self.model.alpha, "beta": self.model.beta}
        codes = self.model.codes[:, : self.model.num_rows]
        return of_hurdle(codes, y, y == 0, entries, POINT_SD, num_trees=TREES, seed=seed, **self.lengths)

    def state_of(self, chain):
        at, likelihood = chain.training.at_point, chain._likelihood
        numbers, probit, rows = likelihood._numbers, likelihood._probit, len(at)
        of_f = STEP * (chain.training.grid_y[~at] - numbers.models[0].residual[: rows - at.sum()])
        of_g = 2.0**-17 * (probit.outcome.latent[:rows] - probit.models[0].residual[:rows])
        return of_f, of_g, at

    def figures(self, state):
        f, g, _ = state
        return {"f": f[0], "mean of f": f.mean(), "g": g[0], "mean of g": g.mean()}


def ranks(count, bins):
    """Return the p-values of calibration."""
    return calibrated(Hurdle("hurdle", 60, TREES, missing=0.1), count, bins, burnin=300, thin=12)


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform, of both parts."""
    all_above(ranks(64, 8), ALARM)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many more replications."""
    all_above(ranks(768, 16), ALARM)


@pytest.mark.slow
def test_intervals_of_unseen_rows_cover():
    """Intervals contain at least as many of 2,000 unseen outcomes as they claim, and the verdict is held.

    Those that end at the point have all of it inside.
    """
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(2600, 4))
    y = np.exp(1 + 2 * X[:, 1] + 0.7 * rng.normal(size=2600))
    y[rng.uniform(size=2600) < ndtr(2.5 * X[:, 0] - 1.5)] = 0.0
    posterior = fit(X[:600], y[:600], family="hurdle", num_chains=2, seed=1, progress=False)
    scores = posterior.score(X[600:], y[600:], quick=True)
    print([round(each["coverage"], 3) for each in scores["coverage"]])
    assert posterior.transform is not None
    assert all(each["coverage"] - each["expected"] > -0.04 for each in scores["coverage"])
    assert scores["intervals_verdict"]["verdict"] == "held"
