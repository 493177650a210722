"""Calibrated intervals in named subgroups over HTTP: fits, claims, predictions of all kinds, refusals."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

from app.services.errors import TooLargeError
from app.services.predictions.predict_rows import Predictor
from sampler import fit
from tests.support.api_calls import of_file, post_csv, post_model, problem
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, finished, run_units

pytestmark = only("sqlite")
RNG = np.random.default_rng(7)
AGE = RNG.uniform(18, 90, 200).round(1)
HOUR = RNG.integers(0, 24, 200)
REGION = RNG.choice(["a", "b"], 200)
OUTCOME = (AGE / 20 + np.where(AGE >= 65, 3, 1) * RNG.standard_normal(200)).round(3)
OLD = {"name": "old", "where": [{"column": "age", "at_least": 65}]}
NAMED = [OLD, "region", {"name": "late", "where": [{"column": "hour", "at_least": 12}]}]
ROWS = [
    {"age": 30, "region": "a", "hour": 3},
    {"age": 80, "region": "b", "hour": 3},
    {"age": 80, "region": "a", "hour": 20},
]


@pytest.fixture
def dataset(client):
    lines = [",".join(map(str, row)) for row in zip(AGE, HOUR, REGION, OUTCOME, strict=True)]
    return post_csv(client, "\n".join(["age,hour,region,y", *lines])).json()["id"]


def asked(dataset, **more):
    body = {"dataset_id": dataset, "target": "y", "features": ["age", "region"], "subgroups": NAMED} | SMALL
    return body | {"calibrate": "holdout", "holdout": 0.5, "seed": 3} | more


def fitted(client, settings, dataset, **more):
    answer = client.post("/models", json=asked(dataset, **more))
    return finished(client, settings, answer)


def test_a_model_has_the_table_of_the_library(client, settings, dataset):
    """Held-out rows, claims and ends are those of a fit in a notebook; a refit keeps the declaration."""
    model = fitted(client, settings, dataset)
    assert model["settings"]["subgroups"] == NAMED
    assert model["settings"]["features"] == ["age", "region"]
    X = pd.DataFrame({"age": AGE, "hour": HOUR.astype(float), "region": REGION})
    own = {name: value for name, value in SMALL.items() if name != "family"}
    y = pd.Series(OUTCOME, name="y")
    declared = {"calibrate": "holdout", "holdout": 0.5, "subgroups": NAMED, "features": ["age", "region"]}
    library = fit(X, y, seed=3, progress=False, **declared, **own)
    table = of_file(client, model).conformal_table
    assert table.checksum == library.conformal_table.checksum == model["calibration"]["checksum"]
    imported = post_model(client, of_file(client, model).to_bytes())
    assert imported.json()["calibration"] == model["calibration"]
    claims = {claim["level"]: claim for claim in model["calibration"]["claims"]}
    names = [each["name"] for each in claims[0.9]["subgroups"]]
    assert names == ["old", "region = a", "region = b", "late"]
    assert claims[0.9]["subgroups"][0]["at_least"] == 0.9
    page = client.get(f"/ui/models/{model['id']}/improve").text
    assert "old: at least 0.9 inside on average" in page
    again = client.post(f"/models/{model['id']}/refit", json={"holdout": 0.5})
    run_units(settings)
    assert client.get(again.headers["location"]).json()["settings"]["subgroups"] == NAMED
    whole = client.post(f"/models/{model['id']}/refit", json={})
    assert "subgroups" not in client.get(whole.headers["location"]).json()["settings"]


@pytest.mark.slow
def test_all_predictions_have_the_same_intervals(client, settings, dataset):
    """JSON, CSV files and background predictions; the column that is no feature is needed for these alone."""
    model = fitted(client, settings, dataset)
    path = f"/models/{model['id']}/predict"
    answer = client.post(path, json={"rows": ROWS, "interval": "calibrated"}).json()
    (interval,) = answer["intervals"]
    expected = of_file(client, model).predict(pd.DataFrame(ROWS), interval="calibrated")
    assert interval["lower"] == [each if np.isfinite(each) else None for each in expected.lower.tolist()]
    assert answer["claims"][0]["subgroups"][0]["name"] == "old"
    alone = client.post(path, json={"rows": ROWS[1:2], "interval": "calibrated"}).json()
    assert alone["intervals"][0]["lower"] == interval["lower"][1:2]

    text = "age,region,hour\n30,a,3\n80,b,3\n80,a,20\n"
    as_csv = {"Content-Type": "text/csv", "Accept": "text/csv"}
    answered = client.post(f"{path}?interval=calibrated&keep=hour", content=text, headers=as_csv).text
    lower = [row["lower_90"] for row in csv.DictReader(io.StringIO(answered))]
    assert [float(each) if each else None for each in lower] == interval["lower"]

    stored = post_csv(client, text).json()["id"]
    body = {"dataset_id": stored, "interval": "calibrated"}
    prediction = client.post(f"/models/{model['id']}/predictions", json=body)
    assert prediction.status_code == 202, prediction.text
    run_units(settings)
    result = client.get(f"/predictions/{prediction.json()['id']}/result").json()
    assert result["intervals"] == answer["intervals"]
    assert result["claims"] == answer["claims"]

    few = [{name: row[name] for name in ("age", "region")} for row in ROWS]
    assert client.post(path, json={"rows": few}).status_code == 200
    refusal = problem(client.post(path, json={"rows": few, "interval": "calibrated"}), 422)
    assert refusal["errors"][0]["column"] == "hour"
    without = post_csv(client, "age,region\n30,a\n").json()["id"]
    body |= {"dataset_id": without}
    refusal = problem(client.post(f"/models/{model['id']}/predictions", json=body), 422)
    assert refusal["errors"][0]["column"] == "hour"
    form = client.get(f"/ui/models/{model['id']}/predict").text
    assert ">hour</label>" in form


def test_combinations_that_no_row_had_are_found_at_once_and_in_the_background(client, settings):
    """By a linear programme each, which is refused where it would take too long."""
    hour = np.where(AGE >= 65, 3, HOUR)
    lines = [",".join(map(str, row)) for row in zip(AGE, hour, REGION, OUTCOME, strict=True)]
    dataset = post_csv(client, "\n".join(["age,hour,region,y", *lines])).json()["id"]
    model = fitted(client, settings, dataset, subgroups=[OLD, NAMED[2]])
    path, body = f"/models/{model['id']}/predict", {"rows": ROWS, "interval": "calibrated", "level": 0.8}
    answer = client.post(path, json=body).json()
    assert answer["intervals"][0]["lower"][2] is not None
    stored = post_csv(client, "age,region,hour\n30,a,3\n80,b,3\n80,a,20\n").json()["id"]
    asked_for = {"dataset_id": stored, "interval": "calibrated", "level": 0.8}
    prediction = client.post(f"/models/{model['id']}/predictions", json=asked_for)
    run_units(settings)
    result = client.get(f"/predictions/{prediction.json()['id']}/result").json()
    assert result["intervals"] == answer["intervals"]
    posterior = of_file(client, model)
    table, coded = posterior.conformal_table, posterior.encode(pd.DataFrame(ROWS))
    assert table.num_programmes([0.8, 0.77]) == 0  # three kinds of rows have ranks of their own
    assert table.num_programmes([0.8, 0.77], coded.subgroups) == 2
    predictor = Predictor(None, 0, 10, 1e6)
    with pytest.raises(TooLargeError, match="2 ends of calibrated intervals"):
        predictor.check_programmes(posterior, [0.8, 0.77], coded)


def test_reported_outcomes_are_judged_by_the_intervals_of_their_subgroups(client, settings, dataset):
    model = fitted(client, settings, dataset)
    path = f"/models/{model['id']}"
    answer = client.post(f"{path}/predict", json={"rows": ROWS[1:2], "interval": "calibrated"}).json()
    (interval,) = answer["intervals"]
    outcomes = [interval["upper"][0] - 0.01, interval["upper"][0] + 0.01]
    rows = [ROWS[1] | {"y": each} for each in outcomes]
    report = client.post(f"{path}/outcomes", json={"rows": rows})
    assert report.status_code == 201, report.text
    (week,) = client.get(f"{path}/outcomes").json()["weeks"]
    assert week["figures"]["coverage"][1]["observed"] == 0.5


@pytest.mark.slow
def test_folds_calibrate_by_a_study(client, settings, dataset):
    model = fitted(client, settings, dataset, calibrate="folds", holdout=0, subgroups=["hour", OLD])
    run_units(settings)
    table = of_file(client, model).conformal_table
    assert (table.kind, table.rows) == ("folds", 200)
    claims = table.at(0.9).subgroups
    assert [each.name.split()[0] for each in claims] == ["hour"] * 4 + ["old"]
    assert claims[-1].rows == (AGE >= 65).sum()
    assert claims[-1].at_least is None


def test_classes_by_folds(client, settings, dataset):
    by_class = {"target": "region", "features": ["age", "y"], "family": "probit", "subgroups": ["by_class"]}
    model = fitted(client, settings, dataset, calibrate="folds", holdout=0, **by_class)
    run_units(settings)
    table = of_file(client, model).conformal_table
    assert np.bincount(table.subgroups.own).tolist() == [(REGION == "a").sum(), (REGION == "b").sum()]
    body = {"rows": [{"age": 30, "y": 1}], "interval": "calibrated"}
    assert client.post(f"/models/{model['id']}/predict", json=body).json()["sets"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"subgroups": ["regoin"]}, "did you mean region"),
        ({"subgroups": "region"}, "list"),
        ({"subgroups": [{"name": "old"}]}, "has a name and where"),
        ({"subgroups": ["missing"]}, "no feature is missing in 10"),
        ({"subgroups": ["by_class"]}, "by_class is for outcomes that are classes"),
        ({"subgroups": ["y"]}, "is the outcome"),
        ({"calibrate": "none"}, "set calibrate to holdout or folds"),
        (
            {"subgroups": [{"name": "90", "where": [{"column": "age", "at_least": 89}]}]},
            "intervals of 90% take 9",
        ),
        (
            {"subgroups": [{"name": "a", "where": [{"column": "region", "below": 3}]}]},
            "where a number belongs",
        ),
    ],
)
def test_what_can_not_be_told_apart_is_refused_before_the_fit(client, dataset, more, words):
    for how in ({}, {"calibrate": "folds", "holdout": 0}):
        refusal = problem(client.post("/models", json=asked(dataset, **(how | more))), 422)
        assert words in str(refusal["errors"])
