"""Several outcomes of rows in groups: each outcome has intercepts of its own."""

import numpy as np
import pytest

from sampler import fit, load
from sampler.errors import SettingsError

SHORT = {"num_trees": 5, "num_chains": 2, "num_burnin": 40, "num_draws": 20, "thin": 1, "progress": False}
ROWS, GROUPS = 90, 6


def made():
    """Return columns with groups, two outcomes with holes and correlated errors, and their intercepts."""
    rng = np.random.default_rng(4)
    place = np.arange(ROWS) % GROUPS
    X = {"u": rng.uniform(size=ROWS), "site": place.astype(str)}
    errors = rng.multivariate_normal([0, 0], [[0.3, 0.25], [0.25, 0.3]], ROWS)
    effects = rng.normal(0, 3, (2, GROUPS))
    Y = {"a": X["u"] + effects[0, place] + errors[:, 0], "b": effects[1, place] + errors[:, 1]}
    Y["a"][:5], Y["b"][10:20] = np.nan, np.nan
    return X, Y, effects


@pytest.fixture(scope="module")
def posterior():
    """Return a short fit with groups."""
    X, Y, _ = made()
    return fit(X, Y, groups="site", **SHORT)


def test_intercepts_of_each_outcome(posterior, tmp_path):
    """Each outcome's intercepts are found, stored, and gone on with bit for bit."""
    X, Y, effects = made()
    for own, name in zip(effects, "ab", strict=True):
        (found,) = posterior[name].groups()
        assert np.corrcoef(found.mean, own)[0, 1] > 0.95
    assert posterior.correlations[:, :, 0, 1].mean() > 0.4
    longer = fit(X, Y, groups="site", **(SHORT | {"num_draws": 25}))
    assert posterior.extend(5, progress=False).to_bytes() == longer.to_bytes()
    posterior.save(tmp_path / "fit.model")
    loaded = load(tmp_path / "fit.model")
    assert np.array_equal(loaded.predict(X).mean, posterior.predict(X).mean)
    assert loaded.extend(5, X, Y, progress=False).to_bytes() == longer.to_bytes()


def test_rows_of_new_groups(posterior):
    """Joint answers about rows of new groups have the variances of their intercepts, known ones as before."""
    rows = {"u": [0.5, 0.5, 0.2], "site": ["new", "1", "2"]}
    found = posterior.predict(rows)
    known = posterior.predict({name: values[1:] for name, values in rows.items()})
    assert np.array_equal(found.sd[1:], known.sd)
    assert np.allclose(found.covariance[1:], known.covariance)
    sds = np.stack([posterior[name].law.group_sds()[0].reshape(-1) for name in "ab"], axis=1)
    f = np.stack([posterior[name].sample(rows)[:, :, 0].reshape(-1) for name in "ab"], axis=1)
    noise = posterior.covariances.reshape(-1, 2, 2).mean(axis=0)
    expected = np.cov(f.T, bias=True) + noise + np.diag(np.mean(sds**2, axis=0))
    assert np.allclose(found.covariance[0], expected)
    assert np.all(found.simultaneous_upper[0] - found.mean[0] > 2 * (known.upper[0] - known.mean[0]))
    given = posterior.predict(rows, given={"b": found.mean[:, 1]})
    assert given.sd[1, 0] < found.sd[1, 0]
    drawn = posterior.sample_predictive(rows)
    assert np.allclose(drawn[:, :, 1:].mean(axis=(0, 1)), found.mean[1:], atol=0.8)
    assert np.all(drawn[:, :, 0].std(axis=(0, 1)) > 1.5 * drawn[:, :, 1].std(axis=(0, 1)))


def test_beside_two_classes_and_what_is_refused():
    """Intercepts stand beside latent outcomes too; slopes by group are refused with a way that works."""
    X, Y, effects = made()
    labels = np.where(np.nan_to_num(Y["b"]) > 0, "yes", "no")
    both = fit(X, {"a": Y["a"], "b": labels}, groups="site", family="auto", **SHORT)
    assert np.corrcoef(both["b"].groups()[0].mean, effects[1])[0, 1] > 0.8
    new = both.predict({"u": [0.5], "site": ["new"]})
    assert 0.2 < new.mean[0, 1] < 0.8
    with pytest.raises(SettingsError, match="several outcomes take no slopes: leave out slopes") as raised:
        fit(X, Y, groups="site", slopes="u", **SHORT)
    assert raised.value.field == "slopes"
