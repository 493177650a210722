"""Forecasters of small fits, which tests share: they don't change them."""

import pytest

from sampler import fit
from tests.support.forecasts import SHORT, shops


@pytest.fixture(scope="session")
def forecaster():
    """Fit a forecaster of three shops' months, with a plan of promotions."""
    table, y = shops()
    arguments = {"time": "month", "series": "shop", "horizon": 4, "known": ["promo"], "target_name": "sales"}
    return fit(table, y, **arguments, **SHORT)


@pytest.fixture(scope="session")
def plan(forecaster):
    """Plan one promotion in the next months."""
    rows = forecaster.plan_template()
    return rows | {"promo": [step % 4 == 1 for step in range(len(rows["month"]))]}
