"""Transforms of the outcome: functions, answers about the outcome itself, choices, and what is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sampler import PackedError, SettingsError, fit, load
from sampler.data.scalars import number_to_text
from sampler.data.transform import IDENTITY, POWERS, Transform
from sampler.kernels.jit import warm
from sampler.posterior.assessment import row_diagnostics
from sampler.posterior.untrusted import read_contents
from sampler.posterior.verdict import rhat_ess
from sampler.preparation import prepare
from sampler.preparation.quick_choice import choose_transform_and_line
from sampler.preparation.quick_regression import (
    BINS,
    DEPTH,
    GROUP,
    RATE,
    SHRINKAGE,
    TREES,
    _boost,
    held_out_residuals,
    standardised,
)
from sampler.settings import Settings
from sampler.storage.model_header import Header

FAST = {"num_trees": 20, "num_chains": 2, "num_burnin": 100, "num_draws": 40, "thin": 1, "progress": False}
TRANSFORMS = [
    Transform("log"),
    *(Transform("yeo-johnson", 1.0, 2.0, power) for power in (0.0, 0.4, 1.0, 2.0)),
]
HELD = [each.within(np.array([0.5, 4.0])) for each in TRANSFORMS]


def skewed(rows=200, seed=0):
    """Outcomes whose logarithm is a line in one of two columns, with noise of sd 0.6."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 2))
    return X, np.exp(1 + 2 * X[:, 0] + 0.6 * rng.normal(size=rows))


@pytest.mark.parametrize("transform", [*TRANSFORMS, *HELD])
def test_functions_of_a_transform(transform):
    """The inverse inverts, the slope is the derivative, moments are integrals over the noise held at ends."""
    y = np.array([0.01, 0.9, 1.0, 1.1, 3.0, 40.0])
    u = transform.forward(y)
    assert np.all(np.diff(u) > 0)
    np.testing.assert_allclose(transform.inverse(u), y, rtol=1e-12)
    near = 1e-6 * y
    slope = (transform.forward(y + near) - transform.forward(y - near)) / (2 * near)
    np.testing.assert_allclose(np.exp(transform.log_slope(y)), slope, rtol=1e-7)
    assert Transform.from_json(transform.to_json()) == transform
    for f, sd in ((0.3, 0.5), (-1.0, 0.2), (2.0, 0.7)):
        v = np.linspace(f - 9 * sd, f + 9 * sd, 20_001)
        share = stats.norm.pdf(v, f, sd) * (v[1] - v[0])
        first, second = (np.sum(share * transform.outcome(v) ** k) for k in (1, 2))
        mean, spread = transform.moments(np.array(f), np.array(sd))
        assert mean == pytest.approx(first, rel=2e-4)
        assert spread == pytest.approx((second - first**2) ** 0.5, rel=2e-3)


@pytest.mark.parametrize("kind", ["log", "yeo-johnson"])
def test_outcomes_are_held_at_half_a_range_from_those_of_the_fit(kind):
    """So are means of rows with much noise; a model made before there were ends is read without them."""
    X, y = skewed()
    posterior = fit(X, y, transform=kind, noise="forest", **FAST)
    transform, margin = posterior.transform, (y.max() - y.min()) / 2
    low, high = transform.low, transform.high
    assert (low, high) == (y.min() - margin, y.max() + margin)
    mean, spread = transform.moments(np.array([0.0, 5.0, 500.0]), np.array([40.0, 9.0, 2.0]))
    assert np.all((low <= mean) & (mean <= high))
    assert np.all(spread <= (high - low) / 2)
    drawn = posterior.sample_predictive(X)
    assert low <= drawn.min() <= drawn.max() <= high
    older = {name: value for name, value in transform.to_json().items() if name not in ("low", "high")}
    assert Transform.from_json(older) == replace(transform, low=None, high=None)


def test_the_logarithm_has_values_for_positive_numbers_alone():
    """Below, T is minus infinity and the density 0."""
    transform = Transform("log")
    assert transform.forward(np.array([0.0, -1.0])).tolist() == [-np.inf, -np.inf]
    assert np.exp(transform.log_slope(np.array([-1.0]))).tolist() == [0.0]


@pytest.mark.parametrize("settings", [{}, {"noise": "forest"}, {"linear": True}])
def test_answers_are_about_the_outcome(tmp_path, settings):
    """Figures agree with simulated outcomes; the same from a file, for a row alone, and after extension."""
    X, y = skewed()
    posterior = fit(X, y, transform="log", **FAST | settings)
    new, truth = skewed(5, seed=9)
    f, noise = posterior.sample_learnt(new)
    rng = np.random.default_rng(2)
    outcomes = posterior.transform.outcome(f + noise * rng.normal(size=(2000, *f.shape))).reshape(-1, 5)
    prediction = posterior.predict(new, level=0.8, quantiles=[0.3])
    np.testing.assert_allclose(prediction.mean, outcomes.mean(axis=0), rtol=0.02)
    np.testing.assert_allclose(prediction.sd, outcomes.std(axis=0), rtol=0.06)
    np.testing.assert_allclose(prediction.lower, np.quantile(outcomes, 0.1, axis=0), rtol=0.02)
    np.testing.assert_allclose(prediction.quantiles[0].values, np.quantile(outcomes, 0.3, axis=0), rtol=0.02)
    np.testing.assert_allclose(prediction.mean, posterior.sample(new).mean(axis=(0, 1)), rtol=1e-12)
    credible = posterior.predict(new, level=0.8, interval="credible")
    np.testing.assert_allclose(credible.mean, prediction.mean)
    np.testing.assert_allclose(credible.upper, np.quantile(posterior.sample(new), 0.9, axis=(0, 1)))
    held = posterior.transform.moments(f, noise)[1]
    np.testing.assert_allclose(posterior.sample_sigma(new), held, rtol=1e-12)
    free = replace(posterior.transform, low=None, high=None).moments(f, noise)[1]
    np.testing.assert_allclose(free, np.exp(f + noise**2 / 2) * np.sqrt(np.expm1(noise**2)), rtol=1e-12)
    law = posterior.law.outcome_law(posterior.encode(new), None)
    np.testing.assert_allclose(law.below(truth), (outcomes <= truth).mean(axis=0), atol=0.01)
    np.testing.assert_allclose(law.quantile(0.1), prediction.lower, rtol=1e-7)
    few = rng.permutation(outcomes)[:20_000]
    crps = np.abs(few - truth).mean(axis=0) - 0.5 * np.mean(np.abs(few - rng.permutation(few)), axis=0)
    np.testing.assert_allclose(law.crps(truth), crps, rtol=0.04, atol=0.05)
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    np.testing.assert_array_equal(again.predict(new[[2]], level=0.8).upper, prediction.upper[[2]])
    longer = fit(X, y, transform="log", **FAST | settings | {"num_draws": 45})
    np.testing.assert_array_equal(
        again.extend(5, X, y, progress=False).predict(new).mean, longer.predict(new).mean
    )
    assert read_contents(posterior.to_bytes()).posterior.num_draws == 40


def test_scores_count_the_slope():
    """The log score on the outcome is that of its logarithm less the mean logarithm; so are PITs."""
    X, y = skewed()
    new, truth = skewed(60, seed=5)
    raw, logs = fit(X, y, transform="log", **FAST), fit(X, np.log(y), **FAST)
    one, other = raw.score(new, truth), logs.score(new, np.log(truth))
    assert one["log_score"] == pytest.approx(other["log_score"] - np.log(truth).mean(), rel=1e-9)
    assert one["coverage"] == other["coverage"]
    assert raw.transform == Transform("log").within(y)
    assert logs.transform is None
    np.testing.assert_allclose(raw.predict(new).lower, np.exp(logs.predict(new).lower), rtol=1e-9)


def test_pictures_and_errors_are_about_the_outcome():
    """The density integrates to one over the outcome; effects and Monte Carlo errors are in its units."""
    X, y = skewed()
    posterior = fit(X, y, transform="yeo-johnson", **FAST)
    new, _ = skewed(4, seed=9)
    density = posterior.density(new[:1])
    assert np.sum(density["outcome"]) * (density["x"][1] - density["x"][0]) == pytest.approx(1, abs=0.15)
    (name, _) = [column.name for column in posterior.schema.columns]
    effect = posterior.partial_dependence([name], grid={name: [0.1, 0.9]})
    assert effect.mean[1] > 3 * effect.mean[0] > 0
    errors = row_diagnostics.errors(posterior.law, posterior.encode(new), posterior.predict(new))
    prediction = posterior.predict(new)
    assert np.all(errors.mean < prediction.sd)
    assert np.all(errors.intervals[0].upper < prediction.upper - prediction.lower)
    assert posterior.summary().sigma["rhat"] > 0.9


@pytest.mark.parametrize(
    ("transform", "learnt"), [("log", "the logarithm"), ("yeo-johnson", "the Yeo-Johnson power")]
)
def test_words_say_whose_unit_figures_are_in(transform, learnt):
    """Errors of means are compared with the outcome's noise row by row; other figures name their scale."""
    X, y = skewed()
    table, settings = {"a": X[:, 0], "b": X[:, 1]}, FAST | {"target_name": "rent", "linear": True}
    settings |= {"noise": "constant"}
    posterior = fit(table, 40_000 * y, transform=transform, **settings)
    precision = posterior.summary().precision
    f = posterior.law.draws_by_figure(posterior.reference)
    noise = posterior.sample_sigma(posterior.reference).mean(axis=(0, 1))
    errors = 2 * f.std(axis=(1, 2), ddof=1) / np.sqrt(rhat_ess.ess_mean(f))
    assert precision.noise == pytest.approx(noise.mean())
    assert precision.share == pytest.approx(np.quantile(errors / noise, 0.95))
    assert precision.means_usable == (precision.error_share <= 0.25)
    assert "e+" not in str(posterior.summary())
    assert f"{precision.share:.0%} of the noise's standard deviation" in str(posterior.summary())
    assert {term["scale"] for term in posterior.linear_part()} == {f"{learnt} of rent"}
    pairs = posterior.interactions(["a", "b"])
    assert pairs.scale == f"{learnt} of rent"
    assert pairs.scale in str(pairs)
    assert pairs.scale in pairs._repr_html_()
    sd = number_to_text(float(posterior.sigma.mean()))
    for card in (posterior.model_card().to_markdown(), posterior._repr_html_()):
        assert f"standard deviation {sd} of {learnt} of rent" in card
    own = fit(X, y, transform="none", noise="constant", **FAST)
    assert f"standard deviation {number_to_text(float(own.sigma.mean()))}<" in own._repr_html_()
    assert own.summary().precision.share * own.sigma.mean() == pytest.approx(own.summary().precision.mean)


def test_noise_of_a_logarithm_is_also_told_in_percent():
    """The outcome's coefficient of variation, where the noise of its logarithm is normal."""
    X, y = skewed()
    posterior = fit(X, y, transform="log", target_name="rent", **FAST)
    sd = np.sqrt(np.expm1(posterior.sample_learnt(X[:5])[1] ** 2))
    (share,) = re.findall(r"about (\d+)% of rent", posterior._repr_html_())
    assert int(share) == pytest.approx(100 * sd.mean(), abs=1)


def test_auto_chooses_by_the_residuals():
    """The logarithm where noise grows in proportion, a power for skewed values of either sign, else none."""
    rng = np.random.default_rng(0)
    X, y = skewed(300)
    codes = (255 * X.T).astype(np.uint8)
    even = np.exp(3 * X[:, 0]) + rng.normal(size=300)  # the logarithm makes its noise uneven
    line = 3 + 2 * X[:, 0] + 0.5 * rng.normal(size=300)

    def chosen(name, y, rows=300, weights=None):
        transform, linear = choose_transform_and_line(name, False, y, X.T[:, :rows], weights, codes[:, :rows])
        assert not linear
        return transform

    assert chosen("auto", y) == Transform("log").within(y)
    assert chosen("auto", line) == IDENTITY
    assert chosen("auto", even - even.min() + 0.01) == IDENTITY
    either = chosen("auto", y - 9, weights=np.ones(300))
    assert either.kind == "yeo-johnson"
    assert either.power in POWERS[:8]
    assert chosen("none", y) == IDENTITY
    assert chosen("auto", y[:20], rows=20) == IDENTITY


def test_noise_by_row_competes_with_transforms():
    """Noise that grows with the outcome looks skewed to noise of one size; to noise by row it does not."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=1000)
    growing = 4 * x**2 + np.exp(2 * x) / 5 * rng.normal(size=1000)
    X, y = skewed(300)
    for outcome, columns, kinds in ((growing, x[:, None], ("none", "yeo-johnson")), (y, X, ("log", "log"))):
        for noise, kind in zip(("forest", "constant"), kinds, strict=True):
            transform = prepare(columns, outcome, noise=noise, linear=False).transform
            assert transform.kind == kind
    codes = (255 * X.T).astype(np.uint8)
    for weights in (None, np.where(np.arange(300) % 3 > 0, 2.0, 0.0)):
        chosen = choose_transform_and_line("auto", "auto", y, X.T, weights, codes, uneven=True)
        assert chosen == (Transform("log").within(y), False)


def test_a_line_competes_with_transforms():
    """A skewed sum of columns with noise in proportion: the logarithm beats trees, not trees with a line."""
    rng = np.random.default_rng(2)
    X = rng.lognormal(sigma=0.8, size=(400, 3))
    y = (X @ [1.0, 2.0, 1.5]) * np.exp(0.1 * rng.normal(size=400))
    codes = np.array([np.searchsorted(np.quantile(x, np.arange(0.01, 1, 0.01)), x) for x in X.T])
    rows = y, X.T, None, codes.astype(np.uint8)
    assert choose_transform_and_line("auto", False, *rows) == (Transform("log").within(y), False)
    assert choose_transform_and_line("auto", "auto", *rows) == (IDENTITY, True)
    assert choose_transform_and_line("auto", True, *rows) == (IDENTITY, True)
    assert choose_transform_and_line("log", "auto", *rows) == (Transform("log").within(y), False)


def test_auto_is_the_default_of_numbers():
    """The settings say what was chosen; the prior alone and absolute constants are on the outcome's scale."""
    X, y = skewed(300)
    prepared = prepare(X, y)
    assert prepared.transform == Transform("log").within(y)
    assert prepared.training.settings.transform == "log"
    assert "the logarithm of the target" in fit(X, y, **FAST).model_card().to_markdown()
    for settings in ({"prior_only": True}, {"prior": {"sigma": 1.0}}, {"noise": "t"}, {"method": "bcart"}):
        assert prepare(X, y, **settings).transform == IDENTITY
    assert Settings.resolve().transform == "auto"
    assert Settings.resolve(family="probit").transform == "none"
    stored = Settings.resolve(transform="none").to_json()
    assert "transform" not in stored
    assert Settings.from_json(stored).transform == "none"


def test_a_quick_regression_predicts_rows():
    """Residuals of rows left out are about the noise, whatever their weight and with many columns."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 200, (60, 900)).astype(np.uint8)
    truth = 2.0 * (codes[3] > 100) + codes[50] / 100
    weights = rng.uniform(0.5, 2, 900)
    weights[:30] = 0.0
    y = truth + 0.3 * rng.normal(size=900) / np.sqrt(np.maximum(weights, 0.1))
    left = held_out_residuals(codes, None, y, weights)
    assert 0.25 < np.sqrt(np.average(left**2, weights=weights)) < 0.5 * y.std()
    np.testing.assert_array_equal(left, held_out_residuals(codes, None, y, weights))
    design = codes.astype(float)
    design[9, ::3] = np.nan
    z = standardised(design)
    both = held_out_residuals(codes, z, y + codes[7] / 10.0, weights)
    assert np.sqrt(np.average(both**2, weights=weights)) < 0.5 * y.std()


def boosted(binned, y, weights):
    """Compute what `_boost` does, in plain numpy."""
    columns, rows = binned.shape
    offset = np.arange(columns)[:, None] * BINS
    fitted = np.zeros(rows)
    for _ in range(TREES):
        residual, leaf = weights * (y - fitted), np.zeros(rows, np.int64)
        for level in range(DEPTH):
            place = ((leaf * columns * BINS)[None] + offset + binned).ravel()
            shape = (1 << level, columns, BINS)
            total, size = (
                np.bincount(place, np.tile(values, columns), np.prod(shape)).reshape(shape).cumsum(axis=2)
                for values in (residual, weights)
            )
            rest, others = total[:, :, -1:] - total, size[:, :, -1:] - size
            gain = total**2 / (size + SHRINKAGE) + rest**2 / (others + SHRINKAGE)
            column, cut = np.divmod(gain.reshape(len(gain), -1).argmax(axis=1), BINS)
            leaf = 2 * leaf + (binned[column[leaf], np.arange(rows)] > cut[leaf])
        value = np.bincount(leaf, residual, 1 << DEPTH) / (np.bincount(leaf, weights, 1 << DEPTH) + SHRINKAGE)
        fitted += RATE * value[leaf]
    return fitted


@pytest.mark.parametrize(("columns", "rows", "bins"), [(1, 3, 2), (5, 400, 32), (30, 900, 12)])
def test_boosted_trees_equal_their_plain_twin(columns, rows, bins):
    """The kernel's sums are added in numpy's order, so every digit is the same."""
    rng = np.random.default_rng(rows)
    binned = rng.integers(0, bins, (columns, rows)).astype(np.uint8)
    weights = np.where(rng.random(rows) < 0.3, 0.0, rng.uniform(0.5, 2, rows))
    y = rng.normal(size=rows) + binned[:1].sum(axis=0) / 5
    warm(GROUP)
    np.testing.assert_array_equal(_boost(binned, y, weights), boosted(binned, y, weights))


def test_scale_of_the_outcome_changes_units_alone():
    """Yeo and Johnson's power is of the outcome in its own units: a factor changes nothing."""
    X, y = skewed(120)
    a, b = (fit(X, unit * y, transform="yeo-johnson", **FAST) for unit in (1.0, 2.0**10))
    assert a.transform.power == b.transform.power
    np.testing.assert_allclose(a.predict(X[:5]).upper * 2.0**10, b.predict(X[:5]).upper, rtol=1e-9)


def test_what_a_transform_does_not_go_with():
    """Outcomes without a logarithm, classes, single trees and heavy tails are refused by name."""
    X, y = skewed(40)
    with pytest.raises(SettingsError, match="row 1 has -") as refused:
        prepare(X, np.concatenate([[-2.0], y[1:]]), transform="log")
    assert refused.value.field == "transform"
    for other in ({"family": "probit"}, {"method": "bcart"}, {"noise": "t"}, {"transform": "sqrt"}):
        with pytest.raises(SettingsError) as refused:
            Settings.resolve(**{"transform": "log"} | other)
        assert refused.value.field == "transform"


def test_a_header_of_an_odd_transform_is_refused():
    """A power with which T doesn't take every value, and ends that are none."""
    X, y = skewed(40)
    header = Header.from_bytes(prepare(X, y, transform="yeo-johnson").header())
    assert header.transform.kind == "yeo-johnson"
    power, ends = Transform("yeo-johnson", 0.0, 1.0, -3.0), Transform("log", low=2.0, high=1.0)
    for odd in (power, ends, Transform("log", low=2.0)):
        with pytest.raises(PackedError, match="transform"):
            Header.from_bytes(type(header)(**{**vars(header), "transform": odd}).to_bytes())
