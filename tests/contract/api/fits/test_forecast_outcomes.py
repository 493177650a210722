"""Outcomes of forecasts move a forecaster's intervals each week, with a bound that holds for any data."""

from datetime import timedelta

import numpy as np
import pytest

from app.services.outcomes import observed, weekly
from app.store.clock import utc_now
from app.store.outcomes import reports
from sampler import Forecaster, fit
from sampler.storage.weekly_tables import most_outside
from tests.support.api_calls import post_model
from tests.support.databases import only
from tests.support.forecasts import SHORT, shops
from tests.support.html_page import ACCEPT, page_of

MONTHS, HORIZON = 9, 3


@pytest.fixture
def weeks_on(monkeypatch):
    """Set the time to some weeks from now."""
    start = utc_now()

    def go(weeks):
        for module in (weekly, observed, reports):
            monkeypatch.setattr(module, "utc_now", lambda: start + timedelta(weeks=weeks))

    return go


@pytest.fixture
def path(client) -> str:
    """Import a forecaster of two shops; return its address."""
    table, y = shops(2, 40)
    columns = {name: table[name] for name in ("month", "shop")}
    sales = fit(columns, y, time="month", series="shop", horizon=HORIZON, difference="last", **SHORT)
    return post_model(client, sales.to_bytes()).headers["location"]


@pytest.mark.slow
@only("sqlite")
def test_intervals_follow_outcomes_each_week(client, path, weeks_on):
    """Outside are those that the answers of their time had outside; pending are series times horizon."""
    weeks_on(0)
    before = client.post(f"{path}/forecast", json={}).json()
    begun = client.post(f"{path}/outcomes/policy", json={"recalibrate": "weekly"})
    assert begun.status_code == 200, begun.text
    answers = []
    rng = np.random.default_rng(2)
    for month in range(MONTHS):
        weeks_on(1 + month)
        answers.append(client.post(f"{path}/forecast", json={"totals": [{}]}).json())
        newest = answers[-1]
        y = np.array(newest["median"])[:, 0] * np.exp(rng.normal(0, 0.5, 2))
        rows = [
            {"month": newest["time"][i][0], "shop": shop, "y": float(y[i])}
            for i, shop in enumerate(newest["series"]["shop"])
        ]
        answers[-1]["came"] = y.tolist()
        report = client.post(f"{path}/outcomes", json={"rows": rows})
        assert report.status_code == 201, report.text
    inside = []
    for month in range(MONTHS):
        ahead = min(month, HORIZON - 1)
        said = answers[month - ahead]
        for series in range(2):
            low, high = (said[name][series][ahead] for name in ("lower", "upper"))
            y = answers[month]["came"][series]
            inside.append((low is None or low <= y) and (high is None or y <= high))
    told = client.get(f"{path}/outcomes").json()
    assert told["rows"] == len(inside)
    assert round(told["total"]["coverage"][1]["observed"] * len(inside)) == sum(inside)
    policy = told["policy"]
    assert policy["outcomes"] + policy["waiting"] == len(inside)
    assert policy["outside"] == pytest.approx(1 - np.mean(inside[: policy["outcomes"]]))
    assert policy["pending"] <= 2 * (HORIZON + 1)
    assert policy["at_most"] == pytest.approx(most_outside(0.9, policy["outcomes"], policy["pending"]))
    assert len({each["calibration"] for each in policy["tables"]}) > 3
    last = answers[-1]
    assert "whatever the data" in last["claim"]
    assert "whatever" not in last["totals"][0]["claim"]
    assert before["upper"] != answers[0]["upper"], "first those of the rehearsals' scores, then adapted ones"
    file = Forecaster.from_bytes(client.get(f"{path}/file").content)
    assert file.adapted.checksum == policy["tables"][-1]["calibration"]
    assert client.get(path).json()["calibration"]["checksum"] == file.adapted.checksum
    assert "Stop recalibrating weekly" in page_of(client.get(f"/ui{path}/outcomes", headers=ACCEPT)).words
    refused = client.post(f"{path}/forecast", json={"level": 0.7})
    assert (refused.status_code, "not among those adapted" in refused.text) == (422, True)
    off = client.post(f"{path}/outcomes/policy", json={"recalibrate": "off"}).json()
    assert off["policy"]["recalibrate"] == "off"
    assert client.delete(f"{path}/outcomes").status_code == 204
    assert client.get(f"{path}/outcomes").json()["rows"] == 0
