"""Targets of counts: expected counts, intervals of counts, exposures, and what is refused."""

import numpy as np
import pytest

from tests.support.api_calls import of_file, post_csv, post_model
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, extended, fitted, run_units


def visits(rows: int = 150) -> str:
    """Make counts of a rate that grows with x, over days that differ."""
    rng = np.random.default_rng(5)
    x, days = rng.uniform(size=rows), rng.integers(1, 5, rows)
    y = rng.poisson(days * np.exp(1.5 * x) * rng.gamma(3, 1 / 3, rows))
    return "x,days,y\n" + "".join(f"{a:.4f},{b},{c}\n" for a, b, c in zip(x, days, y, strict=True))


@pytest.mark.parametrize("family", ["negative-binomial", "zero-inflated-poisson"])
def test_counts_with_exposure_go_all_the_way(client, settings, family):
    """A fit of counts: answers by exposure, scores, pages, batch predictions, file, more draws."""
    model = fitted(client, settings, text=visits(), family=family, exposure="days", holdout=0.3)
    assert model["settings"]["exposure"] == "days"
    assert set(model["holdout"]) >= {"deviance", "zeros", "log_score", "rmse", "linear_rmse"}
    path = f"/models/{model['id']}"
    body = {"columns": {"x": [0.5, 0.5], "days": [1, 4]}, "level": 0.9, "mcse": True, "rhat": True}
    answer = client.post(f"{path}/predict", json=body).json()
    assert answer["mean"][1] == pytest.approx(4 * answer["mean"][0])
    assert answer["warnings"] == []  # the exposures are used
    (interval,) = answer["intervals"]
    assert interval["upper"] == [round(value) for value in interval["upper"]]
    assert interval["upper"][1] > interval["upper"][0]
    credible = client.post(f"{path}/predict", json=body | {"interval": "credible"}).json()
    assert credible["intervals"][0]["upper"][0] < interval["upper"][0]
    without = client.post(f"{path}/predict", json={"columns": {"x": [0.5]}}).json()
    assert without["mean"][0] == pytest.approx(answer["mean"][0])
    assert any("exposure of 1" in warning for warning in without["warnings"])
    as_csv = {"Content-Type": "text/csv", "Accept": "text/csv"}
    csv = client.post(f"{path}/predict", content="x,days\n0.5,4\n", headers=as_csv)
    assert csv.status_code == 200, csv.text
    assert float(csv.text.splitlines()[1].split(",")[0]) == pytest.approx(answer["mean"][1])
    missing = client.post(f"{path}/predict", json={"columns": {"x": [0.5], "days": [0]}})
    assert missing.status_code == 422
    assert "positive" in str(missing.json()["errors"])
    holdout = client.get(f"{path}/holdout").json()
    assert len(holdout["calibration"]) == 20
    for part in ("diagnostics", "variable-importance", "draws", "card"):
        assert client.get(f"{path}/{part}").status_code == 200
    for tab in ("", "/chains", "/effects?part=all", "/features", "/predict?f0=0.5&f1=2"):
        assert client.get(f"/ui{path}{tab}").status_code == 200, tab
    assert client.get(f"/ui{path}/density.svg?f0=0.5&f1=2").status_code == 200
    batch = client.post(f"{path}/predictions", json={"dataset_id": model["dataset_id"]})
    assert batch.status_code == 202, batch.text
    assert batch.json()["warnings"] == ["not used by the model: y"]
    bare = {"dataset_id": post_csv(client, "x,y\n0.5,2\n").json()["id"]}
    assert client.post(f"{path}/predictions", json=bare).json()["warnings"][1:] == without["warnings"]
    run_units(settings)
    rows = client.get(batch.headers["location"] + "/result", headers={"Accept": "application/json"})
    assert rows.status_code == 200, rows.text
    data = client.get(f"{path}/file").content
    assert of_file(client, model).predict({"x": [0.5], "days": [4]}).mean[0] == pytest.approx(
        answer["mean"][1]
    )
    back = post_model(client, data)
    assert back.status_code == 201, back.text
    extended(client, settings, path)


@only("sqlite")
def test_what_counts_cannot_use_is_refused_before_the_202(client):
    """Fractions and exposures of 0, each by name."""
    dataset = post_csv(client, visits().replace(",1,", ",0,", 1)).json()
    body = {"dataset_id": dataset["id"], "target": "y", "family": "poisson"} | SMALL
    for field, more in (("x", {"target": "x"}), ("days", {"exposure": "days"})):
        answer = client.post("/models", json=body | more)
        assert answer.status_code == 422, (field, answer.text)
        assert field in str(answer.json()["errors"]), answer.json()
