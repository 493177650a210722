"""Recalibrated laws: what is learnt from normal scores of outcomes, and the law that follows."""

import json
from copy import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from sampler import fit
from sampler.costs.durations import finish_seconds
from sampler.posterior.assessment import recalibrating
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.recalibrating import recalibration_of, why_not
from sampler.posterior.explanations import aggregates
from sampler.posterior.explanations.set_sums import SetSums
from sampler.posterior.laws.normal import NormalLaw
from sampler.posterior.recalibration.learning import (
    LARGEST_K,
    agree,
    learn_map,
    learn_scale,
    left_out,
    mean_shift,
)
from sampler.posterior.recalibration.recalibration import Recalibration, features_of
from sampler.posterior.recalibration.scale_trees import ScaleTrees
from tests.support.models import kinds


def made(n=600, scale=1.0, by_row=0.0, seed=0):
    """Return normal scores of rows whose scale differs by their first code, codes, and moments."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 100, (6, n)).astype(np.uint8)
    right = scale * np.exp(by_row * (np.sign(codes[0] - 49.5)))
    return right * rng.normal(size=n), codes, rng.normal(size=n), rng.uniform(1, 2, size=n)


def learnt(z, codes, mean, sd):
    trees, factor, middle, apart = learn_scale(z, features_of(codes, mean, sd))
    knots = learn_map(z / apart)
    assert knots is not None
    return Recalibration(*knots, -50.0, 50.0, len(z), 0, 100, trees, factor, middle)


def test_rows_with_the_right_law_change_it_by_chance_alone():
    """The scale is 1, and T is the identity within what chance allows quantiles of 2,000 rows."""
    own = learnt(*made(2_000))
    z = np.linspace(-2, 2, 41)
    assert own.trees is None
    assert np.abs(ndtr(own.forward(z)) - ndtr(z)).max() < 0.03
    again = learnt(*made(2_000))
    assert json.dumps(again.to_json()) == json.dumps(own.to_json())


@pytest.mark.parametrize("by_row", [0.0, 0.5])
def test_coverage_of_new_rows_is_mended(by_row):
    """A law that is too narrow, everywhere or in some rows, holds what it says at all levels and in both."""
    own = learnt(*made(3_000, 1.4, by_row))
    assert (own.trees is None) == (by_row == 0)
    z, codes, mean, sd = made(20_000, 1.4, by_row, seed=1)
    u = ndtr(own.score(z, own.scale(codes, mean, sd)))
    for level in (0.5, 0.8, 0.9, 0.95):
        inside = np.abs(2 * u - 1) <= level
        assert abs(inside.mean() - level) < 0.03
        before = np.abs(2 * ndtr(z) - 1) <= level
        assert before.mean() < level - 0.05
    high = codes[0] > 49
    inside = np.abs(2 * u - 1) <= 0.9
    assert abs(inside[high].mean() - inside[~high].mean()) < 0.05


@pytest.mark.parametrize("by_row", [0.0, 0.5])
def test_the_law_is_one(by_row):
    """F' rises, its quantiles are its inverse, its tails those of F, and its density adds up to 1."""
    z, codes, mean, sd = made(900, 1.3, by_row)
    own = learnt(z, codes, mean, sd)
    scale = own.scale(codes, mean, sd)
    v = np.linspace(-5, 5, 201)
    for each in np.unique(scale):
        w = own.score_before(v, each)
        assert np.all(np.diff(w) > 0)
        np.testing.assert_allclose(own.score(w, each), v, atol=1e-9)
        tails = np.array([0.05, -0.05, 0.3, -0.3])
        of_f = own.tails(tails, each)
        lower = np.where(of_f < 0, 1 + of_f, of_f)
        u = ndtr(own.score(norm.ppf(lower), each))
        np.testing.assert_allclose(u, np.where(tails < 0, 1 + tails, tails), atol=1e-9)
        at = np.linspace(-15, 15, 60_001)
        density = own.slope(at / each) * norm.pdf(own.score(at, each)) / each
        assert np.trapezoid(density, at) == pytest.approx(1, abs=1e-3)


def test_it_is_stored_whole_and_no_other_is_read():
    """A recalibration is read as it was written; what can't be one is refused."""
    z, codes, mean, sd = made(900, 1.3, 0.5)
    own = replace(learnt(z, codes, mean, sd), shift=0.25)
    written = json.loads(json.dumps(own.to_json()))
    again = Recalibration.from_json(written, None, codes.shape)
    assert again.to_json() == own.to_json()
    np.testing.assert_array_equal(again.scale(codes, mean, sd), own.scale(codes, mean, sd))
    broken = [
        {"source": written["source"][::-1]},
        {"source": written["source"][:-1]},
        {"target": [abs(each) for each in written["target"]]},
        {"factor": float("inf")},
        {"low": 3.0, "high": 2.0},
        {"trees": written["trees"] | {"feature": [[9] * 7] * 60}},
        {"trees": written["trees"] | {"value": [[1e300] * 8] * 60}},
        {"trees": written["trees"] | {"limit": [[0.0] * 3] * 60}},
    ]
    for each in broken:
        with pytest.raises(ValueError, match="recalibration"):
            Recalibration.from_json(written | each, None, codes.shape)


def test_few_rows_change_a_right_law_little():
    """By 90 rows its loss is .1% larger at most, over 40 simulations; that of one twice too wide falls."""
    q, at = np.linspace(0.05, 0.95, 19)[:, None], norm.ppf((np.arange(2_000) + 0.5) / 2_000)

    def loss(scale):
        every = []
        for seed in range(40):
            knots = learn_map(scale * np.random.default_rng(seed).normal(size=90))
            own = Recalibration(*knots, -50.0, 50.0, 90, 0, 100)
            away = scale * at - own.backward(norm.ppf(q))
            plain = scale * at - norm.ppf(q)
            every.append([np.mean(each * (q - (each < 0))) for each in (away, plain)])
        after, before = np.mean(every, axis=0)
        return after / before

    assert 1 < loss(1.0) < 1.001
    assert loss(0.5) < 0.93


def test_a_law_far_from_the_outcomes_is_not_recalibrated():
    """No map of scores helps where no outcome is below the median."""
    assert learn_map(np.abs(made()[0]) + 1) is None


def test_trees_are_of_few_splits_with_many_rows_each():
    """Steps are found; rows with infinite features are sent somewhere."""
    rng = np.random.default_rng(0)
    features = rng.uniform(size=(3, 400))
    features[1, :5] = np.inf
    trees = ScaleTrees.fit(features, 1.0 * (features[2] > 0.5))
    assert trees.of(features)[features[2] > 0.6].min() > 0.4
    assert trees.of(features)[features[2] < 0.4].max() < -0.4


def test_left_out_rows_have_the_probabilities_of_fits_without_them():
    """Known exactly for a normal mean; an outlier has a large k."""
    rng = np.random.default_rng(0)
    rows, draws = 40, 2_000
    y = rng.normal(size=rows)
    theta = y.mean() + rng.normal(size=(draws, 1)) / np.sqrt(rows)
    below, k = left_out(norm.logpdf(y, theta), norm.cdf(y, theta))
    others = (y.sum() - y) / (rows - 1)
    exact = norm.cdf((y - others) / np.sqrt(1 + 1 / (rows - 1)))
    assert np.abs(below - exact).max() < 0.004
    assert np.abs(norm.cdf(y, theta).mean(axis=0) - exact).max() > 0.005
    assert k.max() < 0.3
    far = np.array([40.0])
    assert left_out(norm.logpdf(far, theta), norm.cdf(far, theta))[1] > LARGEST_K


def test_training_rows_count_where_held_out_rows_do_not_contradict():
    """Scores of another scale, or many large k, keep them out."""
    rng = np.random.default_rng(0)
    held, same, k = rng.normal(size=300), rng.normal(size=900), np.zeros(900)
    assert agree(held, same, k)
    assert not agree(held, 0.7 * same, k)
    assert not agree(held, same, k + np.where(np.arange(900) < 300, 1.0, 0.0))


def test_a_mean_is_shifted_where_chance_does_not_explain_its_error():
    """2.5 standard errors decide."""
    rest = np.random.default_rng(0).normal(size=400)
    assert mean_shift(rest - rest.mean() + 0.1) == 0
    assert mean_shift(rest - rest.mean() + 0.2) == pytest.approx(0.2)


@pytest.mark.parametrize(
    "name",
    [
        "gaussian+recalibrated+calibrated",
        pytest.param("gaussian+yeo-johnson+forest+recalibrated", marks=pytest.mark.slow),
    ],
)
def test_every_answer_is_of_one_law(name, monkeypatch):
    """Ends, quantiles, distribution, density, scores and totals agree; f and calibrated ends stay."""
    monkeypatch.setattr(aggregates, "SetSums", partial(SetSums, outcomes=200))  # whose means are known
    posterior, kind = kinds.fitted(name), kinds.Kind(name)
    plain = copy(posterior)
    plain.law = posterior.law.before_recalibration
    new, y = kind.new, kind.y
    answer = posterior.predict(new, level=[0.5, 0.9], quantiles=[0.3])
    one = posterior.distribution(new)
    ends = {0.25: answer.intervals[0].lower, 0.95: answer.intervals[1].upper, 0.3: answer.quantiles[0].values}
    for q, values in ends.items():
        np.testing.assert_allclose(one.cdf(values), q, atol=1e-7)
        np.testing.assert_allclose(one.quantile(q), values, atol=1e-6)
        assert np.all(values != plain.predict(new, level=None, quantiles=[q]).quantiles[0].values)
    at = np.linspace(0, 1, 2_001)[1:-1]
    by_quantile = np.array([one.quantile(q) for q in at[::400]])
    np.testing.assert_array_equal(np.diff(by_quantile, axis=0) > 0, True)
    step = 1e-5
    slope = (one.cdf(answer.mean + step) - one.cdf(answer.mean - step)) / (2 * step)
    np.testing.assert_allclose(one.prob(answer.mean), slope, rtol=1e-3)
    points = np.linspace(by_quantile[0] - 3, by_quantile[-1] + 3, 801)
    np.testing.assert_allclose(
        one.crps(answer.mean),
        np.trapezoid((one.cdf(points) - (points >= answer.mean)) ** 2, points, axis=0),
        rtol=0.02,
    )
    shown = posterior.density({each: values[1:2] for each, values in new.items()})
    np.testing.assert_allclose(shown["outcome"][100], one.prob(shown["x"][100])[1])
    scored = posterior.score(kind.rows, y)
    pits = posterior.distribution(kind.rows).cdf(y)
    assert scored["coverage"][2]["coverage"] == np.mean(np.abs(2 * pits - 1) <= 0.9)
    assert posterior.aggregate(new).mean[0] == pytest.approx(answer.mean.sum())
    for kept in ["credible", *(["calibrated"] if "+calibrated" in name else [])]:
        own, before = (each.predict(new, level=0.5, interval=kept) for each in (posterior, plain))
        np.testing.assert_array_equal(own.lower, before.lower)
        np.testing.assert_array_equal(own.mean, before.mean)
    alone = posterior.predict({each: values[3:4] for each, values in new.items()}, level=0.9)
    assert alone.lower[0] == answer.intervals[1].lower[3]
    assert alone.sd[0] == answer.sd[3]
    if "calibrated" not in name.split("+"):
        assert posterior.extend(1, progress=False).law.recalibration is posterior.law.recalibration
    assert posterior.discard(1).law.recalibration is not None


def test_no_mixture_is_recalibrated():
    """Scaled scores would send its narrow part's outcomes to the wide one's places."""
    assert "its noise is a mixture" in str(why_not(kinds.fitted("gaussian+mixture").law, 400))


def test_estimates_count_its_time_where_it_may_be():
    """Not where too few rows are held out, nor for what it is never done for."""
    plain = {"num_trees": 50, "num_chains": 2, "num_draws": 100, "family": "gaussian", "holdout": 0.25}
    off = {"recalibrate": "off"}
    assert finish_seconds(plain, 400, 5) > finish_seconds(plain | off, 400, 5) + 0.2
    assert finish_seconds(plain, 356, 5) == finish_seconds(plain | off, 356, 5)  # 89 rows
    for more in (
        {"groups": ["a"]}, {"treatment": "a"}, {"adoption": "a"}, {"event": "a"}, {"noise": "mixture"},
        {"new_rows": {"groups": "a"}}, {"outcomes": ["y", "z"]}, {"family": "poisson"}, {"family": "hurdle"},
    ):  # fmt: skip
        own = plain | more
        assert finish_seconds(own, 400, 5) == finish_seconds(own | off, 400, 5), more


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gaussian+event", "outcomes are censored"),
        ("gaussian+limits", "outcomes are censored"),
        ("gaussian+treatment", "the model has a treatment"),
        ("gaussian+groups", "the model has groups"),
        ("hurdle", "the law has a point mass"),
        ("poisson", "outcomes are counts"),
        ("categorical", "outcomes are classes"),
        ("ordinal", "outcomes are classes"),
        ("probit", "outcomes are classes"),
        ("gaussian+bcart", "the fit is no sum of trees"),
        ("gaussian+encoded+linear", None),
        ("gaussian+weights", None),
    ],
)
@pytest.mark.sampled(quick=3)
def test_each_kind_is_recalibrated_or_says_why_not(name, why):
    assert why_not(kinds.fitted(name).law, 400) == why


def test_rows_at_hand_mend_a_fit(monkeypatch):
    """A fit of constant noise holds afterwards what it says of new rows whose noise differs.

    A shift of the mean that makes the scores of the rows worse isn't made, whatever the mean's error.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3_000, 3)).round(3)
    y = 4 * X[:, 0] + rng.standard_t(4, len(X)) * np.exp(2 * X[:, 1] - 1)
    settings = {"num_trees": 10, "num_chains": 2, "num_burnin": 30, "num_draws": 30, "noise": "constant"}
    posterior = fit(X[:600], y[:600], progress=False, linear=False, transform="none", **settings)
    held, training = (LabelledRows.read(posterior.law, X[a:b], y[a:b]) for a, b in ((600, 1_000), (0, 600)))
    assert why_not(posterior.law, 400) is None
    assert "89 held-out rows, and it takes 90" in str(why_not(posterior.law, 89))
    by = recalibration_of(posterior.law, held, training, (float(y[:600].min()), float(y[:600].max())))
    assert by is not None
    assert by.trees is not None
    monkeypatch.setattr(recalibrating, "mean_shift", lambda rest: rest.mean() + 1.0)
    ends, counted = (float(y[:600].min()), float(y[:600].max())), []
    moments = NormalLaw.moments

    def counting(law, coded, *draws):
        counted.append(coded.num_rows)
        return moments(law, coded, *draws)

    monkeypatch.setattr(NormalLaw, "moments", counting)
    unshifted = recalibration_of(posterior.law, held, training, ends)
    assert sum(counted) == 1_000  # once for each row: they take the most time
    assert (by.shift, unshifted.shift) == (0, 0)
    after = posterior.recalibrated_by(by)
    scores = [each.score(X[1_000:], y[1_000:]) for each in (posterior, after)]
    assert scores[1]["crps"] < 0.97 * scores[0]["crps"]
    assert scores[1]["log_score"] > scores[0]["log_score"] + 0.1
    assert (
        abs(scores[1]["coverage"][0]["coverage"] - 0.5)
        < 0.04
        < abs(scores[0]["coverage"][0]["coverage"] - 0.5)
    )
