"""Calibrated intervals over HTTP: by held-out rows and by folds, at once and in batches; refusals."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sampler import holdout_rows
from tests.support.api_calls import of_file, post_csv, post_model, problem, table
from tests.support.models.fitted_models import SMALL, fitted, run_units

ROWS = {"rows": [{"size": 3, "colour": "red"}, {"size": 12, "colour": "blue"}], "interval": "calibrated"}


@pytest.fixture
def model(client, settings) -> dict:
    return fitted(client, settings, name="mine", holdout=0.5, calibrate="holdout", seed=3)


def test_held_out_rows_calibrate(client, settings, model):
    """The library's own intervals with their claims, also in the model file; an extension ends them."""
    calibration = model["calibration"]
    assert (calibration["kind"], calibration["rows"], calibration["draws"]) == ("holdout", 30, 40)
    assert [claim["level"] for claim in calibration["claims"]] == [0.5, 0.8, 0.9, 0.95]
    assert model["settings"]["calibrate"] == "holdout"
    answer = client.post("/models/mine/predict", json=ROWS | {"level": [0.5, 0.9]}).json()
    assert answer["interval"] == "calibrated"
    assert answer["claims"] == [calibration["claims"][0], calibration["claims"][2]]
    assert "30 rows held out from the fit, at least 0.9" in answer["claims"][1]["text"]

    downloaded = of_file(client, model)
    expected = downloaded.predict(ROWS["rows"], level=[0.5, 0.9], interval="calibrated")
    for interval, own in zip(answer["intervals"], expected.intervals, strict=True):
        assert (interval["lower"], interval["upper"]) == (own.lower.tolist(), own.upper.tolist())
    lines = [line.split(",") for line in table(60).splitlines()[1:]]
    held_out = [lines[row] for row in holdout_rows(60, 0.5, 3)]
    X = {"size": [float(line[1]) for line in held_out], "colour": [line[2] for line in held_out]}
    again = downloaded.calibrate(X, [float(line[0]) for line in held_out])
    assert again.conformal_table.checksum == calibration["checksum"]
    imported = post_model(client, downloaded.to_bytes())
    assert imported.json()["calibration"] == calibration

    assert client.post("/models/mine/extend", json={"num_draws": 10}).status_code == 202
    assert client.get("/models/mine").json()["calibration"] is None
    assert "interval" in problem(client.post("/models/mine/predict", json=ROWS), 422)["errors"][0]["detail"]
    run_units(settings)
    more = client.get("/models/mine").json()["calibration"]
    assert more["draws"] == 50
    assert more["checksum"] != calibration["checksum"]
    assert client.post("/models/mine/predict", json=ROWS).json()["draws"] == 50


def test_tables_and_batches_have_the_same_intervals(client, settings, model):
    """Tables have claims in a header; a level beyond the rows' reach is refused by name."""
    answer = client.post("/models/mine/predict", json=ROWS).json()
    as_csv = client.post("/models/mine/predict", json=ROWS, headers={"Accept": "text/csv"})
    head = as_csv.text.splitlines()[0]
    assert head.replace('"', "") == "mean,sd,lower_90,upper_90,flags,interval"
    assert as_csv.headers["bartserve-claims"] == answer["claims"][0]["text"]
    dataset = post_csv(client, "size,colour\n3,red\n12,blue\n").json()["id"]
    response = client.post("/models/mine/predictions", json={"dataset_id": dataset, "interval": "calibrated"})
    assert response.status_code == 202, response.text
    run_units(settings)
    result = client.get(f"/predictions/{response.json()['id']}/result").json()
    for name in ("mean", "intervals", "claims", "interval"):
        assert result[name] == answer[name]
    for body, field in (
        ({"level": 0.99}, "level"),
        ({"quantiles": [0.1]}, "quantiles"),
        ({"mcse": True}, "mcse"),
        ({"draws": 5}, "draws"),
    ):
        refused = problem(client.post("/models/mine/predict", json=ROWS | body), 422)
        assert refused["errors"][0]["column"] == field
        if field != "draws":
            path, more = "/models/mine/predictions", {"dataset_id": dataset, "interval": "calibrated"} | body
            assert problem(client.post(path, json=more), 422)["errors"][0]["column"] == field
    far = client.post("/models/mine/predict", json=ROWS | {"level": 0.99})
    assert "takes at least 99 calibration rows, and there are 30" in far.text


def test_classes_have_sets(client, settings):
    """Prediction sets of three classes by folds, in a study that starts with the end of the fit."""
    model = fitted(client, settings, name="mine", target="colour", family="categorical", calibrate="folds")
    assert model["calibration"]["kind"] == "folds"
    assert model["calibration"]["rows"] == 60
    (study,) = client.get("/studies").json()["items"]
    assert (study["kind"], study["state"], study["progress"]["fits"]) == ("calibration", "succeeded", 10)
    rows = {"rows": [{"y": 2, "size": 3, "note": None}, {"y": 9, "size": 12, "note": None}]}
    answer = client.post("/models/mine/predict", json=ROWS | rows).json()
    (sets,) = answer["sets"]
    assert (sets["level"], len(sets["classes"])) == (0.9, 2)
    assert all(row and {*row} <= {*answer["classes"]} for row in sets["classes"])
    assert answer["intervals"] == []
    assert answer["claims"][0]["at_least"] is None
    assert "No guarantee" in answer["claims"][0]["text"]
    dataset = post_csv(client, "y,size,note\n2,3,\n9,12,\n").json()["id"]
    response = client.post("/models/mine/predictions", json={"dataset_id": dataset, "interval": "calibrated"})
    run_units(settings)
    path = f"/predictions/{response.json()['id']}/result"
    result = client.get(path).json()
    assert (result["sets"], result["claims"]) == (answer["sets"], answer["claims"])
    parquet = pq.read_table(
        io.BytesIO(client.get(path, headers={"Accept": "application/vnd.apache.parquet"}).content)
    )
    assert parquet.schema.field("set_90_red").type == pa.bool_()
    assert json.loads(parquet.schema.metadata[b"bartserve"])["claims"] == answer["claims"]


def test_a_model_is_calibrated_afterwards(client, settings):
    """By a study; a model without a calibration refuses by name, and an unknown way or too few rows too."""
    model = fitted(client, settings, name="mine", seed=1)
    assert problem(client.post("/models/mine/predict", json=ROWS), 422)["errors"][0]["column"] == "interval"
    started = client.post("/models/mine/studies", json={"kind": "calibration"})
    assert started.status_code == 202, started.text
    assert run_units(settings) == 5
    assert client.get("/models/mine").json()["calibration"]["kind"] == "folds"
    assert len(client.post("/models/mine/predict", json=ROWS).json()["intervals"]) == 1
    body = {"dataset_id": model["dataset_id"], "target": "y", **SMALL}
    for more, message in (
        ({"calibrate": "holdout"}, "at least 9 held-out rows for 90% intervals, and 0 are held out"),
        ({"calibrate": "holdout", "holdout": 0.1}, "and 6 are held out"),
        ({"calibrate": "fold"}, "'none', 'holdout' or 'folds'"),
    ):
        refused = problem(client.post("/models", json=body | more), 422)
        assert refused["errors"][0]["column"] == "calibrate"
        assert message in refused["errors"][0]["detail"]
    plain, folds = (
        client.post("/models/estimate", json=body | {"calibrate": how}).json() for how in ("none", "folds")
    )
    assert folds["seconds"] > 2 * plain["seconds"]
