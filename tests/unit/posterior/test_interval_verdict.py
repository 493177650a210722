"""The verdict on intervals detects noise that differs by row, and rarely raises a false alarm."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from sampler import DataWarning, fit
from sampler.data.target import point_mass
from sampler.posterior.assessment.interval_verdict import LEVELS, Groups, _advice, verdict_of
from sampler.posterior.verdict.intervals import chance_range, judged

LEVEL = np.array(LEVELS)[:, None]


def judge(level, features, unit=None, expected=LEVEL):
    """Judge rows whose outcomes are just inside central intervals of `level` [row]; the first is the mean."""
    groups = []
    for name, values in features.items():
        edges = np.unique(np.quantile(values, [0.25, 0.5, 0.75]))
        groups.append(Groups(name or None, np.searchsorted(edges, values), edges.tolist(), "{:.3g}".format))
    inside = level <= LEVEL
    return verdict_of(groups, inside, np.broadcast_to(expected, inside.shape), unit)


def of_rows(rng, rows, count=0):
    """Simulate the prediction and features x1 .. of independent rows."""
    return {name: rng.normal(size=rows) for name in ["", *(f"x{j + 1}" for j in range(count))]}


def test_chance_allows_what_the_binomial_law_does():
    """The range allowed to a share is the central 95% of its binomial law."""
    low, high = chance_range(0.9, 57)
    assert (low * 57, high * 57) == pytest.approx(binom.interval(0.95, 57, 0.9))


def refusals(true, runs=400, rows=560):
    """Count how often a quarter of 140 rows is refused, by share of its outcomes that are inside."""
    rng, found = np.random.default_rng(3), 0
    quarter = np.arange(rows) // (rows // 4)
    for _ in range(runs):
        inside = rng.uniform(size=rows) < np.where(quarter == 3, true, 0.9)
        report = judge(np.where(inside, 0.89, 0.999), {"": quarter + rng.uniform(0, 0.1, rows)})
        found += any("above" in each["where"] for each in report["refused"])
    return found / runs


@pytest.mark.parametrize(
    ("true", "expected"), [(0.70, 1.0), (0.77, 0.91), (0.80, 0.70), (0.82, 0.46), (0.86, 0.08), (0.90, 0.003)]
)
def test_a_quarter_is_refused_where_it_is_off_by_more_than_matters_and_chance(true, expected):
    """Probabilities of refusal of a quarter of 140 rows are those of the binomial law."""
    counts = np.arange(141)
    off = (counts < 0.82 * 140) | (counts > 0.97 * 140)
    assert binom.pmf(counts[off], 140, true).sum() == pytest.approx(expected, abs=0.006)
    assert refusals(true) == pytest.approx(expected, abs=3 * np.sqrt(expected * (1 - expected) / 400) + 0.005)


@pytest.mark.parametrize("count", [3, 40])
def test_a_planted_quarter_is_found_among_features_and_the_others_hold(count):
    """A quarter of coverage .7 is refused in 90% of 50 sets, the model in none; a right law in at most 2%."""
    rng = np.random.default_rng(4)
    planted, refused = 0, 0
    for _ in range(50):
        features = of_rows(rng, 560, count)
        top = features["x1"] > np.quantile(features["x1"], 0.75)
        inside = rng.uniform(size=560) < np.where(top, 0.7, 0.9)
        report = judge(np.where(inside, 0.89, 0.999), features)
        planted += any(each["feature"] == "x1" for each in report["refused"]) and report["verdict"] == "held"
        refused += bool(judge(rng.uniform(size=560), features)["reasons"])
    assert planted >= 45
    assert refused <= 1


def test_the_sentence_says_which_side_and_where():
    """A quarter is named with its side and rows, and other levels are never a no."""
    rng = np.random.default_rng(5)
    x = rng.uniform(size=560)
    inside = np.where(x > np.quantile(x, 0.75), rng.uniform(size=560) < 0.72, np.arange(560) % 10 > 0)
    report = judge(np.where(inside, 0.3, 0.999), {"": rng.uniform(size=560), "sqft": x})
    assert report["text"].startswith("90% intervals are too narrow where sqft is above 0.7")
    assert " rows inside); the others hold. Of 560 held-out rows " in report["text"]
    assert report["others"].endswith("wider than they say.")
    wide = judge(rng.uniform(size=560) ** 6, of_rows(rng, 560))
    assert wide["verdict"] == "not_held"
    assert wide["text"].startswith("90% intervals: not usable, too wide. Of 560 held-out rows ")
    assert wide["reasons"][0] == {"code": "too_wide", "feature": None}
    right = judge(np.arange(560)[rng.permutation(560)] / 560, of_rows(rng, 560))
    assert right["text"].startswith(
        "90% intervals: usable. Of 560 held-out rows 90% are inside (chance: 88 to 9"
    )
    assert right["others"] is None


def test_values_with_a_probability_are_judged_by_what_the_law_expects():
    """Intervals of counts that hold .96 are right where the law says so, and too wide where it says .9."""
    rng = np.random.default_rng(6)
    level = np.where(rng.uniform(size=800) < 0.96, 0.3, 0.999)
    expected = np.full((4, 800), 0.96)
    report = judge(level, of_rows(rng, 800), expected=expected)
    assert (report["verdict"], report["others"]) == ("held", None)
    assert "(expected: 96%, chance: 9" in report["text"]
    assert judge(level, of_rows(rng, 800))["verdict"] == "not_held"


@pytest.mark.parametrize("family", ["poisson", "negative-binomial", "hurdle"])
def test_laws_with_masses_know_what_their_intervals_hold(family):
    """The expected share is that of outcomes drawn from the law, which are inside intervals."""
    rng = np.random.default_rng(8)
    X = rng.uniform(size=(120, 2))
    y = rng.poisson(1, 120) * (1.0 if family != "hurdle" else rng.uniform(0.5, 2, 120))
    posterior = fit(X, y, family=family, seed=1, **FAST | {"num_burnin": 30, "num_draws": 40})
    drawn = posterior.sample_predictive(X).reshape(-1, 120)
    law = posterior.law.outcome_law(posterior.encode(X))
    for level in (0.5, 0.9):
        low, high = law.interval(level)
        held = law.held(level)
        assert np.all(held >= level - 1e-9)
        assert np.mean((low <= drawn) & (drawn <= high)) == pytest.approx(held.mean(), abs=0.03)
    entry = posterior.score(X, y, quick=True)["coverage"][2]
    assert entry["expected"] == pytest.approx(law.held(0.9).mean(), abs=1e-6)


def test_stored_verdicts_of_earlier_versions_are_judged_anew():
    """Shares decide, dates are named by their quarter, and advice names no choice that may be made."""
    quarters = [
        {"low": None, "high": None, "level": 0.9, "rows": 140, "observed": each, "lower": 0.85, "upper": 0.95}
        for each in (0.91, 0.92, 0.9, 0.75)
    ]
    overall = [{"level": 0.9, "rows": 560, "observed": 0.87, "lower": 0.875, "upper": 0.925}]
    old = {"verdict": "not_held", "text": "old", "advice": "Fit again with noise=forest.", "reasons": []}
    report = judged(old | {"rows": 560, "overall": overall, "by": [{"feature": "d", "quarters": quarters}]})
    assert report["verdict"] == "held"
    assert (
        "too narrow in the highest quarter of d (75% of 140 rows inside); the others hold" in report["text"]
    )
    assert "forest" not in report["advice"]
    assert judged(report) == report
    assert judged(old) == old


def alike_levels(rng, unit, correlation=0.6):
    """Draw uniform levels of central intervals that are alike within a group; return them as `below`."""
    z = np.sqrt(correlation) * rng.normal(size=unit.max() + 1)[unit]
    z += np.sqrt(1 - correlation) * rng.normal(size=len(unit))
    return 0.5 + norm.cdf(z) / 2 * rng.choice([-1, 1], len(unit))


def test_groups_count_once():
    """Right intervals of alike rows are doubted by rows often, and by groups hardly ever."""
    rng = np.random.default_rng(5)
    unit = np.repeat(np.arange(60), 10)
    doubted = np.zeros(2)
    for _ in range(60):
        level = np.abs(2 * alike_levels(rng, unit) - 1)
        features = {"": rng.normal(size=60)[unit]}
        for place, groups in enumerate((None, unit)):
            doubted[place] += bool(judge(level, features, groups)["reasons"])
    assert doubted[0] >= 9
    assert doubted[1] <= 1


def test_groups_of_one_row_are_rows():
    """Shares, ranges and faults are those of rows; fewer than 30 groups are unknown."""
    rng = np.random.default_rng(6)
    level, features = rng.uniform(size=200) ** 0.5, of_rows(rng, 200)
    plain, by_unit = judge(level, features), judge(level, features, np.arange(200))
    assert by_unit["overall"] == plain["overall"]
    assert by_unit["reasons"] == plain["reasons"]
    assert plain["reasons"][0] == {"code": "too_narrow", "feature": None}
    assert by_unit["units"] == 200
    few = judge(level, features, np.arange(200) % 29)
    assert few["verdict"] == "unknown"
    assert "29 held-out groups (200 rows)" in few["text"]


def test_wider_noise_of_groups_is_detected():
    """Most tables of 60 groups with 1.5 times the noise that is claimed are doubted."""
    rng = np.random.default_rng(7)
    unit = np.repeat(np.arange(60), 10)
    found = 0
    for _ in range(20):
        z = np.sqrt(0.2) * rng.normal(size=60)[unit] + np.sqrt(0.8) * rng.normal(size=600)
        found += judge(np.abs(2 * norm.cdf(1.5 * z) - 1), of_rows(rng, 600), unit)["verdict"] == "not_held"
    assert found >= 12


def test_few_rows_are_no_evidence():
    """With fewer than 40 rows the verdict says only that they are too few."""
    verdict = judge(np.full(39, 0.999), of_rows(np.random.default_rng(0), 39))
    assert (verdict["verdict"], verdict["reasons"], verdict["by"]) == ("unknown", [], [])


def noisy(rows, sd, seed):
    """Return five features and a line plus noise with the given standard deviation at each row."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 5))
    return X, 10 * X[:, 0] + sd(X) * rng.normal(size=rows)


FAST = {"num_trees": 50, "num_chains": 2, "num_burnin": 200, "num_draws": 100, "thin": 1, "progress": False}


def test_noise_that_grows_with_a_feature_is_named():
    """Intervals too wide at small x2 and too narrow at large x2 are attributed to x2 alone."""
    X, y = noisy(1500, lambda X: 0.3 + 4 * X[:, 1], 4)
    for given, advised in (({"noise": "constant"}, "noise=forest"), ({"transform": "yeo-johnson"}, "none")):
        posterior = fit(X[:700], y[:700], **FAST | {"noise": "constant", "transform": "none"} | given)
        verdict = posterior.score(X[700:], y[700:], quick=True)["intervals_verdict"]
        assert {"code": "uneven", "feature": "x2"} in verdict["reasons"]
        assert not {"x3", "x4", "x5"} & {reason["feature"] for reason in verdict["reasons"]}
        assert {("too_narrow", "x2"), ("too_wide", "x2")} <= {
            (each["code"], each["feature"]) for each in verdict["refused"]
        }
        assert "too narrow where x2 is above" in verdict["text"]
        assert "too wide where x2 is at most" in verdict["text"]
        assert advised in verdict["advice"]


def test_advice_names_no_choice_that_the_data_made():
    """Advice is not noise=forest where the noise was chosen by the data, or is forest."""
    X, y = noisy(300, lambda X: 0.3 + 4 * X[:, 1], 4)
    short = FAST | {"num_burnin": 20, "num_draws": 10}
    for noise in ("auto", "forest"):
        posterior = fit(X, y, noise=noise, **short)
        uneven = [{"code": "uneven", "feature": "x2"}]
        assert "noise=forest" not in _advice(uneven, posterior.law, None)


def test_a_point_mass_is_named():
    """Two models are the advice for failing intervals of outcomes of which many have the lowest value."""
    rng = np.random.default_rng(6)
    X = rng.uniform(size=(500, 1))
    y = np.where(rng.uniform(size=500) < 0.4, 0.0, np.exp(X[:, 0] + rng.normal(0, 0.3, 500)))
    with pytest.warns(DataWarning, match="hurdle"):
        posterior = fit(X[:200], y[:200], **FAST)
    verdict = posterior.score(X[200:], y[200:], quick=True)["intervals_verdict"]
    assert verdict["others"]
    assert " of the outcomes are 0, and predictions have no such point mass. " in verdict["advice"]


def test_point_masses_are_at_ends_and_alone():
    """Many outcomes at the lowest or highest value are found, where no other value is nearly as frequent."""
    y = np.random.default_rng(7).normal(size=200)
    assert point_mass(np.maximum(y, -0.2)) == (-0.2, np.mean(y <= -0.2))
    assert point_mass(np.minimum(y, 0.8)) == (0.8, np.mean(y >= 0.8))
    for none in (y, np.round(y), np.zeros(200), np.where(y < 0, 0.0, 1.0), np.maximum(y, np.sort(y)[12])):
        assert point_mass(none) is None


@pytest.mark.slow
@pytest.mark.parametrize("tables", [30, pytest.param(100, marks=pytest.mark.long)])
def test_constant_noise_is_not_doubted(tables):
    """At most one in twenty simulated tables with constant noise raises an alarm."""
    doubted = 0
    for seed in range(tables):
        X, y = noisy(800, lambda X: np.ones(len(X)), 100 + seed)
        posterior = fit(X[:500], y[:500], seed=seed, **FAST)
        verdict = posterior.score(X[500:], y[500:], quick=True)["intervals_verdict"]
        doubted += verdict["verdict"] != "held"
    assert doubted <= tables / 20
