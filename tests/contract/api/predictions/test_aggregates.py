"""Totals, means and quantiles of sets of rows over HTTP."""

import pyarrow as pa
import pytest

from app.services.predictions import totals
from tests.support.api_calls import of_file, post_csv, problem
from tests.support.databases import only
from tests.support.models.fitted_models import run_units

ROWS = {
    "size": [1.5, 4.0, None, 9.0, 2.0, 7.5],
    "colour": ["red", "blue", "green", "red", "blue", None],
    "shop": ["n", "s", "n", None, "s", "n"],
}


def post(client, model, **body):
    return client.post(f"/models/{model['id']}/aggregate", json={"columns": ROWS, **body})


def test_figures_are_those_of_the_model_file(client, model):
    """Answers equal those of the downloaded file, of as many draws as are asked for."""
    posterior = of_file(client, model)
    for asked in (
        {"by": "shop"},
        {"by": "shop", "of": "mean", "interval": "credible", "level": 0.5},
        {"by": "shop", "of": "mean", "interval": "credible", "population": True},
        {"by": ["shop", "colour"], "draws": 7},
        {"by": "shop", "of": "quantile", "q": 0.25, "weights": [1, 2, 3, 4, 5, 6]},
        {"compare": {"shop": ["n", "s"]}, "observed": [3.5, None, None, None, 1, None]},
    ):
        response = post(client, model, **asked)
        assert response.status_code == 200, response.text
        given = {"num_draws" if name == "draws" else name: value for name, value in asked.items()}
        document = posterior.aggregate(ROWS, **given).to_json()
        answer = response.json()
        assert (answer.pop("model_id"), answer.pop("draws")) == (model["id"], asked.get("draws", 40))
        assert answer.pop("outcome") == "y"
        assert answer == document
    assert answer["sets"][0]["observed_rows"] == 2
    assert answer["figure"].endswith("shop = n less shop = s")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"by": ["shop", "other"]}, "by"),
        ({"of": "product"}, "of"),
        ({"of": "quantile"}, "q"),
        ({"level": 1}, "level"),
        ({"interval": "other"}, "interval"),
        ({"compare": {"shop": ["n", "x"]}, "by": "colour"}, "compare"),
        ({"weights": [1, 2, 3, 4, 5, -6]}, "weights"),
        ({"observed": [1, 2]}, None),
    ],
)
@only("sqlite")
@pytest.mark.sampled(quick=3)
def test_what_is_wrong_is_named(client, model, asked, field):
    """A request that can't be answered is a 422 that names its field."""
    refused = problem(post(client, model, **{"by": "shop"} | asked), 422)
    fields = [error.get("field") or error.get("column") or "" for error in refused.get("errors", [])]
    assert field is None or any(field in name for name in fields), refused


@only("sqlite")
def test_too_many_rows_for_one_answer_are_refused(client, model, monkeypatch):
    """More work than one request may take is a 413 that says how many rows are accepted."""
    monkeypatch.setattr("app.services.explanations.guard.MOST", 3e4)
    refused = problem(post(client, model, by="shop"), 413, "too-large")
    assert "Totals of 6 rows are more work" in refused["detail"]


@pytest.fixture
def dataset(client):
    lines = ["size,colour,shop,area,known"]
    columns = [*zip(*ROWS.values(), strict=True)]
    lines += [
        ",".join("" if value is None else str(value) for value in (*row, 1 + k % 2, 3.5 if k == 1 else None))
        for k, row in enumerate(columns * 50)
    ]
    return post_csv(client, "\n".join(lines)).json()["id"]


@only("sqlite")
def test_figures_of_a_dataset_in_the_background(client, settings, model, dataset):
    """Figures are of all rows together, as one request has them; as JSON and as tables."""
    rows = {name: values * 50 for name, values in ROWS.items()}
    beside = {"weights": [1, 2] * 150, "observed": [3.5 if k == 1 else None for k in range(300)]}
    cases = [
        ({"by": "shop"}, {}),
        ({"compare": {"shop": ["n", "s"]}, "weights": "area", "observed": "known", "level": 0.5}, beside),
        ({"observed": "size", "by": "area"}, None),
        ({"of": "quantile", "q": 0.25, "by": ["shop", "colour"]}, {}),
    ]
    for asked, more in cases:
        body = {"dataset_id": dataset, "aggregate": asked}
        started = client.post(f"/models/{model['id']}/predictions", json=body)
        assert started.status_code == 202, started.text
        run_units(settings)
        job = client.get(started.headers["location"]).json()
        assert (job["state"], job["aggregate"]["by"]) == ("succeeded", asked.get("by")), job["error"]
        result = client.get(f"/predictions/{job['id']}/result").json()
        if more is None:  # a feature is what is known
            assert [each["set"] for each in result["sets"]] == [{"area": "1"}, {"area": "2"}]
            continue
        at_once = {name: value for name, value in asked.items() if name not in beside} | more
        expected = client.post(f"/models/{model['id']}/aggregate", json={"columns": rows} | at_once).json()
        assert result.pop("prediction_id") == job["id"]
        assert result == expected
    text = client.get(f"/predictions/{job['id']}/result", headers={"Accept": "text/csv"}).text
    head, first, *_ = text.splitlines()
    names = head.replace('"', "").split(",")
    assert names[:5] == ["shop", "colour", "mean", "lower_90", "upper_90"]
    assert first.replace('"', "").split(",")[:2] == ["n", "green"]
    arrow = client.get(
        f"/predictions/{job['id']}/result", headers={"Accept": "application/vnd.apache.arrow.stream"}
    )
    read = pa.ipc.open_stream(arrow.content).read_all()
    assert read.column("mean").to_pylist() == [each["mean"] for each in result["sets"]]


@only("sqlite")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"aggregate": {"by": "other"}}, "aggregate"),
        ({"aggregate": {"weights": "other"}}, "aggregate"),
        ({"aggregate": {"of": "quantile"}}, "q"),
        ({"aggregate": {}, "mcse": True}, "mcse"),
        ({"aggregate": {}, "level": 0.5}, "level"),
        ({"aggregate": {"interval": "calibrated"}}, "interval"),
        ({"aggregate": {"weights": [1, 2]}}, "weights"),
    ],
)
@pytest.mark.sampled(quick=3)
def test_what_is_wrong_with_figures_of_a_dataset_is_named(client, model, dataset, body, field):
    """A request that can't be answered is refused before anything is queued."""
    refused = problem(
        client.post(f"/models/{model['id']}/predictions", json={"dataset_id": dataset} | body), 422
    )
    assert any(field in str(error["column"]) for error in refused["errors"]), refused
    assert client.get("/predictions").json()["items"] == []


@only("sqlite")
def test_too_many_rows_for_the_background_are_refused(client, model, dataset, monkeypatch):
    monkeypatch.setattr(totals, "MOST_WORK", 1e5)
    body = {"dataset_id": dataset, "aggregate": {"by": "shop"}}
    refused = problem(client.post(f"/models/{model['id']}/predictions", json=body), 413, "too-large")
    assert "upload at most" in refused["detail"]
    monkeypatch.setattr(totals, "MOST_ROWS", 200)
    refused = problem(client.post(f"/models/{model['id']}/predictions", json=body), 413, "too-large")
    assert "1 to 200 rows" in refused["detail"]
