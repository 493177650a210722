"""Columns that are named by times are found, and made rows that forecasts are fitted to."""

import numpy as np
import pandas as pd
import pytest

from sampler import DataError, SettingsError, make_long
from sampler.data.table import read_column
from sampler.forecasts.steps import Times
from sampler.forecasts.wide import read_asked, wide_times

HEADERS = {
    "a month": ["2024-01", "2024-02", "2024-03", "2024-05"],
    "a month by name": ["March 2024", "April 2024", "May 2024", "June 2024"],
    "a month of a tsibble": ["1987 Jan", "1987 Feb", "1987 Mar", "1987 Apr"],
    "a month of a statistical office": ["2024M01", "2024M02", "2024M03", "2024M04"],
    "a month by its last day": ["31.01.2024", "29.02.2024", "31.03.2024", "30.04.2024"],
    "a quarter": ["2014 Q1", "2014 Q2", "2014 Q3", "2014 Q4"],
    "a week": ["2024-W05", "2024-W06", "2024-W07", "2024-W09"],
    "a week in German": ["KW 1 2024", "KW 2 2024", "KW 3 2024", "KW 4 2024"],
    "a week by number": ["week 1", "week 2", "week 3", "week 4"],
    "a week of timestamps": [f"2024-01-{day:02} 00:00:00" for day in (1, 8, 15, 22)],
    "a day": ["20240101", "20240102", "20240103", "20240104"],
    "a day, month first": ["1/30/2020", "1/31/2020", "2/1/2020", "2/2/2020"],
    "a year": ["2024", "2023", "2022", "2021"],
}
OTHERS = (
    ["2024-01", "2024-02", "2024-03"],
    ["2001", "2004", "2017", "1950"],
    ["x1", "x2", "x3", "x4"],
    ["day", "month", "year", "quarter", "week"],
    ["2023-02-29", "2023-02-30", "2023-02-31", "2023-02-32"],
    ["q2024", "q2025", "q2026", "q2027"],
)


@pytest.mark.parametrize("name", HEADERS)
def test_columns_of_times_are_found(name):
    """Four columns named by times of one form in equal steps are, whatever stands beside them."""
    columns = HEADERS[name]
    found = wide_times(["shop", *columns, "region 2024"])
    assert found.columns == tuple(columns)
    assert found.step == " ".join(name.replace(",", "").split()[:2])
    if "first" not in name and "last" not in name:  # days of other orders are read by the service
        assert len(set(Times.read(read_column([*found.times], "time")).values)) == 4


@pytest.mark.parametrize("columns", OTHERS)
def test_other_columns_are_none(columns):
    """Three columns, unequal steps, numbered features and days that don't exist are no columns of times."""
    assert wide_times(["shop", *columns]) is None
    with pytest.raises(DataError, match="no four columns are named by times"):
        make_long({name: [1, 2] for name in columns})


@pytest.mark.parametrize("given", [{"horizon": 3}, {"time": "month", "horizon": 3}])
def test_a_forecast_of_a_wide_table_says_what_to_do(given):
    """Without a column of times, the columns that are times are named, and what makes rows of them."""
    with pytest.raises(
        SettingsError, match=r"has 4 columns from 2014 Q1 to 2014 Q4, a quarter each.*wide=long"
    ):
        read_asked(given, ["shop", *HEADERS["a quarter"]])
    with pytest.raises(SettingsError, match="since horizon is of forecasts: name the column"):
        read_asked({"horizon": 3}, ["shop", "month"])


def test_a_wide_table_is_made_long():
    """Other columns are repeated, times and values follow in the table's order, by free names."""
    frame = pd.DataFrame({"shop": ["A", "B"], "time": pd.to_datetime(["2020-01-01", None])})
    for month in (1, 2, 3, 4):
        frame[pd.Timestamp(2024, month, 1)] = [month, np.nan]
    long = make_long(frame)
    assert [*long] == ["shop", "time", "time_2", "value"]
    assert long["shop"] == ["A", "B"] * 4
    assert long["time"] == ["2020-01-01", None] * 4
    assert long["time_2"][::2] == [f"2024-0{month}-01 00:00:00" for month in (1, 2, 3, 4)]
    assert long["value"][::2] == [1, 2, 3, 4]
    assert np.isnan(long["value"][1::2]).all()
