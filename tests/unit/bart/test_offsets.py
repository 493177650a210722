"""Offsets of rows of two classes, against exact results and through extension and files."""

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from sampler import fit, load
from sampler.errors import DataError

SHORT = {
    "family": "probit",
    "num_trees": 5,
    "num_chains": 2,
    "num_burnin": 10,
    "num_draws": 10,
    "progress": False,
}


def make_rows(n=60, seed=3):
    """Draw rows of two classes whose offsets say more than their feature."""
    rng = np.random.default_rng(seed)
    x, offset = rng.normal(size=n), np.round(rng.normal(0, 1.5, n), 3)
    return x[:, None], (rng.normal(size=n) < offset + 0.5 * x).astype(int), offset


def test_equal_offsets_are_the_priors():
    """An offset of all rows changes no bit where the prior's is as much less."""
    X, y, _ = make_rows()
    plain = fit(X, y, prior={"offset": 0.75}, **SHORT)
    with_rows = fit(X, y, offset=np.full(len(y), 0.5), prior={"offset": 0.25}, **SHORT)
    table = {"x1": X[:, 0], "offset": np.full(len(y), 0.5)}
    np.testing.assert_allclose(
        with_rows.predict({**table}).mean, plain.predict({"x1": X[:, 0]}).mean, rtol=0, atol=1e-12
    )


def test_one_leaf_is_exact():
    """The mean probability of a tree without splits is the integral over its one value."""
    X, y, offset = make_rows(25)
    settings = {"num_trees": 1, "num_chains": 2, "num_burnin": 200, "num_draws": 4000, "thin": 1}
    prior = {"alpha": 1e-9, "leaf_sd": 1.0, "offset": 0.25}
    posterior = fit(X, y, offset=offset, prior=prior, family="probit", progress=False, **settings)
    mu = np.linspace(-6, 6, 4001)
    log_p = norm.logpdf(mu) + log_ndtr((2 * y - 1)[:, None] * (0.25 + offset[:, None] + mu)).sum(axis=0)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    new = np.array([-1.0, 0.0, 2.0])
    expected = ndtr(0.25 + new[:, None] + mu) @ p
    found = posterior.predict({"x1": np.zeros(3), "offset": new}).mean
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_the_prior_expects_the_share_of_ones():
    """Before trees are drawn, the mean probability of the rows is their share of ones."""
    X, y, offset = make_rows()
    posterior = fit(X, y, offset=offset, **SHORT)
    expected = ndtr(posterior.constants["offset"] + offset).mean()
    assert expected == pytest.approx(y.mean(), abs=1e-9)


def test_extension_and_files_keep_offsets(tmp_path):
    """A chain that is continued ends as one that was drawn at once, and a file predicts as the model."""
    X, y, offset = make_rows()
    whole = fit(X, y, offset=offset, **{**SHORT, "num_draws": 20})
    part = fit(X, y, offset=offset, **SHORT)
    table = {"x1": X[:, 0], "offset": offset}
    more = part.extend(10, table, y)
    np.testing.assert_array_equal(more.predict(table).mean, whole.predict(table).mean)
    whole.save(tmp_path / "m.bart")
    np.testing.assert_array_equal(load(tmp_path / "m.bart").predict(table).mean, whole.predict(table).mean)
    without = whole.predict({"x1": X[:, 0]})
    assert any("an offset of 0" in warning for warning in without.warnings)


def test_offsets_are_refused_by_name():
    """Far offsets name their row."""
    X, y, offset = make_rows()
    far = offset.copy()
    far[3] = 9
    with pytest.raises(DataError, match=r"row 4.*normal quantile"):
        fit(X, y, offset=far, **SHORT)
