"""Monotone features: no violation in any draw, resuming, files, extension, and refusals."""

import numpy as np
import pytest

from sampler import fit
from sampler.preparation import prepare
from tests.support.chain_driver import check_resuming

SHORT = {"num_trees": 12, "num_chains": 2, "num_burnin": 40, "num_draws": 20, "thin": 1, "progress": False}
UP_AND_DOWN = {"a": "increasing", "b": "decreasing"}


def rows(count=120, seed=0):
    """Rows whose outcome rises with a, falls with b and waves with c; some lack a or c."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(size=(3, count))
    y = 2 * a - b**2 + np.sin(6 * c) + rng.normal(0, 0.5, count)
    a[rng.uniform(size=count) < 0.1] = np.nan
    c[rng.uniform(size=count) < 0.1] = np.nan
    return {"a": a, "b": b, "c": c}, y


def never_falls(posterior, seed=1):
    """Whether no draw is lower where a is larger or b smaller, at many pairs of rows."""
    rng = np.random.default_rng(seed)
    low = dict(zip("abc", rng.uniform(size=(3, 200)), strict=True))
    low["c"][::7] = np.nan
    high = low | {"a": low["a"] + rng.uniform(size=200) * (rng.uniform(size=200) < 0.7)}
    high["b"] = low["b"] - rng.uniform(size=200) * (rng.uniform(size=200) < 0.7)
    difference = posterior.sample(high) - posterior.sample(low)
    return difference.min() >= -1e-12 and difference.max() > 0


@pytest.mark.parametrize("noise", ["constant", "forest"])
def test_no_draw_falls(noise):
    """At pairs of rows that differ in monotone features alone, no draw is out of order."""
    X, y = rows()
    posterior = fit(X, y, monotone=UP_AND_DOWN, noise=noise, transform="none", **SHORT)
    assert never_falls(posterior)
    assert posterior.settings["monotone"] == UP_AND_DOWN
    assert not never_falls(fit(X, y, noise=noise, transform="none", linear=False, **SHORT))


def all_pairs(count=150, seed=2):
    """Return rows, and every pair of them of which the second must have no lower f."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-0.2, 1.2, size=(2, count))
    c = rng.choice([0.1, 0.5, 0.9, np.nan], count)
    same = (c[:, None] == c) | (np.isnan(c)[:, None] & np.isnan(c))
    return {"a": a, "b": b, "c": c}, np.nonzero(same & (a[:, None] <= a) & (b[:, None] >= b))


BESIDE = {
    "heavy tails": {"noise": "t"},
    "mixture": {"noise": "mixture"},
    "weights": {"weights": np.linspace(0.5, 2.0, 120)},
    "censored": {"event": np.arange(120) % 3 > 0},
    "groups": {"groups": ["g"]},
    "logarithm": {"transform": "log"},
    "power": {"transform": "yeo-johnson"},
    "noise by row": {"noise": "forest"},
    "noise by row, heavy tails": {"noise": "t-forest"},
    "noise by row, logarithm": {"noise": "forest", "transform": "log"},
    "noise by row, power": {"noise": "forest", "transform": "yeo-johnson"},
    "columns equally likely": {"prior": {"sparse": False}},
    "two classes": {"family": "probit"},
}


@pytest.mark.parametrize("case", BESIDE)
def test_no_draw_is_out_of_order_at_any_pair(case):
    """Every draw keeps every pair of rows in order, whatever stands beside the trees."""
    X, y = rows()
    new, (low, high) = all_pairs()
    X["g"] = new["g"] = np.array(["u", "v", "w"])[np.arange(len(y)) % 3]
    if case == "groups":
        new = new | {"g": np.full(len(new["a"]), "u")}
    else:
        del X["g"], new["g"]
    if "logarithm" in case or case == "censored":
        y = np.exp(y)
    if "noise by row" in case:  # more noise where the mean is lower, so that ends and means could fall
        noise = np.random.default_rng(5).normal(size=len(y)) * np.where(np.nan_to_num(X["a"]) < 0.4, 1.5, 0.1)
        y = y * np.exp(noise) if "logarithm" in case else y + noise
    if case == "two classes":
        y = y > 0.5
    given = {"noise": "constant", "transform": "none"} if case != "two classes" else {}
    posterior = fit(X, y, monotone=UP_AND_DOWN, **SHORT | given | BESIDE[case])
    f = posterior.sample(new)
    assert np.min(f[..., high] - f[..., low]) >= -1e-12
    assert len(low) > 1000
    usual = posterior.predict(new, level=[0.5, 0.9], quantiles=[0.02, 0.5, 0.98])
    credible = posterior.predict(new, level=0.9, interval="credible")
    figures = [usual.mean, *usual.lower, *usual.upper, *(each.values for each in usual.quantiles)]
    for figure in (*figures, credible.lower, credible.upper):
        assert np.min(figure[high] - figure[low]) >= -1e-9 * np.ptp(figure)
    contrast = posterior.contrast(new, {"a": 0.8, "b": 0.1}, {"a": 0.2, "b": 0.4})
    assert contrast.lower.min() >= -1e-12


@pytest.mark.filterwarnings("ignore::sampler.errors.DataWarning")  # days resemble each other
def test_dates_and_booleans_have_an_order():
    """The outcome rises with later dates, and from false to true."""
    rng = np.random.default_rng(1)
    day = np.datetime64("2024-01-01") + rng.integers(0, 300, 100).astype("timedelta64[D]")
    sold = rng.uniform(size=100) < 0.5
    y = (day - day.min()).astype(float) / 300 + sold + rng.normal(0, 0.3, 100)
    settings = SHORT | {"monotone": dict.fromkeys(("day", "sold"), "increasing")}
    posterior = fit({"day": day, "sold": sold}, y, **settings)
    ends = {"day": np.sort(day)[[0, 0, -1, -1]], "sold": np.array([False, True, False, True])}
    f = posterior.sample(ends)
    assert np.min(f[..., [1, 2, 3, 3]] - f[..., [0, 0, 1, 2]]) >= -1e-12


def test_ordered_classes_rise():
    """Probabilities of low classes fall where f rises."""
    X, y = rows()
    posterior = fit(X, np.digitize(y, [0, 1]), family="ordinal", monotone={"a": "increasing"}, **SHORT)
    low = {"a": np.full(30, 0.3), "b": np.linspace(0, 1, 30), "c": np.linspace(1, 0, 30)}
    high = low | {"a": np.full(30, 0.8)}
    assert np.all(posterior.sample(high)[..., 0] <= posterior.sample(low)[..., 0] + 1e-12)


def test_a_chain_resumes_bit_for_bit():
    """Leaves are state where trees split on monotone features: a checkpoint holds them."""
    X, y = rows(80)
    settings = {"num_trees": 7, "num_chains": 1, "num_burnin": 12, "num_draws": 8, "thin": 1}
    check_resuming(prepare(X, y, monotone=UP_AND_DOWN, noise="constant", **settings).training)
