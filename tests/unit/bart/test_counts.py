"""Counts by log-linear forests: golden values, the law of trees, dispersion, zeros, answers, refusals."""

from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

from sampler import DataError, fit, load, start_chain
from sampler.bart.chain import Chain
from sampler.bart.families import counts
from sampler.bart.families.count_arms import CountArms
from sampler.bart.log_linear import STEP
from sampler.posterior.laws.count_law import CountLaw
from sampler.preparation import prepare
from tests.reference.enumerator import leaf_law
from tests.reference.log_linear import CountTrees
from tests.support.chain_driver import check_resuming, training
from tests.support.toy_problems import GOLDEN_X

FAST = {"num_trees": 20, "num_chains": 2, "num_burnin": 80, "num_draws": 50, "thin": 1, "progress": False}
FAMILIES = ("poisson", "negative-binomial", "zero-inflated-poisson", "zero-inflated-negative-binomial")
Y = (0, 3, 1, 5, 0)
EXPOSURE = (1, 2, 0.5, 1.5, 1)


@cache
def trees_of(dispersion):
    """Enumerate the trees of the published rows with their posterior."""
    return CountTrees(GOLDEN_X.T, Y, exposure=EXPOSURE, dispersion=dispersion)


@pytest.mark.parametrize(
    ("dispersion", "evidence", "law"),
    [
        (None, -8.6546276672, [0.02339282, 0.28080873, 0.37810946, 0.24865463, 0.06903436]),
        (1.7, -8.74310471, [0.03950847, 0.35937098, 0.34024659, 0.20427755, 0.05659641]),
    ],
)
def test_the_evidence_is_the_golden_one(dispersion, evidence, law):
    """One tree of rates on the published rows: evidence and law of its leaves."""
    toy = trees_of(dispersion)
    assert toy.log_density == pytest.approx(evidence, abs=2e-6)
    np.testing.assert_allclose(leaf_law(toy, toy.posterior), law, atol=2e-6)


@pytest.mark.parametrize("name", ["_data", "_forests", "_work"])
def test_a_sweep_works_on_the_arrays_that_it_is_given(name):
    """A chain whose arrays are replaced by copies goes on with the copies, bit for bit."""
    straight, copied = (Chain.start(training(GOLDEN_X.T, Y, family="poisson"), 0) for _ in range(2))
    straight.run(12)
    copied.run(6)
    held = getattr(copied, name)
    setattr(copied, name, deepcopy(held))
    copied.run(6)
    assert copied.checkpoint() == straight.checkpoint()


@pytest.mark.parametrize(
    ("dispersion", "moves"),
    [
        (None, "default"),
        (None, "pg"),
        pytest.param(1.7, "default", marks=pytest.mark.slow),
        pytest.param(1.7, "pg", marks=pytest.mark.slow),
    ],
)
def test_trees_of_rates_have_their_posterior_law(monkeypatch, dispersion, moves):
    """The engine's tree has 1 to 5 leaves as often as enumerated."""
    monkeypatch.setattr(counts, "gamma_prior", lambda _log_sd, _trees: (2.0, 1.5))
    toy = trees_of(dispersion)
    family = "negative-binomial" if dispersion else "poisson"
    settings = {"num_trees": 1, "num_burnin": 100, "num_draws": 1500, "thin": 8, "moves": moves}
    data = training(toy.codes, Y, prior={"alpha": 0.95, "beta": 1.0}, family=family, **settings)
    constants = replace(data.constants, rate=1.0, dispersion=dispersion or 0.0)
    chain = Chain.start(
        replace(data, constants=constants, by_role={"exposure": np.array(EXPOSURE, float)}), 0
    )
    chain.run(10**6)
    seen = np.bincount(chain.take().leaf_counts[:, 0], minlength=6)[1:6]
    expected = leaf_law(toy, toy.posterior)
    assert stats.chisquare(seen, expected * seen.sum()).pvalue > 1e-4


def simulated(rows, seed=0, *, size=2.0, zeros=0.0):
    """Counts of rate e^(x1), with exposures and perhaps overdispersed, with more zeros."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(rows, 2))
    exposure = rng.uniform(0.5, 4, rows)
    mean = 2 * exposure * np.exp(X[:, 0])
    y = rng.poisson(mean * (rng.gamma(size, 1 / size, rows) if size else 1.0))
    y[rng.uniform(size=rows) < zeros] = 0
    return X, y, exposure


@pytest.mark.parametrize("family", FAMILIES)
def test_a_chain_resumes_bit_for_bit(family):
    """From a checkpoint after any iteration, the dispersion and structural zeros included."""
    X, y, exposure = simulated(80, zeros=0.3)
    settings = {"num_trees": 7, "num_chains": 1, "num_burnin": 12, "num_draws": 8, "thin": 1}
    check_resuming(prepare(X, y, exposure=exposure, family=family, **settings).training)


def test_rates_dispersion_and_intervals_are_those_of_the_process(tmp_path):
    """Overdispersed counts: rates and dispersion are found, intervals hold, files agree."""
    X, y, exposure = simulated(1500)
    table = {"a": X[:, 0], "b": X[:, 1], "exposure": exposure}
    half = {name: values[:750] for name, values in table.items()}
    rest = {name: values[750:] for name, values in table.items()}
    settings = FAST | {"num_burnin": 150}
    posterior = fit(half, y[:750], exposure=exposure[:750], family="negative-binomial", **settings)
    assert posterior.exposure == "exposure"
    assert [column.name for column in posterior.schema.columns] == ["a", "b"]
    assert posterior.dispersion.mean() == pytest.approx(2.0, rel=0.35)
    prediction = posterior.predict(rest)
    truth = 2 * exposure[750:] * np.exp(X[750:, 0])
    assert np.corrcoef(prediction.mean, truth)[0, 1] > 0.97
    assert np.all(prediction.lower == np.rint(prediction.lower))
    inside = np.mean((prediction.lower <= y[750:]) & (y[750:] <= prediction.upper))
    assert 0.87 < inside < 0.99
    unit = posterior.predict({name: rest[name] for name in "ab"})
    assert any("exposure of 1" in warning for warning in unit.warnings)
    np.testing.assert_allclose(unit.mean * exposure[750:], prediction.mean, rtol=1e-12)
    one = posterior.predict({name: float(values[0]) for name, values in rest.items()})
    assert one.mean == pytest.approx(prediction.mean[:1], rel=1e-12)
    pmf = posterior.pmf({name: values[:3] for name, values in rest.items()}, largest=200)
    np.testing.assert_allclose(pmf.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(pmf @ np.arange(201), prediction.mean[:3], rtol=1e-3)
    few = {name: values[:150] for name, values in rest.items()}
    scores = posterior.score(few, y[750:900])
    assert abs(scores["zeros"]["observed"] - scores["zeros"]["predicted"]) < 0.06
    assert scores["deviance"] > 0
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    np.testing.assert_array_equal(again.predict(few).upper, prediction.upper[:150])
    with pytest.raises(DataError, match=r"'exposure'.*need theirs too"):
        again.extend(10, {name: half[name] for name in "ab"}, y[:750], progress=False)


def test_more_zeros_are_found():
    """A process with 40% structural zeros: the share of zeros is predicted, which Poisson alone can't."""
    X, y, _ = simulated(800, size=0, zeros=0.4)
    posterior = fit(X, y, family="zero-inflated-poisson", **FAST | {"num_burnin": 150})
    zeros = posterior.score(X, y, quick=True)["zeros"]
    assert zeros["predicted"] == pytest.approx(zeros["observed"], abs=0.03)
    plain = fit(X, y, family="poisson", **FAST | {"num_burnin": 150}).score(X, y, quick=True)
    assert plain["zeros"]["predicted"] < zeros["observed"] - 0.1


def test_the_law_of_a_count_is_that_of_scipy():
    """Mixtures of one draw: probabilities, quantiles, mean scores, with and without more zeros."""
    mean, size, share = 3.7, 1.3, 0.25
    y = np.arange(12.0)
    rows = np.full((12, 1), mean)
    negative = stats.nbinom(size, size / (size + mean))
    for law, exact in (
        (CountLaw(rows, None, None), stats.poisson(mean)),
        (CountLaw(rows, np.array([size]), None), negative),
    ):
        np.testing.assert_allclose(law.pmf(y), exact.pmf(y), rtol=1e-10)
        assert law.quantile(0.95)[0] == exact.ppf(0.95)
        assert law.variance()[0] == pytest.approx(exact.var())
        below = law.below(y)
        assert np.all((exact.cdf(y - 1) <= below) & (below <= exact.cdf(y)))
    inflated = CountLaw(rows, np.array([size]), np.full((12, 1), share))
    assert inflated.pmf(np.zeros(12))[0] == pytest.approx(share + (1 - share) * negative.pmf(0))
    second = (1 - share) * (negative.var() + mean**2)
    assert inflated.variance()[0] == pytest.approx(second - ((1 - share) * mean) ** 2)
    k = np.arange(400)
    crps = np.sum((negative.cdf(k) - (k >= 5)) ** 2)
    assert CountLaw(rows[:1], np.array([size]), None).crps(np.array([5.0]))[0] == pytest.approx(crps)


@pytest.mark.parametrize("size", [None, 0.4, 30.0])
@pytest.mark.parametrize("zeros", [False, True])
def test_quantiles_of_counts_of_any_size(size, zeros):
    """Each is the smallest count whose distribution function reaches the level: means 1e-3 to 1e15."""
    rng = np.random.default_rng(0)
    mean = np.array([1e-3, 3, 40, 400, 3e3, 1e9, 1e15])[:, None] * rng.uniform(0.5, 2, (7, 20))
    mean[3, ::2] /= 30  # draws that differ
    dispersion = None if size is None else size * rng.uniform(1, 2, 20)
    law = CountLaw(mean, dispersion, rng.uniform(0, 0.4, mean.shape) if zeros else None)
    levels = np.array([0.95, 0.025, 0.5])
    for level, quantile in zip(levels, law.quantiles(levels), strict=True):
        assert np.all(quantile == np.floor(quantile))
        assert np.all(law.below_by_draw(quantile, slice(None)).mean(axis=1) > level - 1e-12)
        some = np.flatnonzero(quantile > 0)
        assert np.all(law.below_by_draw(quantile[some] - 1, some).mean(axis=1) < level + 1e-12)


@pytest.mark.parametrize("size", [None, 0.7, 30.0])
@pytest.mark.parametrize("zeros", [False, True])
def test_crps_of_counts_is_its_sum(size, zeros):
    """Up to 2,048 it is the sum over counts to rounding; beyond, by cells or as of normals, to 1e-3."""
    rng = np.random.default_rng(1)
    mean = np.array([1e-3, 2, 40, 200, 9e3, 2e5])[:, None] * rng.uniform(0.8, 1.3, (6, 5))
    mean[2, 0] = 1.5  # a draw that differs
    dispersion = None if size is None else size * rng.uniform(1, 2, 5)
    law = CountLaw(mean, dispersion, rng.uniform(0, 0.4, mean.shape) if zeros else None)
    y = np.array([1.0, 0, 60, 150, 8_000, 190_000])
    found = law.crps(y)
    for row, outcome in enumerate(y):
        one = CountLaw(mean[[row]], dispersion, None if law.structural is None else law.structural[[row]])
        end = max(one.quantile(1 - 1e-12)[0], outcome) + 1
        step = max(1, end // 20_000)
        k = np.arange(outcome % step, end, step) + step // 2  # the middles of cells; the outcome starts one
        below = one.below_by_draw(k, np.zeros(len(k), np.int64)).mean(axis=1)
        expected = step * np.sum((below - (outcome <= k)) ** 2)
        assert found[row] == pytest.approx(expected, rel=1e-9 if end < 2000 else 1e-3)


def test_crps_of_counts_beyond_all_cells():
    """It is proportional to the count where that is what the distributions are."""
    mean, size = np.array([[3.0], [5.0]]) * np.array([[1e9, 1.2e9]]), np.array([0.8, 1.1])
    for factor in (1e3, 1e6):
        law, larger = CountLaw(mean, size, None), CountLaw(mean * factor, size, None)
        y = np.array([1e9, 2e10])
        assert larger.crps(y * factor) == pytest.approx(factor * law.crps(y), rel=2e-3)


@pytest.mark.parametrize("size", [None, 2.0])
def test_quantiles_end_where_counts_are_no_longer_exact(size):
    """Beyond 2^53, where floats are further apart than counts, the search for a quantile ends too."""
    mean = np.array([[1e17], [1e30], [1e100]])
    law = CountLaw(mean, None if size is None else np.array([size]), None)
    (median,) = law.quantiles(np.array([0.5]))
    expected = mean[:, 0] * (1 if size is None else stats.gamma(size, scale=1 / size).median())
    np.testing.assert_allclose(median, expected, rtol=1e-6)


def test_explanations_take_the_rows_exposures():
    """Partial dependence and contrasts over rows of ten times the exposure are ten times as large."""
    X, y, exposure = simulated(120)
    table = {"a": X[:, 0], "b": X[:, 1]}
    posterior = fit(table, y, exposure=exposure, family="poisson", **FAST)
    ten = table | {"exposure": np.full(120, 10.0)}
    one = table | {"exposure": np.ones(120)}
    few, many = (posterior.contrast(rows, {"a": 0.5}, {"a": -0.5}) for rows in (one, ten))
    np.testing.assert_allclose(many.mean, 10 * few.mean)
    assert many.average.upper == pytest.approx(10 * few.average.upper)
    few, many = (posterior.partial_dependence(["a"], rows) for rows in (one, ten))
    np.testing.assert_allclose(many.mean, 10 * few.mean)


def test_a_very_large_dispersion_is_poisson():
    """The negative binomial family with a dispersion of 1e9 predicts as the Poisson family."""
    X, y, _ = simulated(300, size=0)
    settings = {name: value for name, value in FAST.items() if name != "progress"} | {"num_chains": 1}
    means = []
    for family in ("poisson", "negative-binomial"):
        data = prepare(X, y, family=family, **settings).training
        if family != "poisson":
            data = replace(data, constants=replace(data.constants, dispersion=1e9))
        chain = Chain.start(data, 0)
        chain.run(10**6)
        means.append(np.exp(counts.STEP * chain._models[0].log_value[:300]))
    assert np.corrcoef(*np.log(means))[0, 1] > 0.8


def test_what_is_no_count_or_exposure_is_refused():
    """Fractions, negative numbers and exposures of 0, by name."""
    X, y, exposure = simulated(40)
    with pytest.raises(DataError, match="whole number"):
        fit(X, y + 0.5, family="poisson", **FAST)
    with pytest.raises(DataError, match="whole number"):
        fit(X, y - 5, family="poisson", **FAST)
    with pytest.raises(DataError, match="exposure must be positive"):
        fit(X, y, exposure=exposure - exposure[0], family="poisson", **FAST)


def test_arms_see_the_rates_of_all_trees(monkeypatch):
    """An arm's trees are given the rates after all updates of the mean's trees, the last one too."""
    rng = np.random.default_rng(4)
    x, treatment = rng.uniform(size=80), np.arange(80) % 2
    y = rng.poisson(np.exp(2 * (x > 0.5)))
    settings = {"family": "poisson", "treatment": treatment, "num_trees": 3, "num_chains": 1, "seed": 1}
    chain = start_chain(prepare({"x": x}, y, **settings).training, 0)
    likelihood, sweep, off = chain._likelihood, CountArms.sweep, []  # what the arms are given

    def watched(self, forests, part, work):
        rates = likelihood._exposures() * np.exp(STEP * likelihood.models[0].log_value[:80])
        off.append(np.abs(part[:80] / rates - 1).max())
        sweep(self, forests, part, work)

    monkeypatch.setattr(CountArms, "sweep", watched)
    chain.run(10)
    assert len(off) == 10
    assert max(off) < 1e-9
