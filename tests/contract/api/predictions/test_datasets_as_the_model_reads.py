"""Stored datasets that a model reads: by its kinds and its file, from the text that their own file had."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import update

from app.store.engine import session_scope
from app.store.tables import Dataset
from tests.support.api_calls import places, post_csv, problem
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, run_units

pytestmark = only("sqlite")
CSV, PARQUET = "text/csv", "application/vnd.apache.parquet"
LEVELS = {
    "ward": ["003", "3", "B"],
    "grade": ["1.0", "1.50", "none given"],
    "left": ["Yes", "FALSE", "?"],
    "since": ["01.02.2024", "2024-02-01", "never"],
}


def text_of(rows=60):
    lines = [";".join([*LEVELS, "dose", "y"])]
    for i in range(rows):
        cells = [levels[(i // 3**j) % 3] for j, levels in enumerate(LEVELS.values())]
        y = sum(10**j * ((i // 3**j) % 3) for j in range(4)) + (3000 if i % 10 > 4 else 0)
        dose = "k.A." if i == 7 else f"{1 + i % 10}.000,5"
        lines.append(";".join([*cells, dose, f"{y},5"]))
    return "\n".join(lines) + "\n"


@pytest.fixture
def model(client, settings):
    """Fit a model to codes, and a German number, of which other files look like other kinds."""
    dataset = post_csv(client, text_of(81), missing="k.A.").json()
    assert [c["kind"] for c in dataset["columns"]] == ["category"] * 4 + ["number"] * 2, dataset["columns"]
    response = client.post(
        "/models",
        json={"dataset_id": dataset["id"], "target": "y", "name": "codes", "transform": "none"} | SMALL,
    )
    assert response.status_code == 202, response.text
    run_units(settings)
    return client.get(response.headers["location"]).json()


def predicted(client, settings, dataset, **more):
    """Predict a dataset in the background; return the prediction as it ended."""
    response = client.post("/models/codes/predictions", json={"dataset_id": dataset["id"]} | more)
    assert response.status_code == 202, response.text
    run_units(settings)
    return client.get(response.headers["location"]).json()


def result(client, prediction, accept="application/json"):
    return client.get(f"/predictions/{prediction['id']}/result", headers={"Accept": accept})


HEAD = ";".join([*LEVELS, "dose"])
FILES = {
    "codes alone": f"{HEAD}\n003;1.50;Yes;01.02.2024;1.000,5\n3;1.0;Yes;01.02.2024;2.000,5\n",
    "doubtful thousands": f"{HEAD}\n3;1.0;FALSE;01.02.2024;1.000\n003;1.50;FALSE;01.02.2024;9.000\n",
    "a spelling of missing": f"{HEAD}\nB;none given;?;never;k.A.\n3;1.50;Yes;2024-02-01;2\n",
    "a usual spelling that is a level": f"{HEAD}\nB;1.0;?;never;5\nB;1.50;?;never;\n",
    "unseen and missing": f"{HEAD}\n0003;1.500;yes;;5\nNA;1;true;01.02.2024;5\n",
}


def test_a_text_means_the_same_in_every_format(client, model):
    """JSON, CSV and Parquet read a level, a missing value or a number from a text by one rule."""
    meant = {"003": "003", "3.00": "3", " B": "B", "k.A.": None, "": None, "b": "b", "NA": "NA"}
    rest = {"grade": "1.0", "left": "Yes", "since": "never", "dose": 2_000.5}
    rows = [rest | {"ward": level} for level in meant.values()]
    expected = client.post("/models/codes/predict", json={"rows": rows}).json()
    assert [len(row) for row in expected["flags"]] == [0, 0, 0, 1, 1, 1, 1]
    assert expected["flags"][3] == expected["flags"][4] != expected["flags"][5] == expected["flags"][6]
    sent = [rest | {"ward": text} for text in meant]
    texts = "\n".join(f"{text};1.0 ;yes;never;2000,5" for text in meant)
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row | {"left": "Yes "} for row in sent]), sink)
    answers = [
        client.post("/models/codes/predict", json={"rows": [row | {"grade": "1.0 "} for row in sent]}),
        client.post("/models/codes/predict", content=sink.getvalue(), headers={"Content-Type": PARQUET}),
        client.post(
            "/models/codes/predict",
            content=f"{HEAD}\n{texts}".replace("yes", "Yes"),
            headers={"Content-Type": CSV},
        ),
    ]
    for answer in answers:
        assert answer.status_code == 200, answer.text
        document = answer.json()
        assert (document["mean"], document["flags"]) == (expected["mean"], expected["flags"])
    for path, field in (("shap", "values"), ("contrast", "mean"), ("accumulated-effects", "mean")):
        given = {"feature": "dose"} if "accumulated" in path else {}
        given = given or ({} if path == "shap" else {"first": {"dose": 1.0}, "second": {"dose": 9_000.5}})
        both = [client.post(f"/models/codes/{path}", json=given | {"rows": each}) for each in (sent, rows)]
        assert both[0].json()[field] == both[1].json()[field], both[0].text


@pytest.mark.parametrize("name", FILES)
@pytest.mark.sampled(quick=2)
def test_a_dataset_answers_as_its_file_would(client, settings, model, name):
    """A background prediction gives the figures and flags of `predict` for the same file."""
    direct = client.post("/models/codes/predict", content=FILES[name], headers={"Content-Type": CSV})
    assert direct.status_code == 200, direct.text
    prediction = predicted(client, settings, post_csv(client, FILES[name]).json())
    assert prediction["state"] == "succeeded", prediction["error"]
    document = result(client, prediction).json()
    assert (document["mean"], document["flags"]) == (direct.json()["mean"], direct.json()["flags"])


def test_cells_that_the_model_cannot_read_fail_with_their_place(client, settings, model):
    """A cell that is no number in the model's file is named with its row and what to do."""
    dataset = post_csv(
        client, f"{HEAD}\n3;1.0;?;never;5\n3;1.0;?;never;about 2.5\n3;1.0;?;never;2.5.1\n"
    ).json()
    prediction = predicted(client, settings, dataset)
    assert prediction["state"] == "failed"
    assert "column 'dose', row 2: the text 'about 2.5' is not a number" in prediction["error"]["detail"]


def test_a_dataset_without_its_text_is_refused(client, database, model):
    """Text that decides and was not kept is asked for; a dataset of the same kinds answers."""
    dataset = post_csv(client, FILES["codes alone"]).json()
    with session_scope(database.engine) as session:
        session.execute(update(Dataset).values(spellings=None))
    body = problem(client.post("/models/codes/predictions", json={"dataset_id": dataset["id"]}), 422)
    assert places(body) == [("grade", None), ("since", None)]
    assert "upload the file again" in body["errors"][0]["detail"]
    response = client.post("/models/codes/predictions", json={"dataset_id": model["dataset_id"]})
    assert response.status_code == 202, response.text


def test_kept_columns_are_exact(client, settings, model):
    """Ids come back as they were: leading zeros, more digits than a float has, days, decimals as written."""
    ids = (
        ["007", "008"],
        ["9007199254740993", "12345678901234"],
        ["13.04.2025", "14.04.2025"],
        ["2,50", "1.000,5"],
    )
    head = "a;b;c;d;" + HEAD
    lines = [";".join([*cells, "3;1.0;Yes;never;5"]) for cells in zip(*ids, strict=True)]
    dataset = post_csv(client, "\n".join([head, *lines]) + "\n").json()
    assert [c["kind"] for c in dataset["columns"]][:4] == ["category", "number", "date", "number"]
    prediction = predicted(client, settings, dataset, keep=["a", "b", "c", "d"])
    rows = [line.split(",") for line in result(client, prediction, CSV).text.replace('"', "").splitlines()]
    assert rows[1][:4] == ["007", "9007199254740993", "13.04.2025", "2.5"]
    assert rows[2][:3] == ["008", "12345678901234", "14.04.2025"]
    table = pq.read_table(io.BytesIO(result(client, prediction, PARQUET).content))
    assert table.column("a").to_pylist() == ["007", "008"]
    assert table.column("b").to_pylist() == [9007199254740993, 12345678901234]
    assert table.column("d").to_pylist() == [2.5, 1000.5]
    # Outcomes find their rows by these ids, and have the features as the model reads them.
    text = "a,y\n008,10.5\n007,9.5\n"
    query = {"prediction_id": prediction["id"], "key": "a", "decimal": "point"}
    headers = {"Content-Type": CSV}
    report = client.post("/models/codes/outcomes", content=text, headers=headers, params=query)
    assert report.status_code == 201, report.text
    query = {"prediction_id": prediction["id"], "key": "a", "repeated": "replace"}
    by_value = client.post("/models/codes/outcomes", json={"rows": [{"a": "007", "y": 9.5}]} | query)
    assert by_value.status_code == 201, by_value.text


def test_an_amended_column_has_the_text_of_the_file(client, settings, model):
    """A number that becomes a category keeps its zeros; other columns keep their text for later."""
    dataset = post_csv(client, FILES["codes alone"]).json()
    change = {"columns": {"grade": {"kind": "category"}}}
    amended = client.post(f"/datasets/{dataset['id']}/amend", json=change).json()
    assert next(c["levels"] for c in amended["columns"] if c["name"] == "grade") == ["1.0", "1.50"]
    before, after = (predicted(client, settings, each) for each in (dataset, amended))
    assert result(client, before).json()["mean"] == result(client, after).json()["mean"]
    back = {"columns": {"grade": {"kind": "number"}}}
    again = client.post(f"/datasets/{amended['id']}/amend", json=back).json()
    assert [c["kind"] for c in again["columns"]] == [c["kind"] for c in dataset["columns"]]
    assert [c["max"] for c in again["columns"]] == [c["max"] for c in dataset["columns"]]
    truths = post_csv(client, "a,b\ntrue,1\nfalse,2\n").json()
    numbers = client.post(
        f"/datasets/{truths['id']}/amend", json={"columns": {"a": {"kind": "number"}}}
    ).json()
    assert [c["kind"] for c in numbers["columns"]] == ["number", "number"]


def test_an_amendment_takes_what_the_file_does_not_show(client):
    """An order of dates, or a decimal sign, is given where no column has it; else it is that of the file."""
    text = 'a,b,y\n01/02/2025,"1,500",1\n03/04/2025,"2,250",2\n'
    dataset = post_csv(client, text).json()
    path = f"/datasets/{dataset['id']}/amend"
    kinds = {"columns": {"a": {"kind": "date"}, "b": {"kind": "number"}}}
    assert places(problem(client.post(path, json=kinds), 422)) == [("a", None), ("b", None)]
    amended = client.post(path, json=kinds | {"dates": "month-first", "decimal": "comma"}).json()
    assert [c["min"] for c in amended["columns"]] == ["2025-01-02", 1.5, 1.0]
