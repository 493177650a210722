"""The default of the leaf prior: k is drawn of numbers, and fixed where it or the leaves' scale is given."""

import numpy as np
import pytest

from sampler import fit
from sampler.bart.chain import Chain
from sampler.preparation import prepare
from sampler.preparation.plan import checked_prior
from sampler.settings import Settings
from tests.support.chain_driver import check_resuming

SHORT = {"num_trees": 30, "num_chains": 1, "num_burnin": 150, "num_draws": 30, "thin": 3, "progress": False}


def noise(rows=150, seed=3):
    """Return columns and outcomes that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(rows, 5)), rng.normal(size=rows)


def test_which_prior_draws_k():
    """That of numbers and of sums for classes does unless k, k_df or leaf_sd is given."""
    numbers, classes = Settings.resolve(), Settings.resolve(family="probit")
    several = checked_prior(None, Settings.resolve(family="categorical"))
    assert (several["k_df"], several["k_scale"], "k" in several) == (1.0, 1.0, False)
    default = checked_prior(None, numbers)
    assert (default["k_df"], default["k_scale"], "k" in default) == (3.0, 5.0, False)
    assert checked_prior(default, numbers) == default
    assert "k_df" not in checked_prior({"k": 2.0}, numbers)
    assert "k_df" not in checked_prior({"leaf_sd": 1.0}, numbers)
    assert "k_scale" not in checked_prior({"k_df": 2.0}, numbers)
    assert "k_df" not in checked_prior(None, classes)
    X, y = noise(30)
    drawn, fixed = (prepare(X, y, prior=prior).training.constants for prior in (None, {"k": 2.0}))
    assert (drawn.k_df, drawn.leaf_sd) == (3.0, fixed.leaf_sd)
    assert fixed.k_df == 0


def test_weak_signals_shrink():
    """Fitted to pure noise, f is nearly constant by default, and several times as far off with k = 2."""
    X, y = noise()
    default, fixed = (fit(X, y, prior=prior, **SHORT).predict(X).mean for prior in (None, {"k": 2.0}))
    assert default.std() < 0.5 * fixed.std()


@pytest.mark.parametrize("settings", [{}, {"noise": "forest"}, {"moves": "pg"}])
def test_a_drawn_k_resumes_exactly(settings):
    """A chain whose k is drawn in the sweep is the same in pieces."""
    X, y = noise(40)
    training = prepare(
        X, y, **settings, **{name: value for name, value in SHORT.items() if name != "progress"}
    ).training
    check_resuming(training, run=lambda chain: chain.run(11))
    assert len(Chain.start(training, 0)._models[0].variance) == 4
