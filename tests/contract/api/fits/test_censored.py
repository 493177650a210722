"""Censored outcomes over HTTP: fits with events and limits, their answers, scores and files, and refusals."""

import numpy as np
import pytest

from tests.support.api_calls import of_file, post_csv, post_model
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, extended, fitted, run_units


def times(rows: int = 160) -> str:
    """Make times of which half are censored, and a column with limits of what is missing in `level`."""
    rng = np.random.default_rng(5)
    x = rng.uniform(size=rows)
    until, end = np.exp(1 + x + 0.4 * rng.normal(size=rows)), np.exp(1.5 + 0.8 * rng.normal(size=rows))
    level = x + 0.2 * rng.normal(size=rows)
    lines = [
        f"{a:.4f},{min(t, c):.4f},{int(t <= c)},{'' if v < 0.3 else f'{v:.4f}'},0.3"
        for a, t, c, v in zip(x, until, end, level, strict=True)
    ]
    return "x,time,seen,level,limit\n" + "\n".join(lines) + "\n"


def test_times_with_events_go_all_the_way(client, settings):
    """A fit of times: predictions of uncensored times, scores, pages, batch predictions, file, more draws."""
    roles = {"target": "time", "event": "seen", "features": ["x"]}
    model = fitted(client, settings, text=times(), holdout=0.3, **roles)
    assert model["settings"]["event"] == "seen"
    assert set(model["holdout"]) >= {
        "censored",
        "concordance",
        "integrated_brier",
        "d_calibration",
        "coverage",
    }
    path = f"/models/{model['id']}"
    answer = client.post(f"{path}/predict", json={"columns": {"x": [0.1, 0.9]}}).json()
    assert answer["mean"][1] > 1.4 * answer["mean"][0]
    curves = client.post(f"{path}/survival", json={"columns": {"x": [0.1, 0.9]}, "times": [1, 2, 4]}).json()
    assert curves["survival"][0][1] < curves["survival"][1][1]
    assert curves["lower"][0][1] < curves["survival"][0][1] < curves["upper"][0][1]
    assert curves["median"]["value"][0] < curves["median"]["value"][1]
    assert len(client.post(f"{path}/survival", json={"rows": [{"x": 0.1}]}).json()["times"]) == 50
    for wrong in ({"times": [2, 1]}, {"times": []}, {"level": 2}):
        refused = client.post(f"{path}/survival", json={"rows": [{"x": 0.1}]} | wrong)
        assert refused.status_code == 422, refused.text
    page = client.get(f"/ui{path}/predict?f0=0.5").text
    assert "Survival curve" in page
    assert client.get(f"/ui{path}/survival.svg?f0=0.5").text.startswith("<?xml")
    holdout = client.get(f"{path}/holdout").json()
    assert len(holdout["calibration"]) == 20
    for part in ("diagnostics", "variable-importance", "draws", "card"):
        assert client.get(f"{path}/{part}").status_code == 200
    for tab in ("", "/chains", "/effects?part=all", "/features", "/predict?f0=0.5"):
        assert client.get(f"/ui{path}{tab}").status_code == 200, tab
    batch = client.post(f"{path}/predictions", json={"dataset_id": model["dataset_id"]})
    assert batch.status_code == 202, batch.text
    run_units(settings)
    rows = client.get(batch.headers["location"] + "/result", headers={"Accept": "application/json"})
    assert rows.status_code == 200, rows.text
    data = client.get(f"{path}/file").content
    again = of_file(client, model)
    assert again.predict({"x": [0.1]}).mean[0] == pytest.approx(answer["mean"][0])
    back = post_model(client, data)
    assert back.status_code == 201, back.text
    extended(client, settings, path)
    study = client.post(f"{path}/studies", json={"kind": "selection"})
    assert study.status_code == 409
    assert "censored" in study.json()["detail"]


def test_columns_that_tell_of_events_are_no_features(client, settings):
    """Whether a row is censored, in words or the other way round, is left out with a reason, or refused."""
    head, *lines = times(60).splitlines()
    also = [f"{line},{'yes' if ',1,' in line else 'no'},{1 - int(',1,' in line)}" for line in lines]
    text = "\n".join([head + ",dead,left", *also])
    model = fitted(client, settings, text=text, target="time", event="seen")
    for name in ("dead", "left"):
        reason = f"{name} is left out: its values are those of the events (seen), or follow from them"
        assert reason in model["warnings"]
    assert {"dead", "left"}.isdisjoint(model["settings"]["features"])
    body = {"dataset_id": model["dataset_id"], "target": "time", "event": "seen", "features": ["x", "left"]}
    refused = client.post("/models", json=body | SMALL)
    assert (refused.status_code, refused.json()["errors"][0]["column"]) == (422, "left")


def test_limits_go_with_missing_targets(client, settings):
    """Numbers below a detection limit: rows without a target are learnt from, not refused."""
    model = fitted(
        client,
        settings,
        text=times(),
        target="level",
        upper="limit",
        features=["x"],
        missing_target="leave_out",
        name="mine",
    )
    assert (model["name"], model["warnings"]) == ("mine", [])
    path = f"/models/{model['id']}"
    answer = client.post(f"{path}/predict", json={"columns": {"x": [0.05, 0.95]}}).json()
    assert answer["mean"][0] < 0.25 < 0.8 < answer["mean"][1]


@only("sqlite")
def test_what_cannot_be_censored_is_refused_before_the_202(client):
    """Events that are none and doubled roles, each by name."""
    dataset = post_csv(client, times()).json()
    body = {"dataset_id": dataset["id"], "target": "time", "event": "seen"} | SMALL
    for field, more in (
        ("x", {"event": "x"}),
        ("time", {"event": "time"}),
        ("nowhere", {"event": "nowhere"}),
        ("level", {"target": "level"}),
        ("has another role", {"features": ["seen"]}),
    ):
        answer = client.post("/models", json=body | more)
        assert answer.status_code == 422, (field, answer.text)
        assert field in str(answer.json()["errors"]), answer.json()
    dataset = post_csv(client, times().replace(",0.3\n", ",-0.3\n")).json()
    body = {"dataset_id": dataset["id"], "target": "level", "upper": "limit", "transform": "log"} | SMALL
    answer = client.post("/models", json=body)
    assert "must be positive" in answer.json()["detail"], answer.text
