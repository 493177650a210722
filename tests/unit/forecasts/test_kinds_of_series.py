"""Gaps, counts, categories known ahead, short and new series are forecast as they should be."""

import numpy as np
import pytest

from sampler import DataError, DataWarning, SettingsError, fit
from sampler.forecasts.untrusted import read_untrusted
from tests.support.forecasts import SHORT, rows_of, shops


def test_gaps_are_missing_or_zero():
    """Steps without a row aren't learnt, or are 0; a series is forecast after its own end."""
    table, y = shops(2, 40)
    kept = ~np.isin(np.arange(80), [12, 13, 30, 40, 41, 55, 78, 79])
    rows, own = rows_of(table, kept), y[kept]
    arguments = {
        "time": "month",
        "series": "shop",
        "horizon": 3,
        "features": ["region"],
        "difference": "last",
    }
    missing = fit(rows, own, **arguments, **SHORT)
    assert np.argwhere(np.isnan(missing.history.y[0])).ravel().tolist() == [12, 13, 30]
    answer = missing.forecast()
    assert np.isfinite(answer.paths).all()
    assert answer.flags == [[], ["ends_early"]]
    assert [times[0] for times in answer.time] == ["2022-05", "2022-03"]
    total = answer.total(1, interval="predictive")  # of May: the third step of the series that ends early
    assert total.median == np.median(answer.paths[:, 0, 0] + answer.paths[:, 1, 2])
    with pytest.raises(
        SettingsError, match=r"shop s1 ends 2 steps before others.*steps up to 1, or forecast without"
    ):
        answer.total(2)
    assert answer.total().steps == (1, 1)
    zero = fit(rows, own, **arguments, gaps="zero", **SHORT)
    assert zero.history.y[0, [12, 13, 30]].tolist() == [0, 0, 0]
    assert zero.history.y[1, 15] == 0
    assert np.isnan(zero.history.y[1, [0, 1, -2, -1]]).all()  # a series is from its first row to its last
    assert missing.history.in_words == "steps of a month, 2 series, 4 gaps, 1 series ends early"


def test_a_place_of_the_season_may_be_closed():
    """A day of the week that no row has is forecast from the newest value; nothing is NaN."""
    rng = np.random.default_rng(2)
    days = np.arange(7 * 26)
    days = days[days % 7 != 6]
    y = 100 + 5 * (days % 7) + rng.normal(size=len(days))
    sales = fit({"day": np.datetime64("2024-01-01") + days}, y, time="day", horizon=8, **SHORT)
    assert "season, identity" in sales.members
    answer = sales.forecast()
    assert np.isfinite(answer.paths).all()
    assert np.all((answer.median > 90) & (answer.median < 140))
    assert np.isfinite(answer.total().upper).all()


def test_series_may_end_apart():
    """Series that end further apart than a horizon have a total each, and their file is read."""
    table, y = shops(2, 40)
    kept = np.arange(80) < 77
    arguments = {"time": "month", "series": "shop", "horizon": 2, "difference": "last"}
    rows = {name: values for name, values in rows_of(table, kept).items() if name != "promo"}
    rows["size"] = [1.0 if shop == "s0" else np.nan for shop in rows["shop"]]
    sales = fit(rows, y[kept], **arguments, **SHORT)
    answer = sales.forecast()
    assert repr(sales).startswith("<Forecaster of y: 2 series,")
    with pytest.raises(SettingsError, match=r"s1 ends 3 steps before others.*horizon: forecast without it"):
        answer.total()
    assert answer.total(by="size").sets == {"size": [1.0, None]}  # a number that a series hasn't
    assert read_untrusted(sales.to_bytes())[0].to_bytes() == sales.to_bytes()


def test_no_series_may_go_on():
    """Rehearsals need a series that goes on; without one the claim says that none was made."""
    rng = np.random.default_rng(5)
    t = np.concatenate([*[np.arange(40)] * 4, np.arange(58, 70)])
    shop = np.repeat([*"abcde"], [40, 40, 40, 40, 12])
    sales = fit({"t": t, "s": shop}, rng.normal(size=172), time="t", series="s", horizon=3,
                difference="none", **SHORT)  # fmt: skip
    assert sales.claim().startswith("No rehearsal was made")


def test_a_known_month_is_learnt():
    """A column named as one that forecasters make is kept, however short the history."""
    rng = np.random.default_rng(5)
    week = np.datetime64("2024-01-01") + 7 * np.arange(60)
    month = week.astype("datetime64[M]").astype(int) % 12
    sales = fit({"week": week, "month": month}, month + rng.normal(size=60), time="week", horizon=4,
                known="month", season=1, difference="last", **SHORT)  # fmt: skip
    assert "month" in [each.name for each in sales.fitted[0].posterior.schema.columns]


def test_counts_have_their_own_family():
    """Whole numbers with many zeros are forecast as such: their ends are whole numbers from 0 up."""
    rng = np.random.default_rng(4)
    y = rng.poisson(2, 90) * (rng.uniform(size=90) < 0.5)
    sales = fit({"day": np.datetime64("2024-01-01") + np.arange(90)}, y, time="day", horizon=4, **SHORT)
    assert sales.members == ["counts"]
    settings = sales.fitted[0].posterior.settings
    assert settings["family"] == "zero-inflated-negative-binomial"
    forecast = sales.forecast()
    assert len(forecast.paths) == 1_000
    for each in (forecast.paths, forecast.lower, forecast.upper, forecast.median, forecast.total().upper):
        assert np.all((each >= 0) & (each == np.floor(each)))
    assert 0.5 < forecast.paths.mean() / y.mean() < 2


@pytest.mark.slow
def test_new_and_short_series_are_forecast_by_what_others_taught():
    """A series that the fit had not is flagged; one too short for seasons has other members."""
    table, y = shops(11, 36)
    shop = np.array(table["shop"])
    first = np.tile(np.arange(36), 11)
    kept = (shop != "s10") & ((shop != "s9") | (first >= 24))
    arguments = {"time": "month", "series": "shop", "horizon": 3, "known": ["promo"], "target_name": "sales"}
    sales = fit(rows_of(table, kept), y[kept], **arguments, **SHORT)
    assert len(sales.history.keys) == 10
    newer = rows_of(table, (shop == "s10") & (first >= 24))
    sales.observe(newer | {"sales": y[-12:]})
    plan = sales.plan_template()
    answer = sales.forecast(plan | {"promo": [False] * len(plan["month"])})
    new = answer.series["shop"].index("s10")
    assert answer.flags[new] == ["new"]
    level = np.median(y[-12:])
    assert np.all((answer.median[new] > level / 3) & (answer.median[new] < level * 3))
    assert np.isfinite(answer.paths).all()


def test_categories_may_be_known_ahead():
    """A category of the plan is told apart, and a level that the fit had not is refused by name."""
    rng = np.random.default_rng(6)
    kind = rng.choice(["none", "flyer", "sale"], 80)
    y = 10 + 5.0 * (kind == "sale") + rng.normal(size=80)
    sales = fit({"t": np.arange(80), "kind": kind}, y, time="t", horizon=2, known=["kind"], season=1, **SHORT)
    plan = sales.plan_template()
    of_sale, of_none = (sales.forecast(plan | {"kind": [each] * 2}).median for each in ("sale", "none"))
    assert np.all(of_sale > of_none + 2)
    with pytest.raises(
        ValueError, match="'kind', row 2: the plan has 'tv', which the history hasn't; it has"
    ):
        sales.forecast(plan | {"kind": ["sale", "tv"]})
    sales.observe({"t": [80], "kind": [None], "y": [1.0]})
    assert sales.history.levels == {"kind": ("flyer", "sale", "none")}


def test_columns_are_read_as_the_fit_read_them():
    """Numbers and text that mean the same are the same levels, and series of another kind are no crash."""
    rng = np.random.default_rng(6)
    code = rng.choice(["1", "2"], 80)
    y = 10 + 5.0 * (code == "2") + rng.normal(size=80)
    table = {"t": np.arange(80), "shop": np.full(80, 7), "code": code}
    sales = fit(table, y, time="t", series="shop", horizon=2, known=["code"], difference="last", **SHORT)
    plan = sales.plan_template()
    assert plan["shop"] == [7, 7]
    paths = sales.forecast(plan | {"code": [1, 2]}).paths
    assert np.array_equal(paths, sales.forecast(plan | {"code": ["1", "2"], "shop": ["7", "7"]}).paths)
    assert sales.forecast(plan | {"code": [1, 2]}, series=[7]).series == {"shop": [7]}
    sales.observe({"t": [79], "shop": ["kiosk"], "code": ["1"], "y": [None]})
    with pytest.raises(DataError, match="shop kiosk has no outcome: observe some, or leave it out"):
        sales.forecast(plan | {"code": [1, 2]}, series=["kiosk"])
    sales.observe({"t": [79], "shop": ["kiosk"], "code": ["1"], "y": [1.0]})
    assert sales.history.keys == (("7",), ("kiosk",))
    numbers = fit({"t": np.arange(80), "x": rng.normal(size=80)}, y, time="t", horizon=2, known="x", **SHORT)
    with pytest.raises(DataError, match="column 'x', row 1: the text 'warm' where a number belongs"):
        numbers.forecast({"t": [80, 81], "x": ["warm", "1.5"]})


@pytest.mark.slow
def test_a_series_with_zeros_has_members_without_the_logarithm():
    """A series with values below 0 has as many paths as another, of members that suit it."""
    rng = np.random.default_rng(8)
    y = np.concatenate([np.exp(rng.normal(size=50)), rng.normal(size=50)])
    table = {"t": np.tile(np.arange(50), 2), "s": np.repeat(["up", "both"], 50)}
    forecast = fit(table, y, time="t", series="s", horizon=3, season=1, **SHORT).forecast()
    assert forecast.series == {"s": ["both", "up"]}
    assert np.isfinite(forecast.paths).all()
    assert np.mean(forecast.paths[:, 0] < 0) > 0.2


@pytest.mark.slow
def test_a_member_that_no_chain_can_draw_is_left_out():
    """Beyond all bounds of growth a member is left out with a warning, and the others forecast."""
    y = np.exp(np.exp(np.arange(80) / 20))
    with pytest.warns(DataWarning, match="the member last, identity is left out: the chain left the grid"):
        sales = fit({"t": np.arange(80)}, y, time="t", horizon=4, progress=False)
    assert "last, log" in sales.members
    assert np.all(sales.forecast().upper[0] > y[-1])


@pytest.mark.parametrize("season", [1, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "y",
    [5 + np.arange(60.0), 100 * 1.02 ** np.arange(60), np.full(60, 3.0)],
    ids=["a line", "growth", "a constant"],
)
def test_series_without_noise_go_on_as_they_did(y, season):
    """A line, equal growth and a constant are forecast in narrow intervals, near what must come."""
    sales = fit({"t": np.arange(56)}, y[:56], time="t", horizon=4, season=season, **SHORT)
    forecast = sales.forecast()
    assert np.all(np.abs(forecast.median[0] / y[56:] - 1) < 0.06)
    assert np.all((forecast.lower[0] > 0.8 * y[56:]) & (forecast.upper[0] < 1.2 * y[56:]))
    assert np.all((forecast.lower[0] < y[56:] + 1e-3) & (y[56:] < forecast.upper[0] + 1e-2))
