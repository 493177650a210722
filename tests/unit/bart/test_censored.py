"""Censored numbers and times: golden value, law of trees and latent outcomes, answers, scores, refusals."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from sampler import DataError, PackedError, SettingsError, fit, load, select_features, tune
from sampler.bart.chain import Chain
from sampler.data.censoring.regression import expect, fit_censored, log_normal_between
from sampler.data.transform import IDENTITY
from sampler.posterior.assessment import censored_scores as scores
from sampler.posterior.explanations.survival_curves import middle_of_mixture, restricted_mean
from sampler.posterior.untrusted import read_contents
from sampler.preparation import prepare
from tests.reference.censored import CensoredTrees
from tests.reference.enumerator import leaf_law
from tests.support.chain_driver import check_resuming, training
from tests.support.toy_problems import GOLDEN_X, GOLDEN_Y

FAST = {"num_trees": 20, "num_chains": 2, "num_burnin": 80, "num_draws": 50, "thin": 1, "progress": False}
LIMITS = np.array([[0.3, -0.4, 0.1, 0.45, -0.5], [0.3, -0.4, np.inf, 0.45, 0.1]])
INF = np.inf


@cache
def golden():
    """Enumerate the trees of the published rows, two of them censored."""
    return CensoredTrees(GOLDEN_X.T, GOLDEN_Y, limits=LIMITS)


def test_the_evidence_is_the_golden_one():
    """One tree on the published rows, the third censored from the right and the fifth between limits."""
    assert golden().log_density == pytest.approx(-3.30315411, abs=2e-6)


def test_trees_have_their_posterior_law():
    """The engine's tree has 1 to 5 leaves as often as enumerated, with outcomes drawn between limits."""
    toy = golden()
    prior = {"alpha": 0.95, "beta": 1.0, "leaf_sd": 0.25, "sigma": 0.05**0.5, "step": 2.0**-20}
    data = training(toy.codes, GOLDEN_Y, prior=prior, num_trees=1, num_burnin=100, num_draws=2500, thin=8)
    chain = Chain.start(replace(data, limits=LIMITS), 0)
    chain.run(10**6)
    counts = np.bincount(chain.take().leaf_counts[:, 0], minlength=6)[1:6]
    expected = leaf_law(toy, toy.posterior)
    assert stats.chisquare(counts, expected * counts.sum()).pvalue > 1e-4


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-INF, 0.4),
        (2.5, INF),
        (-INF, -30.0),
        (-1.0, 0.3),
        (0.1, 0.4),
        (1.0, 2.5),
        (4.0, 9.0),
        (-3.2, -3.1),
        (-40.0, -8.0),
    ],
)
def test_latent_outcomes_have_their_law(low, high):
    """Outcomes between limits are truncated normals, in the middle and in either tail."""
    from sampler.bart.kernels.row_latents.censored import draw_censored

    many, unit = 4000, 1 << 18
    residual, latent = np.full(many, -7, np.int32), np.zeros(many, np.int32)  # f is 7 steps
    limits = np.ascontiguousarray(np.tile(7 + unit * np.array([[low], [high]]), (1, many)))
    words = np.random.SeedSequence(3).generate_state(4, np.uint64)
    rows = np.arange(many, dtype=np.int32)
    draw_censored(rows, limits, residual, latent, np.zeros(0, np.int32), float(unit) ** 2, 1.0, words)
    z = (latent - 7.0) / unit
    assert np.all(latent - residual == 7)
    assert stats.kstest(z, stats.truncnorm(low, high).cdf).pvalue > 1e-4


def times_until_events(rows=600, seed=0):
    """Times e^(1 + x1 + noise of sd .5), half of them censored: table, times, events, truth."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 2))
    times = np.exp(1 + X[:, 0] + 0.5 * rng.normal(size=rows))
    censored = np.exp(1 + 0.8 * rng.normal(size=rows))
    event = (times <= censored).astype(int)
    return {"a": X[:, 0], "b": X[:, 1], "event": event}, np.minimum(times, censored), event, 1 + X[:, 0]


def part_of(table, rows):
    """Select rows of a mapping of columns."""
    return {name: values[rows] for name, values in table.items()}


@pytest.mark.parametrize("noise", ["constant", "forest"])
def test_a_chain_resumes_bit_for_bit(noise):
    """From a checkpoint after any iteration: latent outcomes are no part of the state."""
    table, times, event, _ = times_until_events(80)
    settings = {"num_trees": 7, "num_chains": 1, "num_burnin": 12, "num_draws": 8, "thin": 1}
    check_resuming(prepare({"a": table["a"]}, times, event=event, noise=noise, **settings).training)


def test_without_a_censored_row_draws_are_those_of_numbers():
    """All events seen: the draws of the same fit of logarithms, bit for bit."""
    table, times, _, _ = times_until_events(60)
    X, few = {"a": table["a"]}, FAST | {"num_burnin": 5, "num_draws": 5}
    seen = fit(X, times, event=np.ones(60), **few)
    plain = fit(X, times, transform="log", linear=False, **few)
    np.testing.assert_array_equal(seen.sigma, plain.sigma)
    sevenths = [posterior.predict(X, quantiles=np.arange(1, 7) / 7).quantiles for posterior in (seen, plain)]
    for (_, of_seen), (_, of_plain) in zip(*sevenths, strict=True):  # means are held at ends
        np.testing.assert_array_equal(of_seen, of_plain)


@pytest.fixture(scope="module")
def fitted():
    """A model of half of the rows, and the other half with their times and true medians."""
    table, times, event, truth = times_until_events(1000)
    rest = slice(500, None)
    first = slice(None, 500)
    X = {name: table[name][first] for name in "ab"}
    posterior = fit(X, times[first], event=event[first], **FAST)
    return posterior, part_of(table, first), times[first], part_of(table, rest), times[rest], truth[rest]


def test_contrasts_are_of_mean_times(fitted):
    """The difference of what `sample` draws at the two settings, by row and on average, with its law."""
    posterior, X, *_ = fitted
    rows = {name: X[name][:40] for name in "ab"}
    contrast = posterior.contrast(rows, {"a": 1.0}, {"a": -1.0})
    first, second = (posterior.sample(rows | {"a": np.full(40, value)}) for value in (1.0, -1.0))
    apart = (first - second).reshape(-1, 40)
    np.testing.assert_allclose(contrast.mean, apart.mean(axis=0), rtol=1e-9)
    assert contrast.average.mean == pytest.approx(apart.mean(), rel=1e-9)
    np.testing.assert_allclose(contrast.lower, np.quantile(apart, 0.05, axis=0), rtol=1e-9)


def test_times_are_those_of_the_process(fitted):
    """Ignoring censoring would halve the times: medians, noise and intervals are right."""
    posterior, _, _, table, _, truth = fitted
    assert posterior.settings["transform"] == "log"
    assert posterior.censoring == {"event": "event"}
    assert [column.name for column in posterior.schema.columns] == ["a", "b"]
    assert posterior.sigma.mean() == pytest.approx(0.5, abs=0.06)
    f, _ = posterior.sample_learnt(table)
    assert np.mean(f.mean(axis=(0, 1)) - truth) == pytest.approx(0, abs=0.08)
    prediction = posterior.predict(table)
    new = np.exp(truth + 0.5 * np.random.default_rng(1).normal(size=len(truth)))
    assert 0.85 < np.mean((prediction.lower < new) & (new < prediction.upper)) < 0.95


def test_curves_are_those_of_the_draws(fitted):
    """Survival, its median and restricted mean, with bands, as integrals of the draws say."""
    posterior, _, _, table, _, truth = fitted
    some = {name: table[name][:3] for name in "ab"}
    times = [0.5, 1.0, 2.0, 4.0, 8.0]
    curves = posterior.survival(some, times, level=0.8)
    f, sd = (values.reshape(-1, 3) for values in posterior.sample_learnt(some))
    above = stats.norm.sf((np.log(times)[:, None, None] - f) / sd)  # [time, draw, row]
    np.testing.assert_allclose(curves.survival, above.mean(axis=1).T, rtol=1e-12)
    np.testing.assert_allclose(curves.lower, np.quantile(above, 0.1, axis=1).T, rtol=1e-12)
    assert np.all(np.diff(curves.survival) < 0)
    at_median = stats.norm.sf((np.log(curves.median.value) - f) / sd).mean(axis=0)
    np.testing.assert_allclose(at_median, 0.5, atol=1e-9)
    assert np.all((curves.median.lower < curves.median.value) & (curves.median.value < curves.median.upper))
    area = integrate.quad(lambda t: stats.norm.sf((np.log(t) - f[:, 0]) / sd[:, 0]).mean(), 0, 8)[0]
    assert curves.restricted_mean.value[0] == pytest.approx(area, rel=1e-6)
    np.testing.assert_allclose(np.log(curves.median.value), truth[:3], atol=0.5)
    frame = curves.to_pandas()
    assert frame.shape == (15, 5)
    labelled = posterior.survival(pd.DataFrame(some, index=[7, 9, 8]), times).to_pandas()
    assert labelled["row"].tolist() == np.repeat([7, 9, 8], 5).tolist()
    assert len(posterior.survival(some).times) == 50
    for wrong in ([], [2, 1], [np.inf], "soon", np.zeros(2000)):
        with pytest.raises(SettingsError, match="increasing finite numbers"):
            posterior.survival(some, wrong)


def test_figures_of_numbers_are_their_integrals():
    """The restricted mean of a normal number; the middle of a mixture."""
    f, sd = np.array([[0.3], [-0.2]]), np.array([[0.7], [0.4]])
    each = [integrate.quad(lambda y, m=m, s=s: min(y, 0.5) * stats.norm.pdf(y, m, s), -9, 9, points=[0.5])[0]
            for m, s in zip(f[:, 0], sd[:, 0], strict=True)]  # fmt: skip
    np.testing.assert_allclose(restricted_mean(f, sd, 0.5, IDENTITY)[:, 0], each, atol=1e-8)
    middle = middle_of_mixture(f, sd, IDENTITY)
    assert stats.norm.cdf((middle - f) / sd).mean() == pytest.approx(0.5, abs=1e-12)


def test_scores_know_what_is_censored(fitted, tmp_path):
    """A true model is calibrated on censored rows, orders times, and is better than none."""
    posterior, first, times, table, later, _ = fitted
    figures = posterior.score(table, later)
    assert figures["censored"] == np.count_nonzero(table["event"] == 0)
    assert 0.7 < figures["concordance"] < 0.9
    assert figures["d_calibration"]["p"] > 1e-3
    assert sum(figures["d_calibration"]["shares"]) == pytest.approx(1)
    at = np.array([each["time"] for each in figures["brier_by_time"]])
    nothing = scores.brier(later, table["event"] == 1, at, np.full((500, 30), 0.5)).mean()
    assert figures["integrated_brier"] < 0.8 * nothing
    assert all(each["lower"] - 0.03 < each["level"] < each["upper"] + 0.03 for each in figures["coverage"])
    assert figures["intervals_verdict"]["verdict"] == "held"
    seen = table["event"] == 1
    law = posterior.law.outcome_law(posterior.encode(part_of(table, seen)))
    logs = np.zeros(500)
    logs[seen] = law.log_density(later[seen])
    rest = part_of(table, ~seen)
    curves = (posterior.survival(part_of(rest, [i]), [t]) for i, t in enumerate(later[~seen]))
    logs[~seen] = [np.log(curve.survival[0, 0]) for curve in curves]
    assert figures["log_score"] == pytest.approx(logs.mean(), rel=1e-9)
    ranked = posterior.importance(table, later, permutations=3)
    assert ranked.loss == "log_loss"
    assert ranked.names[ranked.order[0]] == "a"
    assert len(posterior.calibration(table, later)) == 20
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    assert again.score(table, later) == figures
    without = {name: first[name] for name in "ab"}
    for wrong in (lambda: again.score(without, times), lambda: again.extend(10, without, times)):
        with pytest.raises(DataError, match=r"'event'.*need theirs too"):
            wrong()
    with pytest.raises(SettingsError, match="censored outcomes take no weights"):
        again.score(table, later, np.ones(500))
    with pytest.raises(SettingsError, match="can't be calibrated"):
        again.calibrate(table, later)


def test_detection_limits_and_intervals(tmp_path):
    """Numbers below a limit, and numbers known to a half: slopes and noise are found."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, 400)
    y = 1 + x + 0.3 * rng.normal(size=400)
    seen = np.where(y < 0.8, np.nan, y)
    below = fit({"x": x}, seen, upper=np.full(400, 0.8), linear=True, **FAST)
    within = fit(
        {"x": x}, np.full(400, np.nan), lower=np.floor(2 * y) / 2, upper=np.floor(2 * y) / 2 + 0.5, **FAST
    )
    for posterior in (below, within):
        assert posterior.sigma.mean() == pytest.approx(0.3, abs=0.06)
        line = posterior.predict({"x": np.array([-0.9, 0.9])}).mean
        np.testing.assert_allclose(line, [0.1, 1.9], atol=0.25)
    scores = below.score({"x": x, "upper": np.full(400, 0.8)}, seen)
    assert scores["concordance"] is None
    assert scores["brier_by_time"] == []
    assert within.censoring == {"lower": "lower", "upper": "upper"}
    contents = read_contents(within.to_bytes())
    assert contents.posterior.censoring == within.censoring


def test_scores_are_their_definitions():
    """Kaplan and Meier's curve, Harrell's C, the weighted Brier score and D-calibration, by hand."""
    times, events = np.array([1.0, 2, 2, 3, 4]), np.array([1, 1, 0, 0, 1], bool)
    at, curve = scores.kaplan_meier(times, events)
    np.testing.assert_allclose(at, [1, 2, 3, 4])
    np.testing.assert_allclose(curve, [0.8, 0.6, 0.6, 0])
    predicted = np.array([1.0, 3, 2, 2, 5])
    # comparable: 1 before the other four; 2 before (2, censored), 3 and 4
    assert scores.concordance(times, events, predicted) == pytest.approx((4 + 1) / 7)
    assert scores.concordance(times, np.zeros(5, bool), predicted) is None
    survival = np.array([[0.2], [0.3], [0.6], [0.7], [0.8]])
    left = 1 * (1 - 1 / 3)  # not censored beyond 2: one of the three there is that has no event at 2
    expected = (0.2**2 + 0.3**2 + (0.3**2 + 0.2**2) / left) / 5
    np.testing.assert_allclose(scores.brier(times, events, np.array([2.5]), survival), [expected])
    statistic = scores.d_calibration(np.array([0.05, 0.5]), np.array([0.05, 1.0]))
    np.testing.assert_allclose(statistic["shares"], [0.5, 0, 0, 0, 0, 0.1, 0.1, 0.1, 0.1, 0.1])


def test_tied_times_of_events_and_of_censoring_leave_brier_scores_right():
    """In whole weeks S G is the share of rows left, and scores are those without censoring.

    S(t) G(t) = #(times > t) / n holds exactly where events come before censorings at equal times.
    """
    rng = np.random.default_rng(7)
    event, censoring = rng.geometric(0.15, 20_000), rng.geometric(0.12, 20_000)
    times, events = np.minimum(event, censoring).astype(float), event <= censoring
    at, survival = scores.kaplan_meier(times[:300], events[:300])
    _, remaining = scores.kaplan_meier(times[:300], events[:300], of_censoring=True)
    np.testing.assert_allclose(survival * remaining, np.mean(times[:300] > at[:, None], axis=1), atol=1e-12)
    weeks = np.arange(1.0, 8)
    predicted = np.tile(0.85**weeks, (len(times), 1))
    uncensored = scores.brier(event.astype(float), np.ones(len(event), bool), weeks, predicted)
    np.testing.assert_allclose(scores.brier(times, events, weeks, predicted), uncensored, rtol=0.01)


def test_a_censored_line_is_that_of_the_largest_likelihood():
    """Expectation and maximisation agree with the likelihood's derivative; moments with scipy's."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(1, 800))
    y = 2 + 0.7 * x[0] + 0.5 * rng.normal(size=800)
    limits = np.stack([np.minimum(y, 2.2), np.where(y > 2.2, INF, y)])
    expected, sigma = fit_censored(limits, x)
    assert sigma == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(expected[y <= 2.2], y[y <= 2.2])
    assert np.all(expected[y > 2.2] > 2.2)
    low, high = np.array([[-INF, 1, -2, 30, 5.0, 2], [0.5, INF, 1, 31, 5.0001, 2]])
    mean, variance = expect(np.stack([low, high]), np.zeros(6), 1.0)
    law = stats.truncnorm(low[:3], high[:3])
    np.testing.assert_allclose(mean[:3], law.mean(), rtol=1e-9)
    np.testing.assert_allclose(variance[:3], law.var(), rtol=1e-7)
    assert 30 < mean[3] < 30.1
    assert 5 < mean[4] < 5.0001
    assert (mean[5], variance[5]) == (2, 0)
    np.testing.assert_allclose(
        log_normal_between(low[:3], high[:3]), np.log(np.diff(stats.norm.cdf([low[:3], high[:3]]), axis=0)[0])
    )
    assert log_normal_between(np.array([40.0]), np.array([INF]))[0] == pytest.approx(stats.norm.logsf(40))


X = {"x": np.arange(6.0)}
Y = np.array([1.0, 2, 3, 4, 5, 6])
SOME = np.array([1, 0, 1, 0, 1, 1])
GONE = np.where(SOME == 1, Y, np.nan)


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (Y, {"event": [1, 0, 2, 1, 0, 1]}, "event.*row 3.*must be 1"),
        (Y, {"event": ["a"] * 6}, "events must be numbers"),
        (Y, {"event": [1, 0, None, 1, 0, 1]}, "row 3.*event is missing"),
        (Y - 1, {"event": SOME}, "row 1.*must be positive"),
        (Y, {"event": np.zeros(6)}, "every row is censored"),
        (np.ones(6), {"event": np.ones(6)}, "constant target"),
        (GONE, {"lower": Y, "upper": Y - 1}, "row 1.*above the upper"),
        (GONE, {"lower": np.where(Y == 2, 1, np.nan)}, "row 4.*neither an outcome nor a limit"),
        (Y, {"lower": Y}, "row 1.*equals a limit"),
        (GONE, {"lower": ["a"] * 6}, "a limit must be numeric"),
        (np.full(6, np.nan), {"lower": Y}, "every row is censored"),
        (GONE, {"upper": -Y, "transform": "log"}, "must be positive"),
        (Y, {"event": [1, 0]}, "2 rows"),
    ],
)
def test_data_that_cannot_be(y, options, message):
    """Refused by column and row."""
    with pytest.raises(DataError, match=message):
        fit(X, y, progress=False, **options)


def test_studies_know_no_censored_outcomes():
    """Refused by name: shuffled outcomes would leave their events behind."""
    for study in (select_features, tune, lambda X, y, event: fit(X, y, event=event, calibrate="folds")):
        with pytest.raises(SettingsError, match="does not support censored outcomes"):
            study(X, Y, event=SOME)


@pytest.mark.filterwarnings("ignore::sampler.errors.DataWarning")
def test_curves_need_censored_outcomes():
    """Refused where the model has none; a header whose columns have no names can't be read."""
    few = FAST | {"num_trees": 2, "num_chains": 1, "num_burnin": 1, "num_draws": 2}
    plain = fit(X, Y**2, **few)
    with pytest.raises(SettingsError, match="no survival curves"):
        plain.survival(X)
    posterior = fit(X, Y**2, event=SOME, **few)
    strange = replace(posterior.header, roles={"event": 1}).to_bytes()
    with pytest.raises(PackedError, match="censored outcomes"):
        type(posterior.header).from_bytes(strange)


def test_auto_and_warnings():
    """Family auto of zeros and ones with events is gaussian; few events are told."""
    with pytest.warns(UserWarning, match="17% of the outcomes were observed"):
        posterior = fit(X, [1, 1, 1, 2, 1, 1], event=[0, 0, 0, 1, 0, 0], family="auto", **FAST)
    assert posterior.family == "gaussian"
