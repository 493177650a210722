"""POST /models/{id}/invocations: rows in MLflow's shapes give the figures of /predict."""

import pytest

from tests.support.api_calls import CSV, problem
from tests.support.databases import only
from tests.support.models.fitted_models import fitted

pytestmark = only("sqlite")

ROWS = [{"size": 3, "colour": "red"}, {"size": None, "colour": "blue"}, {"size": 7.5, "colour": "violet"}]
NAMES = ["size", "colour"]
SHAPES = {
    "dataframe_split": {"columns": NAMES, "data": [[row[name] for name in NAMES] for row in ROWS]},
    "dataframe_records": ROWS,
    "inputs": {name: [row[name] for row in ROWS] for name in NAMES},
    "instances": ROWS,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.sampled(quick=2)
def test_every_shape_gives_the_figures_of_predict(client, settings, shape):
    """An object for each row, with level, interval and quantiles as `params`."""
    fitted(client, settings, name="mine", seed=3)
    asked = {"level": 0.8, "interval": "credible", "quantiles": [0.25]}
    expected = client.post("/models/mine/predict", json={"rows": ROWS} | asked).json()
    body = {shape: SHAPES[shape], "params": asked}
    answer = client.post("/models/mine/invocations", json=body)
    assert answer.status_code == 200, answer.text
    rows = answer.json()["predictions"]
    assert [row["mean"] for row in rows] == expected["mean"]
    assert [row["lower_80"] for row in rows] == expected["intervals"][0]["lower"]
    assert [row["quantile_25"] for row in rows] == expected["quantiles"][0]["values"]
    assert {row["interval"] for row in rows} == {"credible"}
    assert "unseen" in rows[2]["flags"]


def test_a_csv_and_refusals(client, settings):
    """A file gives the same; no rows, two shapes, ragged rows and unknown parameters are refused."""
    fitted(client, settings, name="mine", seed=3)
    path = "/models/mine/invocations"
    plain = client.post(path, json={"instances": ROWS[:1]}).json()
    assert client.post(path, content="size,colour\n3,red\n", headers=CSV).json() == plain
    narrow = client.post(f"{path}?level=0.5&interval=credible", content="size,colour\n3,red\n", headers=CSV)
    params = {"level": 0.5, "interval": "credible"}
    assert narrow.json() == client.post(path, json={"instances": ROWS[:1], "params": params}).json()
    misplaced = client.post(f"{path}?level=0.5", json={"instances": ROWS[:1]})
    assert problem(misplaced, 422)["errors"][0]["column"] == "level"
    for body, column in (
        ({}, None),
        ({"instances": ROWS, "inputs": ROWS}, "inputs"),
        ({"dataframe_split": {"columns": NAMES, "data": [[1, "red"], [1]]}}, "dataframe_split"),
        ({"dataframe_split": {"columns": NAMES, "data": [[1], [1, "red"]]}}, "dataframe_split"),
        ({"dataframe_split": {"columns": NAMES, "data": [7]}}, "dataframe_split"),
        ({"dataframe_split": {"columns": ["size", "colour", "size"], "data": [[1, "red", 2]]}}, "size"),
        ({"instances": [7]}, None),
        ({"inputs": {"size": 7}}, "size"),
        ({"instances": ROWS, "params": {"levels": 0.5}}, "params.levels"),
        ({"instances": ROWS, "params": {"level": 2}}, "params.level"),
    ):
        assert problem(client.post(path, json=body), 422)["errors"][0]["column"] == column, body
    problem(client.post("/models/other/invocations", json={"instances": ROWS}), 404)
