"""Single trees in a notebook: stored draws, weighted estimates, families and settings."""

import numpy as np
import pytest
from scipy import stats

from sampler import DataError, PackedError, Settings, SettingsError, fit, load
from sampler.data.target import guess_family
from sampler.posterior.core.topology import shape_of, topologies
from sampler.posterior.verdict import rhat_ess
from sampler.posterior.weighting.importance_weights import Weights, agreement, mean_error, quantile_error
from sampler.posterior.weighting.quantiles import noise_mixture, of_draws
from sampler.storage.draw_codec import pack, unpack
from sampler.storage.draws import Draws, concatenate

LOW_AND_HIGH = np.array([[0.2, 0.5, 0.5], [0.8, 0.5, 0.5]])
SHORT = {"num_chains": 2, "num_burnin": 300, "num_draws": 40, "thin": 10, "progress": False}


def some_draws(count, values, seed=0):
    """Return draws of trees of one or two leaves with `values` parameters per leaf."""
    rng = np.random.default_rng(seed)
    splits = rng.integers(0, 2, count)
    feature = np.concatenate([[0, -1, -1] if split else [-1] for split in splits])
    nodes, leaves = len(feature), int(count + splits.sum())
    cut = np.where(feature >= 0, rng.integers(0, 200, nodes), 0).astype(np.uint8)
    return Draws(
        1, rng.uniform(0.5, 1, count), np.cumsum([0, *(1 + 2 * splits)]), feature.astype(np.int32), cut,
        np.zeros(nodes, np.uint8), np.zeros(nodes, np.int32), rng.normal(size=(leaves, values)),
        rng.normal(size=count),
    )  # fmt: skip


@pytest.mark.parametrize("values", [1, 2, 5])
def test_record_is_exact(values):
    """Stored draws are restored exactly, split anywhere and joined again."""
    draws = some_draws(30, values)
    assert unpack(pack(draws)) == draws
    assert concatenate([draws[:7], draws[7:8], draws[8:]]) == draws
    assert unpack(pack(draws[5:20])) == draws[5:20]


def test_damaged_record_is_refused():
    """A block that is truncated or has impossible sizes is refused."""
    data = pack(some_draws(10, 2))
    for wrong in (data[:-8], data[:60], data + bytes(8)):
        with pytest.raises(PackedError):
            unpack(wrong)


def test_mixture_quantiles_are_roots():
    """The mixture's distribution function at a quantile equals the level in both tails, weighted or not."""
    rng = np.random.default_rng(1)
    centre, sd = rng.normal(size=(6, 50)) * 4, rng.uniform(0.1, 2, (6, 50))
    share = rng.dirichlet(np.ones(50))
    tails = np.array([0.05, -0.05, 0.5, 1e-6, -1e-6])
    quantiles = noise_mixture(centre, sd, share, tails)
    for tail, row in zip(tails, quantiles, strict=True):
        z = (row[:, None] - centre) / sd
        reached = stats.norm.cdf(z) @ share if tail > 0 else stats.norm.sf(z) @ share
        np.testing.assert_allclose(reached, abs(tail), rtol=1e-6)


def test_weighted_quantiles():
    """A weighted quantile is the first value with enough cumulative weight; equal weights interpolate."""
    values, share = np.array([[3.0, 1.0, 2.0]]), np.array([0.5, 0.2, 0.3])
    assert of_draws(values, share, np.array([0.1, 0.4, -0.1])).ravel().tolist() == [1, 2, 3]
    assert of_draws(values, None, np.array([0.25])).ravel().tolist() == [1.5]


def test_weights_tell_how_many_draws_count():
    """Effective draws and the evidence's spread equal their formulas; R-hat exceeds 1 where runs differ."""
    even = Weights(np.log(np.full((2, 50), 0.02)))
    assert even.ess == pytest.approx(100)
    assert even.spread == pytest.approx(0)
    apart = Weights(np.array([np.full(50, 0.0), np.full(50, 2.0)]))
    assert apart.spread == pytest.approx(np.sqrt(2))
    rng = np.random.default_rng(2)
    f = rng.normal(size=(3, 2, 50))
    f[2, 1] += 3
    verdict = agreement(f, even.share)
    assert verdict.rhat[:2].max() < 1.1 < verdict.rhat[2]


def test_errors_of_weighted_draws():
    """Monte Carlo errors of weighted means and quantiles equal their spread over repeated sets of runs."""
    rng = np.random.default_rng(4)
    means, medians, errors = [], [], []
    for _ in range(300):
        x = rng.normal(0.7, 1.3, (8, 60))
        log = -0.5 * x**2 + 0.5 * ((x - 0.7) / 1.3) ** 2
        share = np.exp(log) / np.exp(log).sum()
        means.append(np.sum(x * share))
        medians.append(of_draws(x.reshape(1, -1), share.ravel(), np.array([0.3]))[0, 0])
        errors.append([mean_error(x[None], share)[0], quantile_error(x[None], share, 0.3)[0]])
    spread = np.sqrt(np.mean(np.square(errors), axis=0))
    assert spread[0] == pytest.approx(np.std(means), rel=0.2)
    assert spread[1] == pytest.approx(np.std(medians), rel=0.25)


def test_errors_of_draws_that_weigh_alike():
    """Independent draws of equal weight have the Monte Carlo errors of unweighted draws."""
    rng = np.random.default_rng(5)
    x, share = rng.normal(size=(200, 6, 80)), np.full((6, 80), 1 / 480)
    for ours, theirs in (
        (mean_error(x, share), rhat_ess.mcse_mean(x)),
        (quantile_error(x, share, 0.1), rhat_ess.mcse_quantile(x, 0.1)),
    ):
        assert np.median(ours) == pytest.approx(np.median(theirs), rel=0.15)
    one = mean_error(x[:, :1], np.full((1, 80), 1 / 80))  # of one run: the value for independent draws
    np.testing.assert_allclose(one, x[:, 0].std(axis=1) / np.sqrt(80))


def test_shapes_of_trees():
    """Each topology has the total weight of its trees, the most probable first; it is read off the splits."""
    splits = np.array([1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0], bool)
    start = np.array([0, 3, 4, 9, 12])
    shapes = topologies(splits, start, np.array([0.1, 0.2, 0.4, 0.3]))
    assert shapes == pytest.approx({"(..)": 0.4, "((..).)": 0.4, ".": 0.2})
    assert list(shapes)[-1] == "."
    assert shape_of(np.array([1, 0, 1, 1, 0, 0, 0], bool)) == "(.((..).))"


def steps(rows=200, seed=0):
    """Return a step in the first column with larger noise above it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 3))
    return X, np.where(X[:, 0] < 0.5, 1.0, 4.0) + rng.normal(size=rows) * np.where(X[:, 0] < 0.5, 0.1, 1.0)


def test_noise_of_leaves(tmp_path):
    """Predictive intervals widen where the data are noisier; a stored model gives equal answers."""
    X, y = steps()
    posterior = fit(X, y, method="bcart-mean-variance", **SHORT)
    prediction = posterior.predict(LOW_AND_HIGH, interval="predictive")
    assert (prediction.upper - prediction.lower)[1] > 4 * (prediction.upper - prediction.lower)[0]
    posterior.save(tmp_path / "tree.bart")
    again = load(tmp_path / "tree.bart").predict(X, interval="predictive")
    np.testing.assert_array_equal(again.upper, posterior.predict(X, interval="predictive").upper)
    assert posterior.weights is None
    assert posterior.sigma.shape == (2, 40)


@pytest.mark.parametrize("method", ["bcart", "bcart-mean-variance", "smc"])
def test_weights_of_rows(method):
    """Equal weights change nothing, a common factor scales sigma, and weights enter the means."""
    X, y = steps(100)
    short = {"num_draws": 60, "num_chains": 2, "progress": False}
    plain = fit(X, y, method=method, **short)
    ones = fit(X, y, np.ones(100), method=method, **short)
    np.testing.assert_array_equal(ones.sample(X), plain.sample(X))
    fours = fit(X, y, np.full(100, 4.0), method=method, **short)
    np.testing.assert_allclose(fours.sample(X), plain.sample(X), rtol=1e-9)
    np.testing.assert_allclose(fours.sigma, 2 * plain.sigma, rtol=1e-9)
    lifted, upper = y.copy(), np.flatnonzero(X[:, 0] > 0.5)
    lifted[upper[::2]] += 2
    heavy = np.ones(100)
    heavy[upper[::2]] = 9
    even = fit(X, lifted, method=method, **short).predict(LOW_AND_HIGH).mean[1]
    assert fit(X, lifted, heavy, method=method, **short).predict(LOW_AND_HIGH).mean[1] > even + 0.4


def test_classes_of_any_number():
    """Probabilities of each class sum to one; with two classes the second's is reported."""
    X, y = steps()
    label = np.where(y < 2, "low", np.where(y < 4, "mid", "top"))
    posterior = fit(X, label, method="bcart", family="auto", **SHORT)
    assert posterior.classes == ("low", "mid", "top")
    prediction = posterior.predict(X[:5])
    assert prediction.mean.shape == prediction.lower.shape == (5, 3)
    np.testing.assert_allclose(prediction.mean.sum(axis=1), 1)
    assert posterior.sample(X[:5]).shape == (2, 40, 5, 3)
    two = fit(X, label == "low", method="bcart", family="auto", **SHORT).predict(X)
    assert two.mean.shape == (200,)
    assert np.corrcoef(two.mean, X[:, 0] < 0.5)[0, 1] > 0.9
    with pytest.raises(SettingsError, match="no predictive interval"):
        posterior.predict(X[:5], interval="predictive")
    X = X[:50]
    effect = posterior.partial_dependence(
        ["x1", "x2"], X, grid={"x1": [0.2, 0.8], "x2": [0.5]}, level=[0.5, 0.9]
    )
    assert effect.mean.shape == effect.lower.shape == (2, 1, 3)
    for at, value in enumerate((0.2, 0.8)):
        moved = np.column_stack([np.full(50, value), np.full(50, 0.5), X[:, 2]])
        averages = posterior.sample(moved).reshape(-1, 50, 3).mean(axis=1)
        np.testing.assert_allclose(effect.mean[at, 0], averages.mean(axis=0))
        np.testing.assert_allclose(effect.intervals[1].upper[at, 0], np.quantile(averages, 0.95, axis=0))
    rows = posterior.partial_dependence(["x1"], X, grid={"x1": [0.2, 0.8]}, ice=3).ice
    assert rows.mean.shape == rows.intervals[0].lower.shape == (3, 2, 3)
    np.testing.assert_allclose(rows.mean.sum(axis=2), 1)


def test_weighted_particles():
    """The filter's draws have weights that sum to one, an evidence, and a verdict based on them."""
    X, y = steps()
    posterior = fit(X, y, method="smc", num_draws=300, num_chains=3, progress=False)
    assert posterior.weights.shape == (3, 300)
    assert posterior.weights.sum() == pytest.approx(1)
    assert len(posterior.evidence["log_evidence_runs"]) == 3
    assert "log evidence" in str(posterior.summary())
    prediction = posterior.predict(LOW_AND_HIGH)
    assert prediction.mean == pytest.approx([1, 4], abs=0.5)
    assert posterior.inclusion().mean[0] > 0.5
    report, share = posterior.diagnostics(), posterior.weights
    assert report["f"]["rhat"][0] is None
    assert 0 < report["f"]["mcse_mean"][0] < 0.2
    leaves = posterior.leaf_counts[:, :, 0]
    assert report["trees"]["leaves"]["mean"] == pytest.approx(np.sum(leaves * share))
    assert posterior.summary().leaves["share"]["2"] == pytest.approx(share[leaves == 2].sum())
    shapes = {each["topology"]: each["probability"] for each in report["topologies"]}
    assert shapes["(..)"] == pytest.approx(share[leaves == 2].sum())
    with pytest.raises(SettingsError, match="fit again"):
        posterior.extend(10)
    same = fit(X, y, method="smc", num_draws=300, num_chains=3, progress=False)
    np.testing.assert_array_equal(same.predict(X).mean, posterior.predict(X).mean)


def test_few_particles_of_large_trees():
    """Buffers suffice for few particles with large trees."""
    x = np.linspace(0, 1, 3000)
    y = np.sin(40 * x) + np.random.default_rng(0).normal(0, 0.05, 3000)
    posterior = fit({"x": x}, y, method="smc", num_draws=2, num_chains=2, progress=False)
    assert posterior.leaf_counts.min() > 20
    assert np.mean((posterior.predict({"x": x}, level=None).mean - y) ** 2) < 0.1


def test_explanations_weigh_draws_as_predictions_do(rng):
    """Means of SHAP values, effects and contrasts are those of `predict`, within its Monte Carlo error.

    Means of draws without their weights differ by several.
    """
    X = {"a": rng.normal(size=150), "b": rng.normal(size=150)}
    y = 2 * (X["a"] > 0) + X["b"] + 0.5 * rng.normal(size=150)
    posterior = fit(X, y, method="smc", num_chains=4, num_draws=50, progress=False)
    first, second = (posterior.sample(X | {"a": np.full(150, value)}) for value in (1.0, -1.0))
    contrast = posterior.contrast(X, {"a": 1.0}, {"a": -1.0})
    effect = posterior.partial_dependence("a", X, grid={"a": [-1.0, 1.0]})
    for explained, draws in (
        (posterior.shap(X).f, posterior.sample(X)),
        (contrast.mean, first - second),
        (contrast.average.mean[None], (first - second).mean(axis=2, keepdims=True)),
        (effect.mean[:1], second.mean(axis=2, keepdims=True)),
        (effect.mean[1:], first.mean(axis=2, keepdims=True)),
    ):
        by_row = np.moveaxis(draws, 2, 0)
        expected = posterior.law.weights.mean_of(by_row, 50)
        error = posterior.law.weights.mean_error(by_row, 50)
        assert np.all(np.abs(explained - expected) < error)
        if len(expected) > 1:
            assert np.max(np.abs(draws.mean(axis=(0, 1)) - expected) / error) > 2


@pytest.mark.parametrize("method", ["bart", "bcart", "bcart-wu", "bcart-mean-variance", "smc"])
def test_settings_are_restored_from_json(method):
    """Resolved settings are restored from JSON unchanged."""
    settings = Settings.resolve(method=method)
    assert Settings.from_json(settings.to_json()) == settings


def test_family_of_a_target():
    """`auto` chooses classes of any number for a tree and of two for a sum of trees."""
    assert guess_family(["a", "b", "c"], "bcart") == "categorical"
    assert guess_family([True, False], "smc") == "categorical"
    assert guess_family([True, False], "bart") == "probit"
    assert guess_family([1.5, 2.5], "bcart") == "gaussian"


def test_settings_that_a_tree_cannot_use_are_refused():
    """Weighted classes, priors of a sum of trees, and too many classes are refused."""
    X, y = steps(40)
    with pytest.raises(SettingsError, match="categorical takes no weights"):
        fit(X, y > 2, np.ones(40), method="bcart", family="categorical", progress=False)
    with pytest.raises(DataError, match="a weight must be positive"):
        fit(X, y, np.r_[0.0, np.ones(39)], method="bcart", progress=False)
    with pytest.raises(SettingsError, match="unknown prior entry 'k'"):
        fit(X, y, method="bcart", prior={"k": 2}, progress=False)
    many = [str(i) for i in range(150)]
    with pytest.raises(DataError, match="at most 100"):
        fit(np.arange(150.0)[:, None], many, method="bcart", family="categorical", progress=False)
