"""Conversion of draws to ArviZ."""

import sys

import numpy as np
import pytest
from scipy.special import logsumexp

from sampler import SettingsError
from sampler.posterior.charts import arviz as export
from sampler.posterior.charts.arviz import draws_of
from tests.support import answer_digests, fit_digests
from tests.support.models.random_posteriors import make_posterior


def test_shapes_are_chain_draw_row():
    """Arrays have the shapes of `arviz_base.from_dict`: chains first, then draws."""
    posterior, X, _ = make_posterior()
    (arrays,) = draws_of(posterior).values()
    assert arrays["sigma"].shape == (2, 12)
    np.testing.assert_array_equal(arrays["f"], posterior.sample(X))  # all 80 rows are reference rows


@pytest.mark.parametrize("case", answer_digests.CASES)
def test_groups_of_known_outcomes(case):
    """Draws of outcomes and log likelihoods are of the rows given; their mean is the predictive density."""
    outcome, weighted, _ = fit_digests.CASES[case]
    X, y, weights = fit_digests.data(outcome)
    X = {name: values[:20] for name, values in X.items()} | {"event": [row % 3 > 0 for row in range(20)]}
    X = X if outcome == "time" else {name: values for name, values in X.items() if name != "event"}
    rows = (X, y[:20], weights[:20] if weighted else None)
    posterior = fit_digests.fitted(case)
    groups = draws_of(posterior, *rows)
    name, shape = posterior.schema.target.name, (posterior.num_chains, posterior.num_draws, 20)
    assert groups["posterior"]["f"].shape[:3] == groups["posterior_predictive"][name].shape == shape
    log_likelihood = posterior.log_likelihood(*rows)
    share = posterior.law.weights.shares(posterior.num_draws)
    log_score = np.mean(logsumexp(log_likelihood.reshape(-1, 20), axis=0, b=share[:, None]))
    scores = posterior.score(*rows)
    assert log_score == pytest.approx(scores.get("log_score", -scores.get("log_loss", 0.0)), abs=1e-9)
    kept = groups["log_likelihood"][name]
    if posterior.weights is None:
        np.testing.assert_array_equal(kept, log_likelihood)
    else:  # draws are repeated in proportion to their weights
        mean = np.mean(logsumexp(kept, axis=(0, 1)) - np.log(share.size))
        assert mean == pytest.approx(log_score, abs=0.05)


def test_without_arviz_the_package_is_named(monkeypatch):
    """Without ArviZ the error says which package to install."""
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    monkeypatch.setattr(export, "_version_of", lambda _package: "")
    with pytest.raises(ImportError, match="arviz-base"):
        make_posterior()[0].to_arviz()


def test_arviz_reads_the_draws():
    """ArviZ has the draws as `sigma` (chain, draw) and `f` (chain, draw, row)."""
    pytest.importorskip("arviz_base")
    posterior = make_posterior()[0]
    tree = posterior.to_arviz()
    assert tree["posterior"]["sigma"].dims[:2] == ("chain", "draw")
    np.testing.assert_array_equal(tree["posterior"]["f"].to_numpy(), posterior.sample(posterior.reference))


@pytest.mark.filterwarnings("ignore")  # ArviZ's own, of few draws
def test_arviz_cross_validates(monkeypatch):
    """Leave-one-out cross-validation by ArviZ takes the rows' log likelihoods; variables have units."""
    loo = pytest.importorskip("arviz_stats").loo
    monkeypatch.setattr(export, "_version_of", lambda _package: "")  # the newer form, whichever is installed
    posterior, X, _ = make_posterior(num_draws=(60, 60))
    y = posterior.sample_predictive(X)[0, 0]
    tree = posterior.to_arviz(X, y)
    in_sample = np.sum(logsumexp(posterior.log_likelihood(X, y), axis=(0, 1)) - np.log(120))
    assert -np.inf < loo(tree).elpd < in_sample
    np.testing.assert_array_equal(tree["observed_data"]["y"], y)
    assert tree["posterior"]["sigma"].attrs["units"] == "y, in its own unit"


def test_rows_come_with_outcomes():
    """Rows alone are refused, with the field that is missing."""
    posterior, X, _ = make_posterior()
    with pytest.raises(SettingsError, match="give X and y, or neither") as refused:
        posterior.to_arviz(X)
    assert refused.value.field == "y"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # ArviZ's own
def test_arviz_summarises_and_draws():
    """The pinned ArviZ summarises and plots the exported draws."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    arviz = pytest.importorskip("arviz")
    posterior, X, _ = make_posterior()
    exported = posterior.to_arviz(X, posterior.sample_predictive(X)[0, 0])

    assert list(arviz.summary(exported, var_names=["sigma"]).index) == ["sigma"]
    arviz.plot_trace(exported, var_names=["sigma"])
    arviz.plot_ppc(exported)
