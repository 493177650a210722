"""Pages of imported forecasters, of several series and of one."""

import numpy as np

from app.dashboard.formatting import number
from sampler import fit
from tests.support.api_calls import post_model
from tests.support.databases import only
from tests.support.forecasts import SHORT, rows_of, shops
from tests.support.html_page import ACCEPT, page_of


@only("sqlite")
def test_series_that_end_apart_have_a_page(client):
    """There is no total of all where some end too early for it; a series too old has its reason."""
    table, y = shops(3, 40)
    kept = ~np.isin(np.arange(120), [79, *range(115, 120)])
    rows = rows_of({name: table[name] for name in ("month", "shop")}, kept)
    sales = fit(rows, y[kept], time="month", series="shop", horizon=2, difference="last", **SHORT)
    imported = post_model(client, sales.to_bytes())
    assert imported.status_code == 201, imported.text
    address = f"/ui/models/{imported.json()['id']}/forecast"
    for row, lead, words_of, lacks in (
        (0, 1, "All series", "ends at"),
        (1, 2, "so far ahead there is no forecast of all", "ends at"),
        (2, 1, "shop s2 ends at", "Total over"),
    ):
        page = page_of(
            client.get(address, params={"of": row, "lead": lead}, headers=ACCEPT), 422 if row == 2 else 200
        )
        assert words_of in page.words
        assert lacks not in page.words
        assert ({"of"} if row == 2 else {"of", "lead"}) <= {each["name"] for each in page.controls}
        assert number(sales.forecast(series=["s0"]).total(lead).upper[0], 4) in page.words or row
    asked = client.post(f"/models/{imported.json()['id']}/forecast", json={"totals": [{"steps": [2]}]})
    assert (asked.status_code, "ends 1 step before" in asked.json()["detail"]) == (422, True)


@only("sqlite")
def test_one_series_has_pages(client):
    """A forecaster of one series, with nothing known ahead, has an overview and a forecast, without "all"."""
    sales = fit({"t": np.arange(40)}, np.arange(40) % 7, time="t", horizon=3, difference="last", **SHORT)
    imported = post_model(client, sales.to_bytes())
    address = f"/ui/models/{imported.json()['id']}"
    assert "Forecasts 3 steps" in page_of(client.get(address, headers=ACCEPT)).words
    page = page_of(client.get(f"{address}/forecast", params={"lead": 99}, headers=ACCEPT))
    words_of = " ".join(page.words.split())
    assert "Total over the first 3 steps, to 42" in words_of
    assert "All series" not in page.words
    for total in sales.forecast().lead_times():
        assert f"{number(total.lower[0], 4)} to {number(total.upper[0], 4)}" in words_of
