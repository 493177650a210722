"""Drift over HTTP: what models predict for is counted by week and compared with their training rows."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from app.store import drift as store
from app.store.engine import session_scope
from sampler.host.assessment import week_of
from tests.support.api_calls import post_csv, table
from tests.support.models.fitted_models import fitted, run_units
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving


def ask(client, sizes, colours=("red", "green", "blue"), model="mine"):
    rows = [{"size": size, "colour": colours[i % len(colours)]} for i, size in enumerate(sizes)]
    response = client.post(f"/models/{model}/predict", json={"rows": rows})
    assert response.status_code == 200, response.text


def drift(client, model="mine", **query):
    response = client.get(f"/models/{model}/drift", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def cells(document, name, role="feature"):
    part = next(each for each in document["parts"] if (each["name"], each["role"]) == (name, role))
    return dict(zip(part["cells"], part["weeks"][-1], strict=True)), part


@pytest.mark.both_databases
def test_rows_are_counted_by_value(client, settings, model):
    """Each row is in one cell of each feature and of the predictions, with the unusual ones apart."""
    before = drift(client)
    assert (before["verdict"], before["weeks"], before["false_alarms"]) == ("too_few", [], 0.01)
    ask(client, [3.0, 4.0, 100.0, -5.0, None, 17.0])
    ask(client, [1.0] * 40, ["red", "violet"])  # encoded in another way than a few
    document = drift(client)
    assert document["rows"] == [46]
    sizes, of_size = cells(document, "size")
    assert (sizes["above the range"], sizes["below the range"], sizes["missing"]) == (1, 1, 1)
    assert sum(of_size["weeks"][0]) == 46
    colours, _ = cells(document, "colour")
    assert (colours["unseen level"], colours["red"]) == (20, 22)
    predicted, _ = cells(document, "y", "prediction")
    assert sum(predicted.values()) == 46
    rows = client.get(f"/datasets/{model['dataset_id']}").json()["num_rows"]
    assert {sum(part["training"]) for part in document["parts"]} == {rows}

    dataset = post_csv(client, table(50)).json()["id"]
    job = client.post("/models/mine/predictions", json={"dataset_id": dataset}).json()["id"]
    run_units(settings)
    assert client.get(f"/predictions/{job}").json()["state"] == "succeeded"
    assert drift(client)["rows"] == [96]


@pytest.mark.both_databases
def test_an_alarm_sounds_once_and_names_what_drifted(client, model, monkeypatch):
    """Weeks of rows like the training rows raise none; larger ones do, and it is told when."""
    start, clock = datetime(2026, 1, 7, tzinfo=UTC), [0]
    monkeypatch.setattr(store, "now", lambda _session: start + timedelta(weeks=clock[0]))
    rng = np.random.default_rng(1)
    for clock[0] in range(4):
        ask(client, rng.integers(0, 19, 40).astype(float).tolist())
        assert drift(client)["verdict"] in {"too_few", "resembles"}
    for clock[0] in range(4, 12):
        ask(client, [40.0] * 20)
        ask(client, [50.0] * 20)
        drift(client)  # adds what this process has predicted to the week's counts
    document = drift(client, weeks=5)
    assert (document["verdict"], len(document["weeks"])) == ("drifted", 5)
    assert document["since"] == (start + timedelta(weeks=4)).date().replace(day=2).isoformat()
    assert document["reasons"][0]["name"] == "size"
    assert document["reasons"][0]["values"] == "outside the range"
    assert "size is outside the range" in document["text"]
    assert document["alerted_at"] is not None
    events = client.get(f"/models/{model['id']}/events", headers={"Accept": "application/json"}).json()
    told = [event for event in events["items"] if event["kind"] == "rows_drifted"]
    assert len(told) == 1
    page = client.get(f"/ui/models/{model['id']}/outcomes")
    assert page.status_code == 200
    assert "no longer resembles the training rows" in page.text
    assert "<td>outside the range</td>" in page.text
    metrics = client.get("/metrics").text
    assert 'bart_drift_models{verdict="drifted"} 1.0' in metrics


def test_weeks_are_kept_for_a_year(client, database, model, monkeypatch):
    """Older counts go; and all go with the model."""
    start, clock = datetime(2026, 1, 7, tzinfo=UTC), [0]
    monkeypatch.setattr(store, "now", lambda _session: start + timedelta(weeks=clock[0]))
    for clock[0] in (0, 1, 53, 54, 80):
        ask(client, [3.0])
        client.get("/models/mine/drift")
    with session_scope(database.engine, read_only=True) as session:
        weeks = sorted(store.weeks(session, model["id"]))
    assert [each - week_of(start) for each in weeks] == [53, 54, 80]
    assert drift(client, weeks=53)["verdict"] == "too_few"
    assert client.delete(f"/models/{model['id']}").status_code == 204
    assert client.get(f"/models/{model['id']}/drift").status_code == 404


def test_nothing_is_counted_where_it_is_switched_off(settings):
    """The setting `drift_watch` leaves the counts as they are."""
    off = settings.model_copy(update={"drift_watch": False})
    with serving(off) as address, plain_http.Client(base_url=address, timeout=60) as client:
        fitted(client, settings, name="mine")
        ask(client, [3.0])
        assert drift(client)["weeks"] == []
