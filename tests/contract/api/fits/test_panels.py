"""Panels over HTTP: a fit by adoptions and periods, effects by lag, cohort and period, files and refusals."""

import numpy as np

from sampler import load
from tests.support.api_calls import post_csv, problem
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, fitted
from tests.support.panels import panel


def text(units: int = 30) -> str:
    """Write a panel as a file; units that never adopt have no adoption."""
    table, y, _ = panel(0, units=units)
    first = ["" if np.isnan(each) else f"{each:g}" for each in table["first"]]
    lines = zip(table["year"], table["x"], table["unit"], first, y, strict=True)
    return "year,x,unit,first,y\n" + "".join(f"{a:g},{b:.4f},{c},{d},{e:.4f}\n" for a, b, c, d, e in lines)


ROLES = {"adoption": "first", "period": "year", "groups": ["unit"]}


@only("sqlite")
def test_a_panel_goes_all_the_way(client, settings, tmp_path):
    """A fit with adoptions: averages of treated rows by lag, cohort and period, and those of the file."""
    model = fitted(client, settings, text=text(), **ROLES)
    path, own = f"/models/{model['id']}", model["settings"]
    assert (own["adoption"], own["period"], own["groups"]) == ("first", "year", ["unit"])
    assert own["features"] == ["year", "x"]
    assert own["num_arms"] == 6
    answer = client.post(f"{path}/effects", json={}).json()
    assert answer["average"]["rows"] == answer["average"]["treated"] == len(answer["mean"]) == 80
    page = client.get(f"/ui{path}/treatment").text
    assert "What first does" in page
    assert "part=lags" in page
    chart = client.get(f"/ui{path}/treatment.svg?by=lag&part=lags")
    assert "periods since the adoption" in chart.text
    assert client.get(f"/ui{path}/treatment.svg?by=x&part=lags").status_code == 404
    assert "in first on" in client.get(f"/ui{path}/treatment/report").text
    assert [*answer["groups"]] == ["0", "1", "2", "3", "4"]
    assert [*client.post(f"{path}/effects", json={"by": "cohort"}).json()["groups"]] == ["4", "6"]
    assert "8" in client.post(f"{path}/effects", json={"by": "period"}).json()["groups"]
    (tmp_path / "model.bart").write_bytes(client.get(f"{path}/file").content)
    rows = {"year": [4, 8, 8], "x": [0.5, 0.1, 0.2], "unit": ["u0", "u1", "u2"], "first": ["4", "6", None]}
    sent = client.post(f"{path}/effects", json={"columns": rows}).json()
    loaded = load(tmp_path / "model.bart")
    assert sent["mean"] == loaded.effects(rows).mean.tolist()
    assert abs(loaded.header.panel.correlation) < 0.2
    assert client.post(f"{path}/predict", json={"columns": rows}).status_code == 200


@only("sqlite")
def test_panels_that_cant_be_are_refused(client):
    """Units that adopt twice and adoptions without a period are named, before a fit is accepted."""
    dataset = post_csv(client, text().replace("u3,4", "u3,5", 1)).json()["id"]
    asked = {"dataset_id": dataset, "target": "y", **ROLES, **SMALL}
    refused = problem(client.post("/models", json=asked), 422)
    assert "unit u3 has two adoptions, 4 and 5" in refused["errors"][0]["detail"]
    refused = problem(client.post("/models", json=asked | {"period": None}), 422)
    assert "adoption needs the feature that is a row's period" in refused["errors"][0]["detail"]
