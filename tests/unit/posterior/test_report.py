"""The report on a posterior agrees with its parts."""

from dataclasses import replace

import numpy as np
import pytest

from sampler import Posterior, fit
from sampler.posterior.assessment.diagnostics import depths, diagnose, evenly_spaced
from sampler.posterior.verdict import rhat_ess
from sampler.prepared_fit import reference_rows
from tests.support import fit_digests
from tests.support.models.random_forests import random_draws
from tests.support.models.random_posteriors import make_posterior


def plain_depth(feature, node):
    """Return the depth of the subtree at a node, and the node after it."""
    if feature[node] < 0:
        return 0, node + 1
    left, after = plain_depth(feature, node + 1)
    right, after = plain_depth(feature, after)
    return 1 + max(left, right), after


@pytest.mark.parametrize("grow", [0.0, 0.45, 0.6, "prior"])
def test_depths_are_those_of_a_plain_walk(grow):
    """The kernel's depths equal their definition for single leaves, typical and deep trees."""
    draws = random_draws(4, 5, 20, grow=grow)
    expected = [plain_depth(draws.feature, int(start))[0] for start in draws.tree_start[:-1]]
    assert depths(draws).tolist() == expected
    assert depths(draws[2:4]).tolist() == expected[40:80]


@pytest.mark.parametrize(("count", "most"), [(1, 500), (7, 7), (7, 500), (1000, 500), (1001, 3), (10, 2)])
def test_thinned_traces_are_even_and_whole(count, most):
    """A thinned trace includes the first and last draw, with steps equal to within one."""
    places = evenly_spaced(count, most)
    assert len(places) == min(count, most)
    assert (places[0], places[-1]) == (0, count - 1)
    steps = np.diff(places)
    assert len(steps) == 0 or steps.max() - steps.min() <= 1


def test_report_of_a_posterior():
    """Every figure equals that of `diagnostics` on the draws; counts are those of the trees."""
    posterior, _, chains = make_posterior(num_draws=(40, 50))
    report = posterior.diagnostics(max_points=11)
    f = posterior.sample(posterior.reference).transpose(2, 0, 1)
    sigma = np.array([draws.sigma[:40] for draws in chains])
    for name in ("rhat", "ess_bulk", "ess_tail", "mcse_mean", "reproducibility"):
        np.testing.assert_allclose(report["f"][name], getattr(rhat_ess, name)(f))
        np.testing.assert_allclose(report["sigma"][name], getattr(rhat_ess, name)(sigma[None])[0])
    np.testing.assert_allclose(report["f"]["sd"], f.std(axis=(1, 2), ddof=1))
    assert report["precision"] == posterior.summary().to_json()["precision"]
    assert (report["verdict"], report["draws"]) == (posterior.summary().verdict, 40)
    assert report["traces"]["draws"][:2] == [0, 4]
    assert report["traces"]["sigma"] == sigma[:, report["traces"]["draws"]].tolist()
    grow = {"proposed": 4, "accepted": 1, "acceptance": 0.25}
    assert report["moves"] == [{"chain": chain, "moves": {"grow": grow}} for chain in (0, 1)]
    leaves = np.concatenate([draws[:40].leaf_counts.reshape(-1) for draws in chains])
    assert report["trees"]["leaves"]["mean"] == leaves.mean()
    assert report["trees"]["leaves"]["share"]["2"] == np.mean(leaves == 2)
    assert sum(report["trees"]["depth"]["share"].values()) == pytest.approx(1)


def test_report_of_few_draws_and_no_counts():
    """Figures that cannot be computed are None."""
    report = diagnose(make_posterior(num_draws=(3, 3))[0].law)
    assert report["f"]["rhat"] == [None] * 80
    assert report["sigma"]["mcse_mean"] is None
    assert report["sigma"]["mean"] > 0
    assert diagnose(make_posterior(num_draws=(3, 3))[0].law, statistics=[])["moves"] == []


def test_report_of_two_classes():
    """For two classes there is no sigma, and f is a probability."""
    X = np.random.default_rng(0).uniform(size=(60, 2))
    posterior = fit(
        X,
        X[:, 0] > 0.5,
        family="probit",
        num_trees=5,
        num_chains=2,
        num_draws=20,
        num_burnin=20,
        progress=False,
    )
    report = posterior.diagnostics()
    assert report["sigma"] is None
    assert report["traces"]["sigma"] is None
    assert 0 <= min(report["f"]["mean"]) <= max(report["f"]["mean"]) <= 1


SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 60, "num_draws": 20, "thin": 2, "progress": False}


def test_what_is_usable_does_not_depend_on_the_units_of_weights():
    """All weights times 2^j change no figure of noise in units of y, and no share of groups."""
    rng = np.random.default_rng(0)
    x, weights = rng.uniform(size=(120, 2)), rng.uniform(0.5, 2, 120)
    table = {"a": x[:, 0], "b": x[:, 1], "town": np.array(["n", "e", "s"])[np.arange(120) % 3]}
    y = 3 * x[:, 0] + np.arange(120) % 3 + rng.normal(size=120) / np.sqrt(weights)
    one, other = (
        fit(table, y * 2.0**k, weights=weights * 2.0**j, groups="town", seed=1, **SHORT)
        for k, j in [(0, 0), (10, -40)]
    )
    a, b = one.summary().precision, other.summary().precision
    assert b.noise == pytest.approx(a.noise * 2.0**10)
    assert a.noise == pytest.approx(one.sigma.mean() / np.sqrt(np.exp(np.log(weights).mean())))
    assert (b.mean, b.means_usable) == (pytest.approx(a.mean * 2.0**10), a.means_usable)
    assert other.groups()[0].share == pytest.approx(one.groups()[0].share)
    rows = {name: values[:2] for name, values in table.items()}
    (warning,) = other.predict(rows).warnings
    assert "an outcome of weight 1" in warning
    assert one.predict(rows).warnings == other.predict(rows, interval="credible").warnings == []
    assert Posterior.from_bytes(other.to_bytes()).summary().precision == b


def test_what_is_usable_is_unknown_without_the_unit_of_weights():
    """Models stored without their weights' unit have no figure of noise in units of y."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(60, 2))
    posterior = fit(x, x[:, 0] + rng.normal(size=60), weights=np.full(60, 1e6), seed=1, **SHORT)
    assert posterior.summary().precision is not None
    old = replace(posterior.header, typical_weight=None)
    posterior.law.draws.header = old
    vars(posterior.law).pop("summary")
    assert posterior.summary().precision is None


def test_heavy_tailed_noise_known_by_its_prior_alone_is_reported():
    """The scale of noise with heavy tails has that prior too."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(200, 2))
    y = 3.0 * (x[:, 0] > 0.5) + 0.01 * rng.standard_t(4, size=200)
    default, informative = (
        fit(x, y, noise="t", prior=prior, seed=1, **SHORT) for prior in (None, {"lambda": 2e-5})
    )
    assert default.sigma.mean() > 2 * informative.sigma.mean()
    codes = [[reason.code for reason in each.summary().reasons] for each in (default, informative)]
    assert ["sigma_by_prior" in each for each in codes] == [True, False]


@pytest.mark.parametrize("weighted", [False, True])
def test_noise_known_by_its_prior_alone_is_reported(weighted):
    """A step with little noise: the prior of sigma, set by a linear model, outweighs the rows."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(200, 2))
    weights = np.where(np.arange(200) % 2, 1e-4, 1e4) if weighted else np.full(200, 1e4)
    y = 3.0 * (x[:, 0] > 0.5) + rng.normal(size=200) / np.sqrt(weights)
    w = weights if weighted else None
    truth = 1.0 if weighted else 0.01
    short = {"num_trees": 20, "num_burnin": 100, "num_draws": 50, "thin": 2, "seed": 1, "progress": False}
    default = fit(x, y, weights=w, noise="constant", **short)
    posterior = fit(x, y, weights=w, prior={"lambda": 0.2 * truth**2}, **short)

    code, values = default.diagnostics()["reason_codes"][-1].values()
    assert code == "sigma_by_prior"
    assert 0.25 < values["share"] < 1
    assert values["scale"] == pytest.approx(np.sqrt(default.constants["lambda_"]))
    assert "set the prior's lambda" in str(default.summary())
    assert default.sigma.mean() > 2 * truth
    assert posterior.sigma.mean() == pytest.approx(truth, rel=0.5)
    assert all(reason.code != "sigma_by_prior" for reason in posterior.summary().reasons)


@pytest.mark.parametrize(
    "case",
    [
        "bart-weights", "probit", "times", "noise-t-forest", "hurdle", "group-slopes", "classes", "ordered",
        "counts-dispersed", "bcart-mean-variance", "rjhmc-df",
    ],
)  # fmt: skip
def test_the_log_likelihood_is_of_the_reference_rows(case):
    """In each draw it is the sum over the reference rows, also after storage."""
    outcome, weighted, _ = fit_digests.CASES[case]
    X, y, weights = fit_digests.data(outcome)
    at = reference_rows(len(y))
    if outcome == "time":
        X["event"] = [row % 3 > 0 for row in range(len(y))]
    rows = ({name: [values[i] for i in at] for name, values in X.items()}, [y[i] for i in at])
    posterior = fit_digests.fitted(case)
    expected = posterior.log_likelihood(*rows, [weights[i] for i in at] if weighted else None).sum(axis=-1)
    np.testing.assert_allclose(posterior.law.log_likelihood, expected, rtol=1e-9)
    stored = Posterior.from_bytes(posterior.to_bytes())
    np.testing.assert_array_equal(stored.law.log_likelihood, posterior.law.log_likelihood)
    report = posterior.diagnostics(max_points=3)
    assert report["log_likelihood"]["mean"] == pytest.approx(
        np.average(posterior.law.log_likelihood, weights=posterior.law.weights.unequal(report["draws"]))
    )
    assert np.shape(report["traces"]["log_likelihood"]) == (report["chains"], 3)


@pytest.mark.parametrize("role", ["exposure", "offset", "treatment"])
def test_roles_count_in_the_log_likelihood(role):
    """Exposures, offsets and treatments of the reference rows are those that these rows had."""
    rng = np.random.default_rng(3)
    X = {"a": rng.normal(size=250), role: rng.uniform(0.5, 2, 250)}
    if role == "treatment":
        X[role] = rng.integers(0, 2, 250)
    y = rng.poisson(X[role]) if role == "exposure" else rng.normal(size=250)
    family = {"exposure": "poisson", "offset": "probit"}.get(role, "gaussian")
    y = y > 0 if role == "offset" else y
    posterior = fit({"a": X["a"]}, y, family=family, seed=1, **{role: X[role]}, **SHORT)
    at = reference_rows(250)
    expected = posterior.log_likelihood({name: values[at] for name, values in X.items()}, y[at]).sum(axis=-1)
    assert len(at) == 200
    np.testing.assert_allclose(posterior.law.log_likelihood, expected, rtol=1e-9)


def test_models_without_reference_outcomes_are_judged_as_before():
    """Those of earlier versions have no log-likelihood: it is no reason, and its figures are unknown."""
    posterior = make_posterior(num_draws=(40, 50))[0]
    old = Posterior.from_bytes(posterior.to_bytes())
    old.law.draws.header = replace(old.law.draws.header, reference_outcomes={})
    assert old.law.log_likelihood is None
    assert old.summary().log_likelihood["rhat"] is None
    assert old.diagnostics()["log_likelihood"] is old.diagnostics()["traces"]["log_likelihood"] is None
    assert old.convergence()["log_likelihood"] is None
