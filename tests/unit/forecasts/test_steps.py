"""Times in equal steps are found whatever they are, and written as the column has them."""

import numpy as np
import pandas as pd
import pytest

from sampler import SettingsError
from sampler.data.table import read_column
from sampler.forecasts.steps import Step, Times


def days(unit, count=40, every=1, first="2019-11-04"):
    """Return successive times of a unit of numpy."""
    return np.datetime64(first).astype(f"datetime64[{unit}]") + every * np.arange(count)


WORKDAYS = days("D", 60)[np.is_busday(days("D", 60))]
LAST_DAYS = (days("M", 30) + 1).astype("datetime64[D]") - 1
ZONED = (
    pd.date_range("2024-03-11", periods=40, tz="Europe/Berlin").to_series().reset_index(drop=True)
)  # over a change of the clock
COLUMNS = {  # times, the step in words, its first season, the time after the last
    "days": (days("D"), "a day", 7, "2019-12-14"),
    "weeks": (days("D", every=7), "a week", 52, "2020-08-10"),
    "hours": (days("h"), "an hour", 24, "2019-11-05T16:00:00"),
    "half hours": (days("m", every=30), "0.5 hours", 48, "2019-11-04T20:00:00"),
    "business days": (WORKDAYS, "a business day", 5, "2020-01-03"),
    "months": ([str(each) for each in days("M")], "a month", 12, "2023-03"),
    "last days of months": (LAST_DAYS, "a month", 12, "2022-05-31"),
    "quarters": ([f"{2015 + k // 4} Q{1 + k % 4}" for k in range(30)], "a quarter", 4, "2022 Q3"),
    "years as dates": (days("Y", 30).astype("datetime64[D]"), "a year", 1, "2049-01-01"),
    "days of a zone": (ZONED, "a day", 7, "2024-04-20"),
    "years": (np.arange(1990, 2020), "1", 1, 2020),
    "days as numbers": ([20240226, 20240227, 20240228, 20240229, 20240301, 20240302], "a day", 7, "20240303"),
    "ISO weeks": ([f"2020-W{k:02}" for k in range(40, 54)], "a week", 52, "2021-W01"),
    "decimal years": (np.round(1991.5 + np.arange(60) / 12, 6), "0.08333", 12, 1996.5),
    "text of days": ([str(each) for each in days("D")], "a day", 7, "2019-12-14"),
    "text of numbers": ([str(each) for each in range(7, 40)], "1", 1, 40),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_step_is_found(name):
    """The step, its season and the next time; three gaps change nothing."""
    column, words, season, following = COLUMNS[name]
    for kept in (np.arange(len(column)), np.delete(np.arange(len(column)), [2, 3, len(column) // 2])):
        cells = [column[k] for k in kept] if isinstance(column, list) else column[kept]
        times = Times.read(read_column(cells, "t"))
        step = Step.find(times, np.zeros(len(kept), np.int64), "auto")
        assert step.in_words == words
        assert step.seasons[0] == season
        index, off = step.index(times.values)
        assert index.tolist() == kept.tolist()
        assert not len(off)
        assert step.text(len(column)) == following
        assert Step(**step.to_json()) == step


def test_a_step_may_be_named():
    """A named step is taken, or refused where the times are in no such steps."""
    times = Times.read(read_column(days("D", every=14), "t"))
    assert Step.find(times, np.zeros(40, np.int64), "auto").in_words == "14 days"
    assert Step.find(times, np.zeros(40, np.int64), "week").in_words == "a week"
    firsts = [np.busday_offset(f"2024-{month:02}-01", 0, roll="forward") for month in range(1, 13)]
    workdays = Times.read(read_column(np.array(firsts), "t"))
    step = Step.find(workdays, np.zeros(12, np.int64), "month")
    assert step.index(workdays.values)[0].tolist() == list(range(12))
    with pytest.raises(SettingsError, match="not in steps of a year"):
        Step.find(times, np.zeros(40, np.int64), "year")
