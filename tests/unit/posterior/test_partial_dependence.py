"""Partial dependence is the average prediction with the feature fixed, for every draw."""

from dataclasses import replace

import numpy as np
import pytest

from sampler import DataError, SettingsError, fit
from sampler.posterior.explanations.partial_dependence import default_grid
from sampler.posterior.explanations.work import rows_to_average
from sampler.storage.model_header import Header
from tests.support.models.random_posteriors import make_posterior

RNG = np.random.default_rng(0)


def test_equals_predicting_with_the_feature_set():
    """Each point is the mean over rows of f with the feature fixed; its interval is over draws."""
    posterior, X, _ = make_posterior()
    effect = posterior.partial_dependence(["x1"], X, grid={"x1": [-1.0, 0.5, None]}, level=0.8)
    for i, value in enumerate([-1.0, 0.5, None]):
        f = posterior.sample(X | {"x1": [value] * 80}).mean(axis=2).reshape(-1)
        np.testing.assert_allclose([effect.mean[i], effect.sd[i]], [f.mean(), f.std()])
        np.testing.assert_allclose([effect.lower[i], effect.upper[i]], np.quantile(f, [0.1, 0.9]))
    assert effect.grid == [[-1.0, 0.5, None]]


def test_two_features():
    """Two features give a table over the product of their grids."""
    posterior, X, _ = make_posterior()
    effect = posterior.partial_dependence(["c", "x1"], X, grid={"x1": [0.0, 1.0]})
    assert effect.mean.shape == effect.lower.shape == (4, 2)
    one = posterior.sample(X | {"c": ["d"] * 80, "x1": [1.0] * 80}).mean()
    np.testing.assert_allclose(effect.mean[2, 1], one)


def test_three_features():
    """Three features give a table over the product of three shorter grids, or of given ones."""
    posterior, X, _ = make_posterior()
    names = ["c", "x1", "x3"]
    effect = posterior.partial_dependence(names, X, grid={"x3": [0.0, 1.0]})
    assert effect.mean.shape == effect.sd.shape == (len(effect.grid[0]), len(effect.grid[1]), 2)
    assert len(effect.grid[1]) == 9
    assert set(effect.grid[1]) < set(posterior.partial_dependence("x1").grid[0])
    point = {name: [points[1]] * 80 for name, points in zip(names, effect.grid, strict=True)}
    f = posterior.sample(X | point).mean(axis=2).reshape(-1)
    found = effect.mean[1, 1, 1], effect.lower[1, 1, 1], effect.upper[1, 1, 1]
    np.testing.assert_allclose(found, [f.mean(), *np.quantile(f, [0.05, 0.95])])
    assert len(effect.to_pandas()) == effect.mean.size


def test_reference_rows_by_default():
    """Without given rows the reference rows stored with the model are used."""
    posterior, X, _ = make_posterior()
    np.testing.assert_array_equal(
        posterior.partial_dependence(["x3"]).mean, posterior.partial_dependence(["x3"], X).mean
    )


def test_default_grids():
    """A default grid has all levels, both booleans, or up to 19 numbers or dates inside the range."""
    X = {
        "many": RNG.normal(size=200),
        "few": RNG.integers(0, 4, 200),
        "flag": RNG.random(200) < 0.5,
        "level": np.array(["b", "a", None, "c"] * 50, dtype=object),
        "day": np.arange("2020-01-01", "2020-07-19", dtype="datetime64[D]"),
    }
    short = {"num_trees": 5, "num_chains": 1, "num_burnin": 5, "num_draws": 10, "thin": 1, "progress": False}
    posterior = fit(X, RNG.normal(size=200), **short)
    header = Header.from_bytes(posterior.header.to_bytes())
    many, few, flag, level, day = (default_grid(header, j) for j in range(5))
    assert set(many) <= set(X["many"])
    assert set(day) <= {str(one) for one in X["day"]}
    older = default_grid(replace(header, default_grid=[]), 1)  # of a model without stored reference rows
    assert older == few
    assert len(many) == 19
    assert X["many"].min() < many[0] < many[9] < many[-1] < X["many"].max()
    assert (few, flag, level) == ([0.0, 1.0, 2.0, 3.0], [False, True], ["a", "b", "c", None])
    assert day[9].startswith("2020-04-09")
    for name in X:
        assert np.all(np.isfinite(posterior.partial_dependence([name]).mean))


def test_additive_effect_is_recovered():
    """The curve of an additive component is that component up to a constant."""
    x = RNG.uniform(size=(300, 2))
    y = 4 * np.abs(x[:, 0] - 0.5) + x[:, 1] + RNG.normal(0, 0.1, 300)
    posterior = fit(x, y, num_trees=50, num_burnin=200, num_draws=50, thin=1, progress=False)
    grid = [0.1, 0.3, 0.5, 0.7, 0.9]
    effect = posterior.partial_dependence(["x1"], grid={"x1": grid})
    truth = 4 * np.abs(np.array(grid) - 0.5)
    np.testing.assert_allclose(effect.mean - effect.mean.mean(), truth - truth.mean(), atol=0.2)


@pytest.mark.parametrize("features", [["x9"], [], ["x1", "x1"], ["x1", "c", "x3", "x4"], "x9"])
def test_bad_features(features):
    """Features must be one to three different features of the model."""
    with pytest.raises(SettingsError):
        make_posterior()[0].partial_dependence(features)


def test_bad_grid():
    """A grid's values must fit the column, and its names the model."""
    with pytest.raises(DataError, match="where a number belongs"):
        make_posterior()[0].partial_dependence(["x1"], grid={"x1": ["a"]})
    with pytest.raises(SettingsError, match="x9"):
        make_posterior()[0].partial_dependence(["x1"], grid={"x9": [1]})


def test_curves_of_single_rows():
    """ICE curves are f at a row with the feature fixed, with intervals over draws; rows are evenly spaced."""
    posterior, X, _ = make_posterior()
    effect = posterior.partial_dependence(["x1"], X, grid={"x1": [-1.0, 1.0]}, level=[0.5, 0.9], ice=5)
    assert effect.ice is not None
    assert effect.ice.rows.tolist() == [0, 19, 39, 59, 79]
    f = posterior.sample(X | {"x1": [1.0] * 80}).reshape(-1, 80)[:, effect.ice.rows]
    np.testing.assert_allclose(effect.ice.mean[:, 1], f.mean(axis=0))
    for interval, level in zip(effect.ice.intervals, (0.5, 0.9), strict=True):
        expected = np.quantile(f, [(1 - level) / 2, (1 + level) / 2], axis=0)
        np.testing.assert_allclose([interval.lower[:, 1], interval.upper[:, 1]], expected)
    with pytest.raises(SettingsError, match="one feature"):
        posterior.partial_dependence(["x1", "x2"], ice=1)


def test_levels_and_pinned_draws():
    """Several interval levels are given at once; `draws` takes the first draws, as in `sample`."""
    posterior, X, _ = make_posterior()
    effect = posterior.partial_dependence(["x1"], X, grid={"x1": [0.5]}, level=[0.5, 0.9], num_draws=7)
    f = posterior.sample(X | {"x1": [0.5] * 80}, 7).mean(axis=2)
    np.testing.assert_allclose(effect.mean[0], f.mean())
    assert [interval.level for interval in effect.intervals] == [0.5, 0.9]
    np.testing.assert_allclose(effect.intervals[1].upper[0], np.quantile(f, 0.95))


def test_work_is_bounded_by_leaving_rows_out():
    """When all rows are too much work, evenly spaced ones are used; a refusal if too few remain."""
    posterior, X, _ = make_posterior()
    none, some = (rows_to_average(posterior.law, 24, 2, 0, most) for most in (0.0, 1e9))
    each, figures = 1e9 / (some - none), -none * 1e9 / (some - none)  # of 2 points
    grid = {"x1": [-1.0, 1.0]}
    effect = posterior.partial_dependence(["x1"], X, grid=grid, max_work=40.5 * each + figures)
    assert effect.rows == 40
    kept = np.linspace(0, 79, 40).astype(int)
    some = {name: [column[row] for row in kept] for name, column in X.items()}
    np.testing.assert_array_equal(effect.mean, posterior.partial_dependence(["x1"], some, grid=grid).mean)
    with pytest.raises(SettingsError, match="shorter"):
        posterior.partial_dependence(["x1"], X, grid=grid, max_work=19 * each + figures)
    assert posterior.partial_dependence(["x1"], {n: c[:3] for n, c in X.items()}, max_work=1e9).rows == 3


@pytest.mark.parametrize("grid", [{"x1": []}, {"x1": [1.0], "c": []}])
def test_empty_grids(grid):
    """A grid without points is refused."""
    with pytest.raises(SettingsError, match="point"):
        make_posterior()[0].partial_dependence(["x1", "c"], grid=grid)
