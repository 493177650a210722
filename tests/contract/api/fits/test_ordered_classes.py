"""Ordered classes over HTTP: order, scores, calibration, sets, pages, files, extension, studies, refusals."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.datastructures import FormData

from app.dashboard.forms.fit_form import body_of
from tests.support.api_calls import of_file, post_csv
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, extended, finished, fitted, run_units

GRADES = ["poor", "fair", "good", "top"]


def grades(num_rows: int = 160) -> str:
    """Make a table of grades that follow x."""
    rng = np.random.default_rng(8)
    x, z = rng.uniform(size=num_rows), rng.uniform(size=num_rows)
    y = np.clip(np.floor(4 * x + 0.4 * rng.normal(size=num_rows)), 0, 3).astype(int)
    return "x,z,y,n\n" + "".join(
        f"{a:.4f},{b:.4f},{GRADES[k]},{k}\n" for a, b, k in zip(x, z, y, strict=True)
    )


@pytest.fixture
def model(client, settings):
    """Return a fitted model with calibrated sets."""
    body = {"family": "ordinal", "levels": GRADES, "features": ["x", "z"], "holdout": 0.3}
    return fitted(client, settings, text=grades(), calibrate="holdout", **body)


@only("sqlite")
def test_a_model_of_ordered_classes_goes_all_the_way(client, settings, model):
    """Answers in order, scores by rank, calibration by threshold, pages, file, and more draws."""
    assert model["settings"]["levels"] == GRADES
    held = model["holdout"]
    assert held["rps"] < held["base_rps"]
    path = f"/models/{model['id']}"
    rows = {"columns": {"x": [0.1, 0.95], "z": [0.5, 0.5]}}
    answer = client.post(f"{path}/predict", json=rows | {"level": 0.8, "mcse": True, "rhat": True}).json()
    assert answer["classes"] == GRADES
    mean = np.array(answer["mean"])
    np.testing.assert_allclose(mean.sum(axis=1), 1)
    assert mean[0, 0] > mean[1, 0]
    sets = client.post(f"{path}/predict", json=rows | {"interval": "calibrated", "level": 0.8}).json()
    for named in sets["sets"][0]["classes"]:
        places = [GRADES.index(name) for name in named]
        assert places == list(range(places[0], places[-1] + 1))
    calibration = client.get(f"{path}/holdout").json()["calibration"]
    assert {entry["up_to"] for entry in calibration} == {*GRADES[:3]}
    for chart in ("calibration.svg", "held-out.svg"):
        assert client.get(f"/ui{path}/charts/{chart}").status_code == 200
    for tab in ("", "/chains", "/effects?part=all", "/features", "/predict", "/what-if"):
        assert client.get(f"/ui{path}{tab}").status_code == 200, tab
    for part in ("diagnostics", "variable-importance", "draws", "card"):
        assert client.get(f"{path}/{part}").status_code == 200, part
    for part, body in (
        ("partial-dependence", {"features": ["x"]}),
        ("shap", {"rows": [{"x": 0.3, "z": 0.2}]}),
        ("contrast", {"first": {"x": 0.2}, "second": {"x": 0.9}}),
        ("aggregate", {"rows": [{"x": 0.3, "z": 0.2}]}),
        ("accumulated-effects", {"feature": "x"}),
    ):
        reply = client.post(f"{path}/{part}", json=body)
        assert reply.status_code == 200, (part, reply.text)
    own = of_file(client, model).predict({name: [*rows["columns"][name]] for name in ("x", "z")})
    assert own.mean.tolist() == answer["mean"]
    np.testing.assert_allclose(own.cumulative[:, -1], 1)
    longer = extended(client, settings, path)
    assert (longer["state"], longer["draws"]) == ("succeeded", 50)


@only("sqlite")
@pytest.mark.slow
def test_studies_and_background_predictions_know_the_order(client, settings, model):
    """Tuning, selection and a stored dataset's predictions run as for any classes."""
    dataset = post_csv(client, "x,z\n0.1,0.5\n0.95,0.5\n").json()
    path = f"/models/{model['id']}"
    prediction = client.post(f"{path}/predictions", json={"dataset_id": dataset["id"], "level": 0.8}).json()
    brief = {"num_trees": 5, "num_chains": 1, "num_burnin": 20, "num_draws": 10, "thin": 1}
    tuning = client.post(f"{path}/studies", json={"kind": "tuning", "candidates": [brief], "folds": 2})
    assert tuning.status_code == 202, tuning.text
    selection = client.post(f"{path}/studies", json={"kind": "selection", "permutations": 20})
    assert selection.status_code == 202, selection.text
    run_units(settings)
    for study in (tuning, selection):
        done = client.get(f"/studies/{study.json()['id']}").json()
        assert done["state"] == "succeeded", done["error"]
    stored = client.get(f"/predictions/{prediction['id']}/result").json()
    direct = client.post(
        f"{path}/predict", json={"columns": {"x": [0.1, 0.95], "z": [0.5, 0.5]}, "level": 0.8}
    ).json()
    assert stored["mean"] == direct["mean"]


def test_numbers_have_their_order_and_stop_rules_hold(client, settings):
    """Ratings as numbers need no levels; a fit without lengths stops by its rules; costs are estimated."""
    dataset = post_csv(client, grades()).json()
    body = {"dataset_id": dataset["id"], "target": "n", "family": "ordinal", "features": ["x"]}
    estimate = client.post("/models/estimate", json=body)
    assert estimate.status_code == 200, estimate.text
    assert estimate.json()["seconds"] > 0
    stop = {"num_draws": 20, "num_chains": 2, "stop": {"max_rhat": 5.0, "max_draws": 40}}
    reply = client.post("/models", json=body | SMALL | stop)
    model = finished(client, settings, reply)
    assert client.post(f"/models/{model['id']}/predict", json={"rows": [{"x": 0.4}]}).json()["classes"] == [
        "0", "1", "2", "3",
    ]  # fmt: skip


def test_classes_without_an_order_are_refused_before_the_202(client):
    """Text without an order, and classes that are not among levels, are refused by name."""
    dataset = post_csv(client, grades()).json()
    body = {"dataset_id": dataset["id"], "target": "y", "family": "ordinal"} | SMALL
    for more, words in (({}, "no order of their own"), ({"levels": GRADES[1:]}, "not among levels")):
        answer = client.post("/models", json=body | more)
        assert answer.status_code == 422, (more, answer.text)
        assert words in answer.text, (more, answer.text)


def test_the_form_takes_levels_in_order():
    """They are typed in one field, from the lowest to the highest."""
    fields = [("target", "y"), ("features", "x"), ("family", "ordinal"), ("levels", "poor, fair,good , top")]
    assert body_of(FormData(fields))["levels"] == GRADES


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_an_ordered_dictionary_brings_its_order(client, settings, kind):
    """The classes of pandas' ordered Categorical are learnt in order without levels, also in a refit."""
    frame = pd.read_csv(io.StringIO(grades()))
    frame["y"] = pd.Categorical(frame["y"], [*GRADES, "never seen"], ordered=True)
    frame["z"] = pd.Categorical(np.where(frame["z"] > 0.5, "a", "b"))
    out, table = io.BytesIO(), pa.Table.from_pandas(frame, preserve_index=False)
    if kind == "parquet":
        pq.write_table(table, out, row_group_size=50)
    else:
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=50)
    media = "application/vnd.apache.parquet" if kind == "parquet" else "application/vnd.apache.arrow.stream"
    dataset = client.post("/datasets", content=out.getvalue(), headers={"content-type": media}).json()
    columns = {column["name"]: column for column in dataset["columns"]}
    assert columns["y"]["order"] == [*GRADES, "never seen"]
    assert columns["y"]["levels"] == sorted(GRADES)
    assert columns["z"]["order"] == columns["x"]["order"] == []
    body = {"dataset_id": dataset["id"], "target": "y", "features": ["x", "z"], "family": "auto"} | SMALL
    reply = client.post("/models", json=body)
    assert reply.status_code == 202, reply.text
    assert "has an order from 'poor' to 'never seen'" in reply.json()["warnings"][0]
    run_units(settings)
    model = client.get(reply.headers["location"]).json()
    assert model["state"] == "succeeded", model["error"]
    assert (model["settings"]["family"], model["settings"]["levels"]) == ("ordinal", columns["y"]["order"])
    row = {"rows": [{"x": 0.4, "z": "a"}]}
    assert client.post(f"/models/{model['id']}/predict", json=row).json()["classes"] == GRADES
    for more, family, levels in (
        ({"family": "ordinal"}, "ordinal", columns["y"]["order"]),
        ({"family": "ordinal", "levels": GRADES[::-1]}, "ordinal", GRADES[::-1]),
        ({"family": "categorical"}, "categorical", None),
    ):
        known = client.post("/models/estimate", json=body | more).json()["settings"]
        assert (known["family"], known.get("levels")) == (family, levels), known


def test_an_amended_column_keeps_its_order(client):
    """A class that is declared to mean missing leaves the order; the others stay as they were ordered."""
    frame = pd.read_csv(io.StringIO(grades()))
    frame["y"] = pd.Categorical(frame["y"], [*GRADES, "never seen"], ordered=True)
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), out)
    media = "application/vnd.apache.parquet"
    dataset = client.post("/datasets", content=out.getvalue(), headers={"content-type": media}).json()
    change = {"columns": {"y": {"missing": [GRADES[1]]}}}

    amended = client.post(f"/datasets/{dataset['id']}/amend", json=change)

    assert amended.status_code == 201, amended.text
    (y,) = [column for column in amended.json()["columns"] if column["name"] == "y"]
    left = [GRADES[0], *GRADES[2:]]
    assert (y["levels"], y["order"], y["missing"] > 0) == (sorted(left), [*left, "never seen"], True)
