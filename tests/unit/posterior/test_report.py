"""The report on a posterior agrees with its parts."""

import numpy as np
import pytest

from sampler import fit
from sampler.posterior import rhat_ess
from sampler.posterior.report import depths, diagnose, evenly_spaced
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
    shown = evenly_spaced(count, most)
    assert len(shown) == min(count, most)
    assert (shown[0], shown[-1]) == (0, count - 1)
    steps = np.diff(shown)
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
    report = diagnose(make_posterior(num_draws=(3, 3))[0], [])
    assert report["f"]["rhat"] == [None] * 80
    assert report["sigma"]["mcse_mean"] is None
    assert report["sigma"]["mean"] > 0
    assert report["moves"] == []


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


@pytest.mark.parametrize("weighted", [False, True])
def test_noise_known_by_its_prior_alone_is_reported(weighted):
    """A step with little noise: the prior of sigma, set by a linear model, outweighs the rows."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(200, 2))
    weights = np.where(np.arange(200) % 2, 1e-4, 1e4) if weighted else np.full(200, 1e4)
    y = 3.0 * (x[:, 0] > 0.5) + rng.normal(size=200) / np.sqrt(weights)
    given = weights if weighted else None
    truth = 1.0 if weighted else 0.01
    short = {"num_trees": 20, "num_burnin": 100, "num_draws": 50, "thin": 2, "seed": 1, "progress": False}
    default = fit(x, y, weights=given, **short)
    told = fit(x, y, weights=given, prior={"lambda": 0.2 * truth**2}, **short)

    code, values = default.diagnostics()["reason_codes"][-1].values()
    assert code == "sigma_by_prior"
    assert 0.25 < values["share"] < 1
    assert values["scale"] == pytest.approx(np.sqrt(default.constants["lambda_"]))
    assert "set the prior's lambda" in str(default.summary())
    assert default.sigma.mean() > 2 * truth
    assert told.sigma.mean() == pytest.approx(truth, rel=0.5)
    assert all(reason.code != "sigma_by_prior" for reason in told.summary().reasons)
