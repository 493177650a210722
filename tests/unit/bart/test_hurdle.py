"""Hurdles: both parts as of fits of their own, the law against its definition, files, extension, refusals."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from sampler import DataWarning, SettingsError, fit
from sampler.bart.chain import Chain
from sampler.posterior.assessment.row_diagnostics import errors
from sampler.preparation import prepare
from tests.support.chain_driver import check_resuming

SHORT = {"num_trees": 8, "num_chains": 2, "num_burnin": 20, "num_draws": 15, "thin": 1, "progress": False}
PLAIN = {"noise": "constant", "transform": "none", "linear": False}


def claims(rows, seed=0):
    """Outcomes of which some 40% are 0 by one column, and the others positive by another."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 3))
    y = np.exp(1 + 1.5 * X[:, 1] + 0.5 * rng.normal(size=rows))
    y[rng.uniform(size=rows) < ndtr(2 * X[:, 0] - 1.3)] = 0.0
    return X, y


def test_trees_of_the_numbers_have_the_rows_of_the_numbers():
    """Each forest has a slot for every row that its data have, and no more: passes go by the slots."""
    X, y = claims(400)
    chain = Chain.start(prepare(X, y, family="hurdle", num_trees=8, num_chains=2).training, 0)
    data = (chain._likelihood.data_of(plan, chain._data) for plan in chain._plans)
    widths = [each.codes.shape[1] for each in data]
    assert [forest.slots.shape[1] for forest in chain._forests] == widths
    assert len({*widths}) == 2


@pytest.mark.parametrize("noise", ["constant", "t-forest", "mixture"])
def test_a_chain_resumes_bit_for_bit(noise):
    """From a checkpoint after any iteration, with noise of any kind and a line."""
    X, y = claims(80)
    settings = {"num_trees": 5, "num_chains": 1, "num_burnin": 8, "num_draws": 5, "thin": 1, "noise": noise}
    settings |= {"linear": True, "transform": "none", "start": "annealed"}
    check_resuming(prepare(X, y, family="hurdle", **settings).training)


def test_the_prior_is_that_of_the_others():
    """Constants, transform and choices are those of a fit to the outcomes off the point."""
    X, y = claims(300)
    hurdle = prepare(X, y, family="hurdle", noise="constant", linear=False)
    others = prepare(X[y > 0], y[y > 0], noise="constant", linear=False)
    assert hurdle.transform.kind == others.transform.kind == "log"
    for name in ("offset", "leaf_sd", "lambda_", "sigma_start", "step"):
        assert getattr(hurdle.training.constants, name) == getattr(others.training.constants, name)
    np.testing.assert_array_equal(hurdle.training.y[y > 0], others.training.y)
    assert hurdle.training.constants.point == 0.0
    assert ndtr(hurdle.training.constants.point_offset) == pytest.approx(np.mean(y == 0))


LAWS = {
    "plain": PLAIN,
    "log": PLAIN | {"transform": "log"},
    "power": PLAIN | {"transform": "yeo-johnson"},
    "tails": PLAIN | {"noise": "t"},
    "by row": PLAIN | {"noise": "forest"},
}


@pytest.mark.parametrize("case", LAWS)
def test_figures_are_those_of_the_mixture(case):
    """Densities, probabilities, quantiles, scores, means and variances agree with numeric integrals."""
    X, y = claims(200)
    posterior = fit(X, y, family="hurdle", **SHORT | LAWS[case])
    law = posterior.law.outcome_law(posterior.encode(X[:2]))
    least, most = (
        law.others.quantile(q)[0] for q in ((1e-4, 1 - 1e-4) if case == "tails" else (1e-7, 1 - 1e-7))
    )
    inside = np.linspace(least, most, 30_001)
    middle = 0.5 * (inside[1:] + inside[:-1])
    at = [np.exp(law.log_density(np.array([x, x]))[0]) for x in middle[::50]]
    share = (1 - law.mass) * (law.others.below(np.full(2, most)) - law.others.below(np.full(2, least)))
    assert np.sum(at) * 50 * (inside[1] - inside[0]) == pytest.approx(share[0], rel=0.02)
    assert np.exp(law.log_density(np.zeros(2))) == pytest.approx(law.mass)
    assert law.below(np.zeros(2), np.ones(2)) - law.below(np.zeros(2), np.zeros(2)) == pytest.approx(law.mass)
    for q in (0.02, 0.2, 0.5, 0.77, 0.95):
        quantile = law.quantile(q)
        less, up_to = (law.below(quantile, np.full(2, share)) for share in (0.0, 1.0))
        assert np.all((less <= q + 1e-9) & (q - 1e-9 <= up_to))

    def squares(x, outcome):
        return (law.below(np.array([x, x]), np.ones(2))[0] - (x >= outcome)) ** 2

    for outcome in (0.0, 3.0, 11.0):
        ends = sorted({min(least, -1.0), 0.0, outcome, most})
        pieces = [quad(squares, a, b, (outcome,), epsabs=1e-6, limit=200)[0] for a, b in pairwise(ends)]
        score = law.crps(np.full(2, outcome))[0]
        assert score == pytest.approx(sum(pieces), rel=0.01 if case == "tails" else 1e-3)
    drawn = posterior.sample_predictive(np.repeat(X[:1], 400, axis=0))
    predicted = posterior.predict(X[:1])
    assert predicted.mean[0] == pytest.approx(drawn.mean(), abs=5 * drawn.std() / 40)
    assert np.mean(drawn == 0) == pytest.approx(law.mass[0], abs=0.05)
    logs = posterior.log_likelihood(X[:2], [0.0, 3.0])
    assert np.log(np.exp(logs).mean(axis=(0, 1))) == pytest.approx(law.log_density(np.array([0.0, 3.0])))


def test_every_answer():
    """Explanations, scores, conformal intervals and densities answer of a hurdle as of numbers."""
    X, y = claims(200, seed=3)
    posterior = fit(X, y, family="hurdle", calibrate="holdout", holdout=0.3, **SHORT)
    assert posterior.predict(X[:4], interval="calibrated", level=0.8).lower.min() >= 0
    (bounds,) = errors(posterior.law, posterior.encode(X[:4]), posterior.predict(X[:4])).intervals
    assert np.all((bounds.upper > 0) & (bounds.upper < 10))
    scores = posterior.score(X, y)
    assert np.isfinite([scores["log_score"], scores["crps"], scores["rmse"]]).all()
    effect = posterior.partial_dependence(["x1"], X[:50])
    assert effect.mean[-1] < effect.mean[0]
    assert "where it is not 0" in posterior.shap(X[:2], X[:20]).scale
    assert posterior.importance(X, y, permutations=2)
    density = posterior.density(X[:1])
    share = np.sum(density["outcome"]) * (density["x"][1] - density["x"][0])
    assert density["point"] == pytest.approx((0.0, 1 - share), abs=0.03)
    assert posterior.summary().verdict


def test_the_point_is_found_or_named():
    """It is the lowest or the highest value, if many rows have it, or the prior's."""
    X, y = claims(100)
    top = fit(X, np.minimum(y, 8.0), family="hurdle", **SHORT | {"prior": {"point": 8.0}})
    assert top.header.constants["point"] == 8.0
    assert prepare(X, -y, family="hurdle").training.constants.point == 0.0
    inside = np.where(y == 0, 4.0, y)
    assert prepare(X, inside, family="hurdle", prior={"point": 4}).training.constants.point == 4.0
    with pytest.raises(SettingsError, match="name the value by prior point"):
        prepare(X, inside, family="hurdle")
    with pytest.raises(SettingsError, match=r"of the outcomes 0 rows of 100 are 5"):
        prepare(X, y, family="hurdle", prior={"point": 5})


def test_points_that_few_rows_have_are_refused():
    """And the point, where other outcomes have no logarithm."""
    X, y = claims(60)
    logs = SHORT | {"family": "hurdle", "transform": "log"}
    with pytest.raises(SettingsError, match="of the outcomes 1 row of 60"):
        fit(X, y, **logs | {"prior": {"point": float(y.max())}})
    values = np.where(y > 5, 5.0, y)
    with pytest.raises(SettingsError, match=f"row {int(np.argmin(y)) + 1} has 0"):
        fit(X, values, **logs | {"prior": {"point": 5.0}})


def test_the_verdict_on_intervals_names_it():
    """Advice is this family, where intervals of a gaussian fit fail beside a point mass."""
    X, y = claims(900, seed=2)
    with pytest.warns(DataWarning, match="hurdle"):  # before the fit too
        posterior = fit(X[:300], y[:300], **SHORT | PLAIN)
    advice = posterior.score(X[300:], y[300:], quick=True)["intervals_verdict"]["advice"]
    assert "family=hurdle" in advice
