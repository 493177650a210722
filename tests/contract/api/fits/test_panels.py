"""Panels over HTTP: a fit by adoptions and periods, effects by lag, cohort and period, files and refusals."""

import numpy as np

from sampler import fit
from tests.support.api_calls import of_file, post_csv, problem
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, fitted, run_units
from tests.support.panels import panel


def text(units: int = 30) -> str:
    """Write a panel as a file; units that never adopt have no adoption."""
    table, y, _ = panel(0, units=units)
    first = ["" if np.isnan(each) else f"{each:g}" for each in table["first"]]
    lines = zip(table["year"], table["x"], table["unit"], first, y, strict=True)
    return "year,x,unit,first,y\n" + "".join(f"{a:g},{b:.4f},{c},{d},{e:.4f}\n" for a, b, c, d, e in lines)


ROLES = {"adoption": "first", "period": "year", "groups": ["unit"]}


@only("sqlite")
def test_a_panel_goes_all_the_way(client, settings):
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
    rows = {"year": [4, 8, 8], "x": [0.5, 0.1, 0.2], "unit": ["u0", "u1", "u2"], "first": ["4", "6", None]}
    sent = client.post(f"{path}/effects", json={"columns": rows}).json()
    loaded = of_file(client, model)
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


@only("sqlite")
def test_a_placebo_in_time_is_a_study(client, settings):
    """A fit to the rows before the adoption finds what the library does, on the page and in its chart too."""
    model = fitted(client, settings, text=text(), **ROLES)
    path, page = f"/models/{model['id']}", f"/ui/models/{model['id']}"
    assert f"{page}/placebo" in client.get(f"{page}/treatment").text
    asked = {"kind": "placebo", "level": 0.8}
    started = client.post(f"{path}/studies", json=asked).json()
    assert (started["kind"], started["placebo"]) == ("placebo", None)
    assert started["request"] == {"seed": 0, "periods_earlier": 2, "level": 0.8}
    assert run_units(settings) == 1
    found = client.get(f"/studies/{started['id']}").json()["placebo"]
    table, y, _ = panel(0, units=30)
    rows = {name: table[name] for name in ("year", "x", "unit", "first")} | {"x": np.round(table["x"], 4)}
    own = fit(rows, np.round(y, 4), progress=False, **SMALL, **ROLES)
    leads = own.placebo(periods_earlier=2, level=0.8)
    assert found["average"]["mean"] == leads.average.mean
    assert {name: each["lower"] for name, each in found["groups"].items()} == {
        name: each.lower for name, each in leads.groups.items()
    }
    shown = client.get(f"{page}/treatment").text
    assert "Had units adopted 2 periods earlier" in shown
    assert f"leads={started['id']}" in shown
    assert "-2" in client.get(f"{page}/treatment.svg?by=lag&part=lags&leads={started['id']}").text
    assert client.get(f"{page}/treatment.svg?by=lag&part=lags&leads=std_none").status_code == 404
    assert "A placebo" in client.get(f"/ui/studies/{started['id']}").text
    late = client.post(f"{path}/studies", json=asked | {"periods_earlier": 5}).json()["id"]
    run_units(settings)
    ended = client.get(f"/studies/{late}").json()
    assert (ended["state"], ended["placebo"]) == ("failed", None)
    assert "no cohort has more than 5 untreated periods" in ended["error"]["detail"]
    assert "The placebo failed" in client.get(f"{page}/treatment").text


@only("sqlite")
def test_placebos_of_models_without_panels(client, settings):
    """Treatments are drawn by chance; periods and models without a treatment are refused."""
    plain = fitted(client, settings)
    refused = problem(client.post(f"/models/{plain['id']}/studies", json={"kind": "placebo"}), 409)
    assert "no treatment" in refused["detail"]
    lines = [f"{k % 7},{k // 7 % 2},{k % 7 + 3 * (k // 7 % 2) + k % 3}" for k in range(98)]
    rows = "x,z,y\n" + "\n".join(lines) + "\n"
    model = fitted(client, settings, text=rows, treatment="z")
    asked = {"kind": "placebo", "periods_earlier": 1}
    refused = problem(client.post(f"/models/{model['id']}/studies", json=asked), 422)
    assert "periods_earlier is of panels" in refused["errors"][0]["detail"]
    study = client.post(f"/models/{model['id']}/studies", json={"kind": "placebo", "seed": 3}).json()["id"]
    assert run_units(settings) == 1
    found = client.get(f"/studies/{study}").json()["placebo"]
    assert (found["groups"], found["average"]["rows"]) == ({}, 98)
    assert "Treatments drawn by chance" in client.get(f"/ui/models/{model['id']}/treatment").text
