"""The verdict on intervals detects noise that differs by row, and rarely raises a false alarm."""

import numpy as np
import pytest
from scipy.stats import binom, kruskal, norm

from sampler import fit
from sampler.data.target import point_mass
from sampler.posterior.assessment.interval_verdict import chance_range, interval_verdict
from sampler.posterior.assessment.labelled_rows import LabelledRows
from tests.support.models.random_posteriors import make_posterior

POSTERIOR, _, _ = make_posterior()


def judged(below, mean=None, seed=0, unit=None):
    """Judge rows of x1, x2, x3 and c, where `below` is the predictive probability below each outcome."""
    rng = np.random.default_rng(seed)
    rows = len(below)
    X = {name: rng.normal(size=rows).tolist() for name in ("x1", "x2", "x3")} | {"c": ["a"] * rows}
    coded = POSTERIOR.encode(X)
    mean = rng.normal(size=rows) if mean is None else mean
    return interval_verdict(POSTERIOR.law, LabelledRows(coded, np.zeros(rows), unit=unit), below, mean), coded


def test_quarters_are_compared_as_kruskal_and_wallis_do():
    """The p-value by the prediction is scipy's Kruskal-Wallis one times the number of comparisons."""
    rng = np.random.default_rng(1)
    below, mean = rng.uniform(size=400) ** 1.1, rng.normal(size=400)
    verdict, _ = judged(below, mean)
    by = next(entry for entry in verdict["by"] if entry["feature"] is None)
    quarter = np.searchsorted(np.quantile(mean, [0.25, 0.5, 0.75]), mean)
    expected = kruskal(*(np.abs(2 * below - 1)[quarter == k] for k in range(4))).pvalue
    assert by["p"] == pytest.approx(min(1.0, expected * len(verdict["by"])))
    inside = [np.mean(np.abs(2 * below - 1)[quarter == k] <= 0.9) for k in range(4)]
    assert [part["observed"] for part in by["quarters"]] == pytest.approx(inside)


def test_chance_allows_what_the_binomial_law_does():
    """The range allowed to a share is the central 95% of its binomial law."""
    low, high = chance_range(0.9, 57)
    assert (low * 57, high * 57) == pytest.approx(binom.interval(0.95, 57, 0.9))


def test_right_intervals_are_rarely_doubted():
    """At most 1 in 50 of 300 sets of uniform levels is called uneven, too wide or too narrow."""
    rng = np.random.default_rng(2)
    doubted = sum(judged(rng.uniform(size=300), seed=k)[0]["verdict"] != "held" for k in range(300))
    assert doubted <= 6


def alike_levels(rng, unit, correlation=0.6):
    """Draw uniform levels of central intervals that are alike within a group; return them as `below`."""
    z = np.sqrt(correlation) * rng.normal(size=unit.max() + 1)[unit]
    z += np.sqrt(1 - correlation) * rng.normal(size=len(unit))
    return 0.5 + norm.cdf(z) / 2 * rng.choice([-1, 1], len(unit))


def test_groups_count_once():
    """Right intervals of alike rows are doubted by rows often, and by groups hardly ever."""
    rng = np.random.default_rng(5)
    unit = np.repeat(np.arange(60), 10)
    by_group = rng.normal(size=(60, 60))
    doubted = np.zeros(2)
    for k in range(60):
        below, mean = alike_levels(rng, unit), by_group[k][unit]
        for place, groups in enumerate((None, unit)):
            doubted[place] += judged(below, mean, seed=k, unit=groups)[0]["verdict"] != "held"
    assert doubted[0] >= 9
    assert doubted[1] <= 1


def test_groups_of_one_row_are_rows():
    """Shares, ranges and faults are those of rows; fewer than 30 groups are unknown."""
    rng = np.random.default_rng(6)
    below = 0.5 + rng.uniform(size=200) ** 0.5 / 2 * rng.choice([-1, 1], 200)
    plain, by_unit = judged(below)[0], judged(below, unit=np.arange(200))[0]
    assert by_unit["overall"] == plain["overall"]
    assert by_unit["reasons"] == plain["reasons"] == [{"code": "too_narrow", "feature": None}]
    assert by_unit["units"] == 200
    few = judged(below, unit=np.arange(200) % 29)[0]
    assert few["verdict"] == "unknown"
    assert "29 held-out groups (200 rows)" in few["text"]


def test_wider_noise_of_groups_is_detected():
    """Most tables of 60 groups with 1.5 times the noise that is claimed are doubted."""
    rng = np.random.default_rng(7)
    unit = np.repeat(np.arange(60), 10)
    found = 0
    for k in range(20):
        z = np.sqrt(0.2) * rng.normal(size=60)[unit] + np.sqrt(0.8) * rng.normal(size=600)
        found += judged(norm.cdf(1.5 * z), seed=k, unit=unit)[0]["verdict"] == "not_held"
    assert found >= 12


@pytest.mark.parametrize(("power", "code"), [(0.5, "too_narrow"), (2.0, "too_wide")])
def test_intervals_of_a_wrong_width_are_reported(power, code):
    """Levels crowded at one end give the direction in which the width is wrong, without unevenness."""
    rng = np.random.default_rng(3)
    level = rng.uniform(size=500) ** power
    verdict, _ = judged(0.5 + level / 2 * rng.choice([-1, 1], 500))
    assert [reason["code"] for reason in verdict["reasons"]] == [code]
    assert code.replace("_", " ") in verdict["text"]
    assert verdict["advice"]


def test_few_rows_are_no_evidence():
    """With fewer than 40 rows the verdict says only that they are too few."""
    verdict, _ = judged(np.full(39, 0.999))
    assert (verdict["verdict"], verdict["reasons"], verdict["advice"]) == ("unknown", [], None)


def noisy(rows, sd, seed):
    """Return five features and a line plus noise with the given standard deviation at each row."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 5))
    return X, 10 * X[:, 0] + sd(X) * rng.normal(size=rows)


FAST = {"num_trees": 50, "num_chains": 2, "num_burnin": 200, "num_draws": 100, "thin": 1, "progress": False}


def test_noise_that_grows_with_a_feature_is_named():
    """Intervals too wide at small x2 and too narrow at large x2 are attributed to x2 alone."""
    X, y = noisy(1500, lambda X: 0.3 + 4 * X[:, 1], 4)
    verdict = fit(X[:700], y[:700], noise="constant", **FAST).score(X[700:], y[700:], quick=True)[
        "intervals_verdict"
    ]
    assert verdict["verdict"] == "not_held"
    assert {"code": "uneven", "feature": "x2"} in verdict["reasons"]
    assert not {"x3", "x4", "x5"} & {reason["feature"] for reason in verdict["reasons"]}
    assert "too wide where x2 is at most" in verdict["text"]
    assert "too narrow where x2 is above" in verdict["text"]
    quarters = next(entry for entry in verdict["by"] if entry["feature"] == "x2")["quarters"]
    assert quarters[0]["observed"] > 0.95 > 0.85 > quarters[-1]["observed"]


def test_a_point_mass_is_named():
    """Two models are the advice for failing intervals of outcomes of which many have the lowest value."""
    rng = np.random.default_rng(6)
    X = rng.uniform(size=(500, 1))
    y = np.where(rng.uniform(size=500) < 0.4, 0.0, np.exp(X[:, 0] + rng.normal(0, 0.3, 500)))
    scores = fit(X[:200], y[:200], **FAST).score(X[200:], y[200:], quick=True)
    verdict = scores["intervals_verdict"]
    assert verdict["verdict"] == "not_held"
    assert " of the outcomes are 0, and predictions have no such point mass. " in verdict["advice"]


def test_point_masses_are_at_ends_and_alone():
    """Many outcomes at the lowest or highest value are found, where no other value is nearly as frequent."""
    y = np.random.default_rng(7).normal(size=200)
    assert point_mass(np.maximum(y, -0.2)) == (-0.2, np.mean(y <= -0.2))
    assert point_mass(np.minimum(y, 0.8)) == (0.8, np.mean(y >= 0.8))
    for none in (y, np.round(y), np.zeros(200), np.where(y < 0, 0.0, 1.0), np.maximum(y, np.sort(y)[12])):
        assert point_mass(none) is None


@pytest.mark.slow
def test_constant_noise_is_not_doubted():
    """At most 5 of 100 simulated tables with constant noise raise an alarm."""
    doubted = 0
    for seed in range(100):
        X, y = noisy(800, lambda X: np.ones(len(X)), 100 + seed)
        posterior = fit(X[:500], y[:500], seed=seed, **FAST)
        verdict = posterior.score(X[500:], y[500:], quick=True)["intervals_verdict"]
        doubted += verdict["verdict"] != "held"
    assert doubted <= 5
