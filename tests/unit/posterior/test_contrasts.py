"""Contrasts are differences of predictions, with flags where the data have no such rows."""

import re
import tracemalloc

import numpy as np
import pytest

from sampler import Posterior, SettingsError, fit, pack, prepare
from tests.support.models.random_posteriors import make_draws, make_posterior

SHORT = {"num_chains": 2, "num_burnin": 150, "num_draws": 150, "thin": 1, "num_trees": 50, "progress": False}
SHORT |= {"noise": "constant", "transform": "none", "linear": False}  # choices take as long as such fits


def test_differences_of_predictions_on_every_draw():
    """Rows, their average, groups and the treated equal differences of draws of f with the columns set."""
    posterior, X, _ = make_posterior(2)
    contrast = posterior.contrast(X, {"x1": 1.0, "x3": 0.5}, {"x1": -1.0, "x3": 0.0}, by="c", level=0.8)
    num_rows = len(X["x1"])
    high = posterior.sample(X | {"x1": [1.0] * num_rows, "x3": [0.5] * num_rows})
    low = posterior.sample(X | {"x1": [-1.0] * num_rows, "x3": [0.0] * num_rows})
    draws = (high - low).reshape(-1, num_rows)
    np.testing.assert_allclose(contrast.mean, draws.mean(axis=0))
    np.testing.assert_allclose([contrast.lower, contrast.upper], np.quantile(draws, [0.1, 0.9], axis=0))
    average = draws.mean(axis=1)
    np.testing.assert_allclose(contrast.average[:3], [average.mean(), *np.quantile(average, [0.1, 0.9])])
    assert contrast.average.rows == num_rows
    for level, estimate in contrast.groups.items():
        part = np.array([value == level for value in X["c"]])
        assert estimate.rows == part.sum() > 0
        np.testing.assert_allclose(estimate.mean, draws[:, part].mean())
    assert contrast.treated is None


@pytest.mark.parametrize(
    ("y", "settings"),
    [
        ("two", {"family": "probit"}),
        ("three", {"family": "categorical"}),
        ("counts", {"family": "poisson"}),
        ("times", {"transform": "log"}),
    ],
)
def test_probabilities_counts_and_times(y, settings):
    """Contrasts are of what predictions are of: probabilities of each class, mean counts, mean times."""
    rng = np.random.default_rng(1)
    X = {"a": rng.normal(size=60), "b": rng.normal(size=60)}
    outcomes = {
        "two": (X["a"] > 0).astype(int),
        "three": np.digitize(X["a"], [-0.5, 0.5]),
        "counts": rng.poisson(np.exp(X["a"])),
        "times": np.exp(X["a"] + rng.normal(size=60) / 4),
    }
    posterior = fit(X, outcomes[y], **SHORT | {"num_trees": 10} | settings)
    contrast = posterior.contrast(X, {"a": 1.0}, {"a": -1.0})
    high, low = (posterior.sample(X | {"a": np.full(60, value)}) for value in (1.0, -1.0))
    draws = (high - low).reshape(-1, *high.shape[2:])
    np.testing.assert_allclose(contrast.mean, draws.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(
        [contrast.lower, contrast.upper], np.quantile(draws, [0.05, 0.95], axis=0), atol=1e-12
    )
    last = np.atleast_1d(contrast.average.mean)[-1]
    assert last > (0.4 if y in ("two", "three") else 0.8)
    assert np.all(np.abs(contrast.mean) <= 1) or y in ("counts", "times")


def test_groups_without_rows_are_left_out():
    """A level or quarter that no row has gives no average; the printed table has one line for each other."""
    posterior, X, _ = make_posterior(2)
    rows = {name: list(values)[:8] for name, values in X.items()} | {"x1": [5.0] * 8}
    contrast = posterior.contrast(rows, {"x3": 0.5}, {"x3": 0.0}, by="x1")
    (name,) = contrast.groups
    assert name.startswith("highest quarter (above ")
    assert "highest quarter" in str(contrast)
    assert "nan" not in str(contrast)


def test_the_treated_are_the_rows_with_the_first_setting():
    """The average over the treated takes the rows whose own level is that of the first setting."""
    posterior, X, _ = make_posterior(2)
    contrast = posterior.contrast(X, {"c": "a"}, {"c": "b"})
    part = np.array([value == "a" for value in X["c"]])
    assert contrast.treated.rows == part.sum()
    np.testing.assert_allclose(contrast.treated.mean, contrast.mean[part].mean())


def confounded():
    """Return a table in which z follows x and has the effect 1.5; the naive difference is larger."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=600)
    z = rng.random(600) < 1 / (1 + np.exp(-1.2 * x))
    y = x + 1.5 * z + 0.5 * rng.normal(size=600)
    return {"x": x, "w": rng.normal(size=600), "z": z}, y


@pytest.fixture(scope="module")
def effect():
    X, y = confounded()
    return X, y, fit(X, y, **SHORT)


def test_an_effect_under_confounding(effect):
    """The average contrast covers the effect that the naive difference of means misses."""
    X, y, posterior = effect
    contrast = posterior.contrast(X, {"z": True}, {"z": False}, by="x")
    assert contrast.average.lower < 1.5 < contrast.average.upper
    assert y[X["z"]].mean() - y[~X["z"]].mean() > 2
    limits = [re.findall(r"-?\d[\d.]*", name) for name in contrast.groups]
    assert [re.sub(r"-?\d[\d.]*", "_", name) for name in contrast.groups] == [
        "lowest quarter (up to _)",
        "second quarter (above _, up to _)",
        "third quarter (above _, up to _)",
        "highest quarter (above _)",
    ]
    assert [ends[0] for ends in limits[1:]] == [ends[-1] for ends in limits[:-1]]
    below = [np.sum(X["x"] <= float(ends[-1])) for ends in limits[:-1]]
    assert [each.rows for each in contrast.groups.values()] == np.diff([0, *below, 600]).tolist()
    assert sum(estimate.rows for estimate in contrast.groups.values()) == 600


def test_the_population_is_less_certain_than_the_sample(effect):
    """Bayesian-bootstrap intervals are as wide as draws and rows make them, and equal requests agree."""
    X, _, posterior = effect
    few = {name: values[:12] for name, values in X.items()}
    contrast = posterior.contrast(few, {"x": 1.0}, {"x": -1.0})
    again = posterior.contrast(few, {"x": 1.0}, {"x": -1.0})
    assert contrast.population == again.population
    draws = (posterior.sample(few | {"x": [1.0] * 12}) - posterior.sample(few | {"x": [-1.0] * 12})).reshape(
        -1, 12
    )
    rng = np.random.default_rng(5)
    weights = rng.dirichlet(np.ones(12), size=(40, len(draws)))
    sd = (weights * draws).sum(axis=2).std()
    width = (contrast.population.upper - contrast.population.lower) / (2 * 1.645)
    assert width == pytest.approx(sd, rel=0.25)


def test_rows_unlike_the_data_are_flagged():
    """Rows that resemble no training row with a setting are flagged; few are if settings are random."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, 400)
    z = x > 0.3  # no overlap at all
    posterior = fit({"x": x, "z": z}, x + z + 0.3 * rng.normal(size=400), **SHORT)
    apart = posterior.contrast({"x": [-1.8, 1.8], "z": [False, True]}, {"z": True}, {"z": False})
    assert apart.unlike[0].tolist() == [True, False]
    assert apart.unlike[1].tolist() == [False, True]
    assert "extrapolation" in apart.warnings[0]
    z = rng.random(400) < 0.5
    posterior = fit({"x": x, "z": z}, x + z + 0.3 * rng.normal(size=400), **SHORT)
    mixed = posterior.contrast({"x": x, "z": z}, {"z": True}, {"z": False})
    assert max(part.mean() for part in mixed.unlike) < 0.12
    assert mixed.warnings == []
    far = posterior.contrast({"x": x, "z": z}, {"x": 30.0}, {"x": 0.0})
    assert "outside" in far.warnings[0] or "near this setting" in far.warnings[0]
    for missing in (None, np.nan):
        unknown = posterior.contrast({"x": x, "z": z}, {"x": missing}, {"x": 0.0})
        assert any(warning.startswith("x is missing: only 0 of 200") for warning in unknown.warnings)


def test_warnings_about_the_rows_are_passed_on():
    """Rows with a level never seen in training, and such a setting, are warned of."""
    posterior, X, _ = make_posterior()
    rows = X | {"c": ["mars"] * len(X["x1"])}
    warnings = posterior.contrast(rows, {"x1": 0.5}, {"x1": 0.0}).warnings
    assert any("never seen" in warning for warning in warnings)
    warnings = posterior.contrast(X, {"c": "mars"}, {"c": "a"}).warnings
    assert any("c = mars: only 0 of" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("first", "second", "options", "field"),
    [
        ({"x9": 1}, {"x9": 2}, {}, "first"),
        ({"x1": 1.0}, {"x3": 1.0}, {}, "second"),
        ({}, {}, {}, "second"),
        ({"x1": 1.0}, {"x1": 0.0}, {"by": "x1"}, "by"),
        ({"x1": 1.0}, {"x1": 0.0}, {"by": "town"}, "by"),
        ({"x1": 1.0}, {"x1": 0.0}, {"level": 1.5}, "level"),
    ],
)
def test_refusals(first, second, options, field):
    """Settings and options that make no sense are refused by name."""
    posterior, X, _ = make_posterior()
    with pytest.raises(SettingsError) as error:
        posterior.contrast(X, first, second, **options)
    assert error.value.field == field


@pytest.mark.slow
def test_memory_does_not_grow_with_rows_times_rows_times_columns():
    """Comparing 400 rows of 600 columns with 200 training rows takes some MB (once 400 MB)."""
    rng = np.random.default_rng(0)
    X = {f"x{j}": rng.normal(size=200).round(3) for j in range(600)}
    problem = prepare(X, X["x0"] + X["x1"], num_trees=7, num_draws=12)
    blocks = [[pack(draws)] for draws in make_draws()]
    posterior = Posterior.from_blocks(problem.header(), blocks)
    rows = posterior.encode({name: [*values, *values] for name, values in X.items()})
    tracemalloc.start()
    contrast = posterior.contrast(rows, {"x0": -0.1}, {"x0": 0.1})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6
    assert not contrast.unlike[0].all()


def test_quarters_of_dates_have_days_as_limits():
    """Quarters of dates end at days: a cut point halfway between two days is named by the earlier one."""
    X, y = confounded()
    days = np.datetime64("2024-01-01") + np.arange(600)
    posterior = fit({"day": days, **X}, y, **SHORT)
    names = [*posterior.contrast({"day": days, **X}, {"z": True}, {"z": False}, by="day").groups]
    assert [re.sub(r"\d{4}-\d\d-\d\d", "_", name) for name in names][::3] == [
        "lowest quarter (up to _)",
        "highest quarter (above _)",
    ]
