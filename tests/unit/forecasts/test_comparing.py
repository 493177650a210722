"""A new forecaster is compared with a former one by outcomes that neither has learnt."""

from dataclasses import replace

import numpy as np
import pytest

from sampler import DataError, Forecaster, fit
from sampler.forecasts.calibration import parts_of
from sampler.forecasts.comparing import compare_forecasts
from sampler.forecasts.fitting import fit_members
from tests.support.forecasts import SHORT, rows_of, shops

ASKED = {"time": "month", "series": "shop", "horizon": 4, "difference": "last", "target_name": "sales"}
OLD, ALL = 48, 60  # months


@pytest.fixture(scope="module")
def fits() -> tuple[Forecaster, Forecaster]:
    """Fit to 48 months of three shops, and to 60."""
    table, y = shops(3, ALL)
    columns = {name: table[name] for name in ("month", "shop")}
    kept = np.tile(np.arange(ALL) < OLD, 3)
    return fit(rows_of(columns, kept), y[kept], **ASKED, **SHORT), fit(columns, y, **ASKED, **SHORT)


def members(forecaster, spoiled=False):
    """Fit members to what is before the rehearsals, with months in a wrong order if spoiled."""
    before = parts_of(forecaster.history)[1]
    if spoiled:
        before = replace(before, y=np.random.default_rng(1).permuted(before.y, axis=1))
    return fit_members(before, forecaster.settings)


def test_what_came_after_the_former_fit_is_judged(fits):
    """From its end on, up to the last window that is over; a fit that learnt another law is worse."""
    old, new = fits
    told = compare_forecasts(new.history, members(new), old)
    assert (told.origins, told.series, told.outcomes) == (9, 3, 9 * 3 * 4)
    assert 5 <= told.windows <= 9
    assert told.lower < told.difference < told.upper
    assert told.difference == pytest.approx(told.challenger - told.champion)
    worse = compare_forecasts(new.history, members(new, spoiled=True), old)
    assert worse.lower > 0
    assert worse.champion == told.champion


def test_rehearsals_are_judged_where_little_came_after(fits):
    """A fit to the same months equals its own rehearsals; one of another horizon is refused."""
    _, new = fits
    told = compare_forecasts(new.history, members(new), new)
    assert (told.origins, told.difference, told.lower) == (10, 0.0, 0.0)
    assert told.champion == pytest.approx(told.challenger)
    few = replace(new.history, asked=replace(new.history.asked, horizon=3))
    with pytest.raises(DataError, match="other series, outcomes or steps"):
        compare_forecasts(few, members(new), new)


def test_too_few_windows_tell_nothing(fits):
    """Ten origins of one series overlap, and are worth fewer than five windows: there are no figures."""
    old, _ = fits
    table, y = shops(1, OLD)
    one = fit({"month": table["month"]}, y, **ASKED | {"series": None}, **SHORT)
    told = compare_forecasts(one.history, members(one), one)
    assert (told.windows < 5, told.difference, told.upper) == (True, None, None)
    with pytest.raises(DataError, match="other series"):
        compare_forecasts(one.history, members(one), old)
