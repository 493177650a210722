"""Accumulated local effects are running sums of differences between neighbouring values, draw by draw."""

import tracemalloc

import numpy as np
import pytest

from sampler import SettingsError, fit
from tests.support.models.random_posteriors import fit_with_line, make_posterior


@pytest.mark.parametrize("make", [make_posterior, fit_with_line])
def test_running_sums_of_differences(make):
    """Each step is the mean over the rows between two values of f at the upper less f at the lower one."""
    posterior, X, *_ = make(5)
    effects = posterior.accumulated_effects("x1", X, level=0.8)
    x = np.array([np.nan if value is None else value for value in X["x1"]], dtype=float)
    grid = np.array(effects.grid)
    code = posterior.encode(X).codes[0]
    edge = posterior.encode(
        {name: np.resize(np.asarray(X[name], object), len(grid)) for name in X} | {"x1": grid}
    )
    points = edge.codes[0]
    effect = [np.zeros(posterior.num_chains * posterior.num_draws)]
    for k in range(1, len(grid)):
        above = code > points[k - 1] if k > 1 else code >= points[0]
        rows = np.flatnonzero(above & (code <= points[k]) & ~np.isnan(x))
        assert effects.rows[k - 1] == len(rows)
        step = np.zeros_like(effect[0])
        if len(rows):
            part = {name: np.asarray(values, dtype=object)[rows] for name, values in X.items()}
            upper = posterior.sample(part | {"x1": [grid[k]] * len(rows)})
            lower = posterior.sample(part | {"x1": [grid[k - 1]] * len(rows)})
            step = (upper - lower).mean(axis=2).reshape(-1)
        effect.append(effect[-1] + step)
    effect = np.array(effect)
    weights = effects.rows / effects.rows.sum()
    effect -= weights @ ((effect[1:] + effect[:-1]) / 2)
    np.testing.assert_allclose(effects.mean, effect.mean(axis=1), atol=1e-9)
    np.testing.assert_allclose(
        [effects.lower, effects.upper], np.quantile(effect, [0.1, 0.9], axis=1), atol=1e-9
    )


def test_memory_does_not_grow_with_rows_times_draws(monkeypatch):
    """Rows are evaluated in blocks, whose size changes no bit of the answer."""
    posterior, X, *_ = make_posterior(5)
    rows = {name: np.resize(np.asarray(values, object), 8_000) for name, values in X.items()}
    whole = posterior.accumulated_effects("x1", rows)
    monkeypatch.setattr("sampler.posterior.explanations.accumulated_effects.MAX_CELLS", 1_000)
    coded = posterior.encode(rows)
    tracemalloc.start()
    effects = posterior.accumulated_effects("x1", coded)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e6  # draws times rows are 1.5 MB
    np.testing.assert_array_equal(effects.mean, whole.mean)
    np.testing.assert_array_equal(effects.upper, whole.upper)


def test_columns_that_go_together():
    """The effects of two nearly equal columns sum to the rise of the outcome."""
    rng = np.random.default_rng(3)
    x = rng.uniform(size=400)
    X = {"x1": x, "x2": x + 0.02 * rng.normal(size=400)}
    short = {"num_chains": 2, "num_burnin": 150, "num_draws": 100, "num_trees": 50, "progress": False}
    short |= {"noise": "constant", "transform": "none", "linear": False}  # choices take as long as the fit
    posterior = fit(X, 4 * x + 0.2 * rng.normal(size=400), **short)
    effects = [posterior.accumulated_effects(name) for name in X]
    rise = sum(effect.mean[-1] - effect.mean[0] for effect in effects)
    assert rise == pytest.approx(4 * (effects[0].grid[-1] - effects[0].grid[0]), rel=0.15)


def test_refusals():
    """A category, which has no order, and an unknown column are refused by name."""
    posterior, _, _ = make_posterior()
    for feature in ("c", "x9"):
        with pytest.raises(SettingsError) as error:
            posterior.accumulated_effects(feature)
        assert error.value.field == "feature"
