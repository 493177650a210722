"""A forecaster forecasts series by paths, adds them up, and is stored with all that it answers."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bartserve.scoring import Scorer
from sampler import DataError, Forecaster, PackedError, SettingsError, fit, load
from sampler.storage.forecast_file import read_forecaster, write_forecaster
from tests.support.forecasts import SHORT, rows_of, shops


def test_a_forecast_is_of_the_next_steps(forecaster, plan):
    """A line for each series and step, with the median between the ends, whole paths, and a claim."""
    answer = forecaster.forecast(plan, level=0.8)
    table = answer.to_pandas()
    assert [*table] == ["shop", "month", "step", "median", "lower", "upper", "flags"]
    assert table["month"][:4].tolist() == ["2023-01", "2023-02", "2023-03", "2023-04"]
    assert table["shop"].tolist() == [name for name in ("s0", "s1", "s2") for _ in range(4)]
    assert ((table["lower"] < table["median"]) & (table["median"] < table["upper"])).all()
    assert answer.paths.shape[1:] == (3, 4)
    assert len(answer.paths) >= 900
    assert np.allclose(answer.median, np.median(answer.paths, axis=0))
    assert "Estimated in 10 rehearsals" in answer.claim
    assert "No guarantee" in answer.claim
    assert forecaster.members[0] == "last, identity"
    assert len(forecaster.members) == 6
    endless = replace(answer, lower=np.full((3, 4), -np.inf))
    assert endless.to_pandas()["lower"].isna().all()


@pytest.mark.parametrize("level", [0.7, 0.99])
def test_rehearsals_say_of_which_level_they_are(forecaster, level):
    """Shares inside are of the rehearsed level nearest to what is asked, by its name."""
    told = forecaster.rehearsals(level)
    assert told.level == pytest.approx(level, abs=0.11)
    assert np.array_equal(told.inside, forecaster.rehearsals(told.level).inside, equal_nan=True)
    assert f"{told.level:.0%} intervals" in str(told)
    assert f"{told.level:.0%} intervals" in forecaster.claim(level)


def test_there_are_a_thousand_paths_of_any_number_of_draws():
    """More draws don't make more paths, whose memory a request may not choose."""
    y = np.random.default_rng(1).normal(size=40)
    more = SHORT | {"num_draws": 2_400, "num_trees": 1}
    sales = fit({"t": np.arange(40)}, y, time="t", horizon=2, difference="none", season=1, **more)
    assert 800 <= len(sales.forecast().paths) <= 1_500


def test_a_plan_of_other_times_changes_nothing(forecaster, plan):
    """Rows of a plan before the first step and after the last, whatever they say, change no bit."""
    more = {
        "shop": ["s0", "s1", "s2"],
        "month": ["2022-12", "2022-01", "2023-05"],
        "promo": [True, True, True],
    }
    longer = {name: [*more[name], *plan[name]] for name in plan}
    assert np.array_equal(forecaster.forecast(longer).paths, forecaster.forecast(plan).paths)


def test_a_promotion_is_told_by_the_plan(forecaster, plan):
    """The month of a promotion sells more than it would without."""
    without = forecaster.forecast(plan | {"promo": [False] * 12}).median
    assert np.all(forecaster.forecast(plan).median[:, 1] > 1.1 * without[:, 1])


def test_totals_are_sums_of_paths(forecaster, plan):
    """Totals over steps and sets are sums path by path; calibrated ones are never narrower."""
    answer = forecaster.forecast(plan)
    total = answer.total(steps=(2, 3), by="region", interval="predictive")
    assert total.sets == {"region": ["north", "south"]}
    assert total.count == [2, 1]
    sums = answer.paths[:, :2, 1:3].sum(axis=(1, 2))
    assert np.allclose([total.lower[0], total.median[0]], np.quantile(sums, [0.05, 0.5]))
    wide, own = answer.total(4), answer.total(4, interval="predictive")
    assert wide.lower[0] <= own.lower[0] < own.upper[0] <= wide.upper[0]
    assert answer.total(by="shop").columns()["number_of_series"] == [1, 1, 1]


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_lead_times_are_all_totals_from_the_first_step(forecaster, plan, level):
    """Each is the total over its steps, with a claim that counts the rehearsals of this lead time alone."""
    for series in (None, ["s1"]):
        answer = forecaster.forecast(plan, level, series=series)
        each = answer.lead_times()
        assert [total.steps for total in each] == [(1, 1), (1, 2), (1, 3), (1, 4)]
        for lead, total in enumerate(each, 1):
            own = answer.total(lead)
            assert np.allclose([total.median, total.lower, total.upper], [own.median, own.lower, own.upper])
            assert (total.count, total.claim) == (own.count, own.claim)
    inside = forecaster.calibration.inside("totals", level)[:, :, 1]
    share, sized = f"{inside.mean():.0%} of {inside.size}", f"{level:.0%} intervals"
    assert f"{share} totals over the first 2 steps were inside {sized}" in answer.total(2).claim
    assert "totals over 1 step were" in each[0].claim


def test_gaps_leave_less_to_claim():
    """A gap in each rehearsal leaves no total over all steps to count, which the claim says."""
    at = np.delete(np.arange(80), np.arange(57, 80, 3))
    sales = fit({"t": at}, np.sin(at) + 5, time="t", horizon=4, difference="last", season=1, **SHORT)
    answer = sales.forecast()
    assert "no total over the first 4 steps came without a gap" in answer.total().claim
    assert "of" in answer.total(1).claim


def test_the_file_has_all(forecaster, plan, tmp_path):
    """Saved, loaded and pickled, it answers with the same bits."""
    forecaster.save(tmp_path / "sales")
    again = load(tmp_path / "sales")
    assert isinstance(again, Forecaster)
    answer = forecaster.forecast(plan)
    for each in (again, pickle.loads(pickle.dumps(forecaster))):
        same = each.forecast(plan)
        assert np.array_equal(same.paths, answer.paths)
        assert np.array_equal(same.lower, answer.lower)
        assert same.claim == answer.claim
        assert each.to_bytes() == forecaster.to_bytes()


def test_a_released_file_answers_as_it_did():
    """A forecaster of format 1 is read, and its forecast is that of its day."""
    folder = Path(__file__).parents[2] / "data" / "formats"
    recorded = json.loads((folder / "forecaster_v1.json").read_text())
    forecast = Forecaster.from_bytes((folder / "forecaster_v1.bin").read_bytes()).forecast(recorded["plan"])
    for name in ("lower", "median", "upper"):
        assert np.allclose(getattr(forecast, name), recorded[name], rtol=1e-9)
    assert np.allclose(forecast.total().upper, recorded["total"], rtol=1e-9)
    assert forecast.claim == recorded["claim"]


@pytest.mark.parametrize("at", [3, 9, 30, 400, -20, -1])
def test_a_damaged_file_is_refused(forecaster, at):
    """A changed byte anywhere, and a file cut short, are no forecaster."""
    data = bytearray(forecaster.to_bytes())
    data[at] ^= 1
    with pytest.raises(PackedError):
        Forecaster.from_bytes(bytes(data))
    with pytest.raises(PackedError):
        Forecaster.from_bytes(bytes(data[:at]))


FORGED = {  # place in the header: another value, and why it is refused
    "start": (1 << 50, "out of range"),
    "members.0.lags": (10**9, "out of range"),
    "members.0.difference": ("third", "another kind of member"),
    "step.size": (0, "no step"),
    "step.unit": ("moon", "no step"),
    "keys.0": (["s1"], "no series"),
    "static.region": (["north"], "other lengths"),
    "target": ("units", "other columns"),
    "settings.seed": (-1, "out of range"),
    "asked.horizon": (10**9, "horizon must be"),
    "origins": ([1], "other shapes"),
}


@pytest.mark.parametrize("place", FORGED)
def test_a_forged_file_is_refused(forecaster, place):
    """A header with another value and a right checksum is refused by name, before anything is computed."""
    header, arrays, models = read_forecaster(forecaster.to_bytes())
    *path, last = place.split(".")
    inner = header
    for name in path:
        inner = inner[int(name) if isinstance(inner, list) else name]
    value, why = FORGED[place]
    inner[int(last) if isinstance(inner, list) else last] = value
    with pytest.raises(PackedError, match=why):
        Forecaster.from_bytes(write_forecaster(header, arrays, models))


def test_newer_rows_move_the_start(forecaster, plan):
    """Forecasts start after what was observed, and rows may be sent twice."""
    again = Forecaster.from_bytes(forecaster.to_bytes())
    newer = rows_of(plan, np.arange(12) % 4 == 0) | {"sales": [20.0, 30.0, 40.0], "region": ["north"] * 3}
    assert again.observe(newer) is again
    others = newer | {"promo": [not each for each in newer["promo"]]}
    y, promo = again.history.y, again.history.known["promo"]
    again.observe(others)
    assert np.array_equal(again.history.y, y, equal_nan=True)
    assert np.array_equal(again.history.known["promo"], promo, equal_nan=True)
    template = again.plan_template()
    assert template["month"][:4] == ["2023-02", "2023-03", "2023-04", "2023-05"]
    later = again.forecast(template | {"promo": [False] * 12})
    assert later.time[0][0] == "2023-02"
    assert again.history.y[:, -1].tolist() == [20.0, 30.0, 40.0]


def test_the_same_bits_whatever_the_order_and_threads(forecaster, plan):
    """Rows in another order, series in another order, and threads change no bit."""
    table, y = shops()
    order = np.random.default_rng(3).permutation(len(y))
    arguments = {"time": "month", "series": "shop", "horizon": 4, "known": ["promo"], "target_name": "sales"}
    mixed = {name: [values[row] for row in order] for name, values in table.items()}
    again = fit(mixed, y[order], **arguments, **SHORT, num_threads=1)
    assert again.to_bytes() == forecaster.to_bytes()
    whole = forecaster.forecast(plan).paths
    assert np.array_equal(forecaster.forecast(plan, num_threads=1).paths, whole)
    part = forecaster.forecast(plan, series=["s2", "s0"])
    assert part.series == {"shop": ["s2", "s0"]}
    assert np.array_equal(part.paths, whole[:, [2, 0]])


def test_what_a_forecaster_is_not_for(forecaster):
    """Predictions of rows are refused, with what to do instead."""
    with pytest.raises(SettingsError, match="ask forecast"):
        forecaster.predict({})
    with pytest.raises(SettingsError, match=r"ask forecast\(plan, series=\[\.\.\]\)"):
        Scorer(forecaster)


def test_an_engine_forecasts_series_where_they_are(forecaster, plan):
    """Pickled, and asked with the plan of one series alone, it forecasts with the bits of the whole."""
    whole = forecaster.forecast(plan)
    for at, name in enumerate(("s0", "s1", "s2")):
        sent = pickle.loads(pickle.dumps(forecaster))
        own = sent.forecast(rows_of(plan, np.arange(12) // 4 == at), series=[name])
        assert np.array_equal(own.paths[:, 0], whole.paths[:, at])
        assert np.array_equal(own.upper[0], whole.upper[at])


def test_more_draws_are_those_of_a_longer_fit(forecaster, plan):
    """Extended, also from its file and after newer rows, it is a longer fit, bit for bit."""
    table, y = shops()
    arguments = {"time": "month", "series": "shop", "horizon": 4, "known": ["promo"], "target_name": "sales"}
    longer = fit(table, y, **arguments, **(SHORT | {"num_draws": 40}))
    assert forecaster.extend(15).to_bytes() == longer.to_bytes()
    moved = Forecaster.from_bytes(forecaster.to_bytes())
    newer = rows_of(plan, np.arange(12) % 4 == 0) | {"sales": [20.0, 30.0, 40.0], "region": ["north"] * 3}
    another = {name: [*values[:1], *values] for name, values in newer.items()} | {
        "shop": ["s9", *newer["shop"]]
    }
    moved.observe(another)
    again = moved.extend(15, num_threads=1)
    assert again.to_bytes() == longer.observe(another).to_bytes()
    assert len(again.history.keys) == 4
    with pytest.raises(SettingsError, match="num_draws"):
        moved.extend(0)


def test_other_rows_of_the_fit_are_not_extended():
    """A gap of the fit that was filled in afterwards ends its chains; the refusal says what to do."""
    at = np.delete(np.arange(60), 30)
    sales = fit({"t": at}, np.sin(at), time="t", horizon=2, difference="last", season=1, **SHORT)
    sales.observe({"t": [30], sales.history.target: [0.0]})
    with pytest.raises(DataError, match="fit again with more num_draws"):
        sales.extend(10)
