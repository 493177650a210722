"""Periods written as text are read as their first days, and written as they were."""

import numpy as np
import pytest

from sampler.data.periods import FORMS, period_text, read_periods

CELLS = {
    "2014 Q1": "2014-01-01",
    "2014Q3": "2014-07-01",
    "Q4 2014": "2014-10-01",
    "1987 Jan": "1987-01-01",
    "Dec 1987": "1987-12-01",
    "May-2024": "2024-05-01",
    "January 2024": "2024-01-01",
    "2024M01": "2024-01-01",
    "2024-01": "2024-01-01",
    "01/2024": "2024-01-01",
    "2024-W05": "2024-01-29",
    "2020 W53": "2020-12-28",
    "KW 5 2024": "2024-01-29",
    "20240229": "2024-02-29",
}


@pytest.mark.parametrize(("cell", "day"), CELLS.items())
def test_a_period_is_read_and_written(cell, day):
    """Each form is read as the period's first day, and gives the same text back."""
    days, form = read_periods([cell, None, cell])
    assert form in FORMS
    assert np.datetime64(int(days[0]), "D") == np.datetime64(day)
    assert np.isnan(days[1])
    assert period_text(days[0], form) == cell


def test_a_column_has_one_form():
    """Cells of several forms, and periods that don't exist, are none."""
    assert read_periods(["2014 Q1", "2014-01"]) is None
    assert read_periods(["20230229"]) is None
    assert read_periods(["2021-W53"]) is None
    assert read_periods([None]) is None
    assert read_periods(["tea"]) is None
