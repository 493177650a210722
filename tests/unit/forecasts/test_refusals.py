"""Refusals of forecasts come before anything is drawn: they say what is wrong, where, and what to do."""

import numpy as np
import pytest

from sampler import DataError, Forecaster, SettingsError, fit
from sampler.pairs import NOT_OF_FORECASTS
from tests.support.forecasts import SHORT, rows_of, shops

ASKED = {"time": "month", "series": "shop", "horizon": 4, "known": ["promo"]}


def doubled(table, y):
    """Repeat a row."""
    return {name: [*values, values[5]] for name, values in table.items()}, [*y, y[5]]


def irregular(table, y):
    """Give a time of day at random to each row."""
    times = np.datetime64("2024-01-01T00:00:00") + np.random.default_rng(0).integers(0, 10**8, len(y))
    return table | {"month": times.astype("datetime64[us]")}, y


def sparse(table, y):
    """Keep counts of half of the rows."""
    kept = np.random.default_rng(0).uniform(size=len(y)) < 0.6
    return rows_of(table, kept), np.round(np.asarray(y)[kept])


def short(table, y):
    """Keep 20 months of one shop."""
    return rows_of(table, np.arange(len(y)) < 20), y[:20]


def changing(table, y):
    """Add a column that changes and isn't known ahead."""
    return table | {"temperature": np.arange(len(y)) % 7}, y


def labelled(table, y):
    """Give outcomes in words."""
    return table, np.where(np.asarray(y) > 20, "high", "low")


def words(table, y):
    """Give times that are none."""
    return table | {"month": ["soon"] * len(y)}, y


def one_time(table, y):
    """Give each row a series of its own."""
    return table | {"shop": [f"s{row}" for row in range(len(y))]}, y


def large(table, y):
    """Give outcomes that no calculation survives."""
    return table, [1e200, *y[1:]]


def without_series(table, y):
    """Leave a row without a series."""
    return table | {"shop": [None, *table["shop"][1:]]}, y


def far(table, y):
    """Give the last row a time far from all others, as a slip of the pen does."""
    day = (np.datetime64("2019-01-01") + np.tile(np.arange(48), 3)).astype(str).tolist()
    return {"month": [*day[:-1], "9999-12-01"], "shop": table["shop"]}, y


def beyond(table, y):
    """Number the months, the last beyond any whole number."""
    return {"month": [*map(float, range(48))] * 2 + [*map(float, range(47)), 1e200], "shop": table["shop"]}, y


def unknown(table, y):
    """Leave an outcome out, with its row."""
    return table, [*y[:5], None, *y[6:]]


def endless(table, y):
    """Give an infinite value of what is known ahead."""
    return table | {"promo": [*map(float, table["promo"][:-1]), np.inf]}, y


def answered(table, y):
    """Name the times as forecasts name the number of a step."""
    return table | {"step": table["month"]}, y


def wide(table, y):
    """Give a column for each month, and a row for each shop."""
    return {"shop": table["shop"][:3]} | {f"2024-0{k}": y[k : k + 3] for k in range(1, 7)}, y[:3]


CASES = {
    "far": (far, {"known": None}, DataError, "'month', row 144: .* 2,9.* steps of a day.*correct the time"),
    "beyond": (beyond, {"known": None}, DataError, "'month', row 144: .* steps of 1, for .*correct the time"),
    "unknown": (unknown, {"gaps": "zero"}, DataError, "row 6: month 2019-06 of shop s0 has a row without an"),
    "endless": (endless, {}, DataError, "column 'promo', row 144: the value is infinite"),
    "answered": (answered, {"time": "step", "features": ["promo"]}, SettingsError, "'step' of their own"),
    "two rows": (doubled, {}, DataError, "month 2019-06 of shop s0 has another row.* sum the rows"),
    "irregular": (irregular, {}, SettingsError, "no equal steps.* sum the outcomes by day"),
    "gaps": (sparse, {}, SettingsError, 'of the steps have no row.*gaps="zero".*gaps="missing"'),
    "short": (short, {"series": None}, DataError, "20 steps is too short.*add earlier rows"),
    "changing": (changing, {}, SettingsError, r"temperature isn't known.*2019-02 of shop s0.*known=\['temp"
                 r".*features=\['promo', 'region'\]"),
    "changing more": (changing, {"known": None}, SettingsError,
                      r"promo, temperature aren't known.*leave them out with features=\['region'\]"),
    "features": (None, {"features": ["shop"]}, SettingsError, "'shop', which is no feature: the time, the"),
    "no feature": (None, {"features": ["regoin"]}, SettingsError, "none of promo, region.* mean region"),
    "classes": (labelled, {}, DataError, "column 'y', row 1: the text 'low' where a number belongs"),
    "no times": (words, {}, DataError, "column 'month', row 1: 'soon' is no time.*2014 Q1.*make_long"),
    "no series": (without_series, {}, DataError, "column 'shop', row 1: the row has no series"),
    "horizon": (None, {"horizon": 12}, SettingsError, "a quarter of the 48 steps.* horizon=11 or less"),
    "no horizon": (None, {"horizon": None}, SettingsError, "horizon is needed"),
    "no time": (None, {"time": None}, SettingsError, "time is needed"),
    "step": (None, {"step": "week"}, SettingsError, "not in steps of a week: leave step out"),
    "name": (None, {"time": "moth"}, SettingsError, "time names 'moth'.*did you mean month"),
    "wide": (wide, {"series": "shop", "known": None}, SettingsError, "2024-06, a month each.*make_long"),
    "one time": (one_time, {}, SettingsError, "no series has two times: name the columns of series"),
    "no season": (None, {"difference": "season", "season": 1}, SettingsError, "leave difference out"),
    "large": (large, {}, DataError, "reach 1e.200.* rescale it"),
    "twice": (None, {"known": ["shop"]}, SettingsError, "'shop' can be one of time, series and known"),
    "seasons": (None, {"season": [7, 12, 365]}, SettingsError, "season takes one or two"),
    "new rows": (None, {"new_rows": {"later": "month"}}, SettingsError, "next steps.* leave out new_rows"),
    "a family": (None, {"family": "probit"}, SettingsError, "numbers and counts, not probit: set family="),
    "noise": (None, {"noise": "t"}, SettingsError, "constant noise: leave out noise"),
    **{name: (None, {name: "region"}, SettingsError, f"forecasts take no {name}: leave out {name}")
       for name in NOT_OF_FORECASTS},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_fit_is_refused(name):
    """Each refusal names the place and a way that works."""
    change, more, error, words_of = CASES[name]
    table, y = shops()
    if change is not None:
        table, y = change(table, y)
    with pytest.raises(error, match=words_of):
        fit(table, y, **(ASKED | more), **SHORT)


def test_a_plan_is_refused(forecaster, plan):
    """A missing step, a missing column and no plan at all are named."""
    shorter = rows_of(plan, np.arange(12) != 6)
    with pytest.raises(DataError, match=r"'promo': the plan has no value for month 2023-03 of shop s1"):
        forecaster.forecast(shorter)
    with pytest.raises(SettingsError, match="promo of the next 4 steps must be planned"):
        forecaster.forecast()
    with pytest.raises(SettingsError, match="'promo', which the table doesn't have"):
        forecaster.forecast({name: plan[name] for name in ("month", "shop")})
    with pytest.raises(SettingsError, match="level must be"):
        forecaster.forecast(plan, level=1.5)
    with pytest.raises(SettingsError, match="interval must be calibrated or predictive"):
        forecaster.forecast(plan, interval="credible")
    with pytest.raises(SettingsError, match="series names s9, which isn't known"):
        forecaster.forecast(plan, series=["s9"])
    with pytest.raises(SettingsError, match="steps must be from 1 to 4"):
        forecaster.forecast(plan).total(steps=(1, 5))
    with pytest.raises(SettingsError, match=r"by names 'city'.*there are region, shop"):
        forecaster.forecast(plan).total(by="city")


QUESTIONS = {
    "no series": ({"series": []}, "series", "names none: leave it out"),
    "infinite": ({"series": [np.inf]}, "series", "names inf, which isn't known"),
    "no number": ({"series": [np.nan]}, "series", "names nan, which isn't known"),
    "two values": ({"series": [["s1", "tea"]]}, "series", "s1, tea; a series has a value for each of shop"),
    "number": ({"at": 5}, "at", "a time as month has them, such as '2019-01', not 5"),
    "huge": ({"at": 1e300}, "at", "a time as month has them"),
    "no time": ({"at": "soon"}, "at", "a time as month has them, such as '2019-01', not 'soon'"),
    "a third step": ({"steps": (1, 2, 3)}, "steps", "a first and a last, not"),
    "half a step": ({"steps": (1.5, 3)}, "steps", r"a first and a last, not \(1.5, 3\)"),
    "backwards": ({"steps": (3, 1)}, "steps", "from 1 to 4"),
    "no level": ({"level": 0.995}, "level", "up to 0.99"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_refused(forecaster, plan, name):
    """Questions that have no answer are refused by their field, with what may be given."""
    asked, field, words_of = QUESTIONS[name]
    steps = asked.get("steps")
    with pytest.raises(SettingsError, match=words_of) as refused:
        forecaster.forecast(plan, **{each: value for each, value in asked.items() if each != "steps"}).total(
            steps
        )
    assert refused.value.field == field


@pytest.mark.parametrize("value", [[], [np.inf] * 12, [1.0] * 13], ids=["none", "infinite", "doubled"])
def test_rows_of_a_plan_are_refused(forecaster, plan, value):
    """No row, an infinite value, and two rows of one series and step are no plan."""
    rows = {name: [*values, values[0]][: len(value)] for name, values in plan.items()}
    with pytest.raises(DataError, match=r"there are no rows|row 1: the value is infinite|s0 has another row"):
        forecaster.forecast(rows | {"promo": value})


def test_a_stale_series_is_told(forecaster, plan):
    """More than a horizon after its end a series is stale; more than two, it isn't forecast."""
    late = forecaster.forecast(plan, at="2023-05")
    assert late.flags == [["stale", "ends_early"]] * 3
    assert "3 series end more than a horizon" in late.warnings[0]
    with pytest.raises(DataError, match="shop s0 ends at 2022-12, more than two horizons ago: observe"):
        forecaster.forecast(plan, at="2023-09")


def test_observed_rows_are_refused(forecaster, plan):
    """Another outcome than is known, a missing column, and too new a series are named."""
    again = Forecaster.from_bytes(forecaster.to_bytes())
    row = {"month": ["2022-12"], "shop": ["s1"], "promo": [False], "region": ["north"], "sales": [1.0]}
    with pytest.raises(DataError, match=r"month 2022-12 of shop s1 is known as .* and 1 came"):
        again.observe(row)
    with pytest.raises(DataError, match="'region': the column is missing"):
        again.observe({name: row[name] for name in ("month", "shop", "promo", "sales")})
    new = row | {"shop": ["s7"]}
    rows = {name: [*plan[name], "2023-01"] if name == "month" else [*plan[name], *new[name]]
            for name in ("month", "shop", "promo")}  # fmt: skip
    answer = again.observe(new).forecast(rows)
    assert answer.series == {"shop": ["s0", "s1", "s2"]}
    assert "shop s7 is new and has 1 outcome, and needs 4: observe more" in answer.warnings[0]
    with pytest.raises(DataError, match="s7 is new"):
        again.forecast(rows, series=["s7"])
    months = [f"2022-{month:02}" for month in range(6, 12)]
    again.observe({name: months if name == "month" else 6 * new[name] for name in new})
    with pytest.raises(DataError, match="s7 is new, and 3 series taught the forecaster, which needs 10: fit"):
        again.forecast(rows, series=["s7"])


def test_one_is_in_the_singular(forecaster, plan):
    """One step and one series are named in the singular."""
    alone = fit({"t": np.arange(40)}, np.arange(40) % 7, time="t", horizon=1, difference="last", **SHORT)
    assert str(alone.forecast()).startswith("y: 1 series, 1 step, 90% intervals")
    late = forecaster.forecast(plan, at="2023-05", series=["s0"])
    assert late.warnings[0].startswith(
        "1 series ends more than a horizon before the newest time: its forecast"
    )
    planned = fit(
        {"t": np.arange(40), "k": np.arange(40) % 3}, np.arange(40) % 7, time="t", horizon=1, known=["k"],
        difference="last", **SHORT,
    )  # fmt: skip
    with pytest.raises(SettingsError, match="k of the next 1 step must be planned"):
        planned.forecast()
