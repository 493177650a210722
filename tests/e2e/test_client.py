"""The Python client against a real service."""

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app.client import (
    Client,
    ClientError,
    FitError,
    Model,
    Place,
    ProblemError,
    WaitedTooLongError,
)
from sampler import load

CARS = Path(__file__).parents[2] / "examples" / "auto_mpg.csv"
SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 50, "num_draws": 50, "thin": 1, "seed": 1}
NEW = {
    "cylinders": [4, 8],
    "displacement": [97, 302],
    "horsepower": [75, None],
    "weight": [2171, 3870],
    "acceleration": [16.0, 13.0],
    "year": [75, 76],
    "origin": [3, 1],
}


@pytest.fixture(scope="module")
def client(service) -> Iterator[Client]:
    with Client(service.address) as client:
        yield client


@pytest.fixture(scope="module")
def fitted(client) -> Model:
    """Return a small named model of the cars."""
    dataset = client.upload(CARS)
    model = client.fit(dataset, "mpg", name="client-cars", holdout=0.2, **SHORT)
    return client.wait(model, seconds=300)


def test_upload_tells_the_schema_and_lists_find_it(client):
    """`upload` takes a path and names the dataset after it; lists, preview and id find it."""
    dataset = client.upload(CARS)

    assert (dataset.name, dataset.num_rows, len(dataset.columns)) == ("auto_mpg", 397, 9)
    assert dataset.id in {other.id for other in client.datasets()}
    assert client.dataset(dataset.id).columns == dataset.columns
    assert len(client.preview(dataset, rows=3)) == 3
    client.delete_dataset(dataset)
    with pytest.raises(ProblemError) as gone:
        client.dataset(dataset)
    assert gone.value.status == 404


def test_a_data_frame_a_parquet_file_and_a_compressed_one_are_uploaded(client, tmp_path):
    """One table in any format gives one dataset; a data frame's index is dropped."""
    frame = pd.DataFrame({"x": range(20), "y": [k / 4 for k in range(20)]}, index=range(5, 25))
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        frame.to_csv(file, index=False)

    for data in (frame, tmp_path / "t.parquet", tmp_path / "t.csv.gz"):
        dataset = client.upload(data, name="frame")
        assert dataset.num_rows == 20
        assert [(column["name"], column["kind"]) for column in dataset.columns] == [
            ("x", "number"),
            ("y", "number"),
        ]


def test_a_file_is_read_as_the_caller_says(client):
    """Every reading option and column kind is an argument; an unknown value is refused."""
    text = b"1,500|1/2/2026|x|7\n2,500|3/2/2026|?|8\n" * 10
    dataset = client.upload(
        text,
        separator="bar",
        decimal="comma",
        header=False,
        dates="day-first",
        quoting="none",
        missing=["?", "none at all"],
        encoding="latin-1",
    )
    assert [column["kind"] for column in dataset.columns] == ["number", "date", "category", "number"]
    assert [column["max"] for column in dataset.columns[:2]] == [2.5, "2026-02-03"]
    assert dataset.columns[2]["missing"] == 10

    other = client.upload(b"zip,y\n" + b"1010,1\n8001,2\n" * 10, kinds={"zip": "category"})
    assert other.columns[0]["kind"] == "category"
    with pytest.raises(ProblemError) as refused:
        client.upload(text, separator="dots")
    assert [place.column for place in refused.value.errors] == ["separator"]


def test_pages_are_followed_to_the_end(client):
    """A list longer than a page is read page by page, each item once."""
    ids = {client.upload(b"x,y\n" + b"1,2\n2,3\n" * 6, name=f"page {k}").id for k in range(5)}

    pages = client._pages
    client._pages = lambda path: _small_pages(client, path)
    try:
        listed = [dataset.id for dataset in itertools.islice(client.datasets(), 5)]
    finally:
        client._pages = pages

    assert set(listed) == ids


def _small_pages(client: Client, path: str) -> Iterator[dict]:
    cursor = None
    while True:
        page = client._get(path, limit=2, cursor=cursor)
        yield from page["items"]
        if (cursor := page["next_cursor"]) is None:
            return


def test_wait_shows_progress_and_ends_with_the_model(client, fitted):
    """`wait` passes each poll to `progress` and returns the succeeded model."""
    reported: list[Model] = []

    model = client.wait(fitted.id, progress=reported.append)

    assert reported[-1] == model
    assert (model.state, model.name, model.target, model.draws) == ("succeeded", "client-cars", "mpg", 50)
    assert model.fraction == 1
    assert [chain.number for chain in model.chains] == [0, 1]
    assert model.holdout is not None


def test_predict_takes_rows_columns_frames_and_files(client, fitted, tmp_path):
    """Equal rows in any format give equal predictions, as arrays and as a data frame."""
    frame = pd.DataFrame(NEW)
    path = tmp_path / "new.csv"
    frame.to_csv(path, index=False)
    rows = [{name: values[k] for name, values in NEW.items()} for k in range(2)]

    answers = [
        client.predict(fitted, data, level=[0.5, 0.9], interval="predictive", quantiles=[0.1])
        for data in (NEW, rows, frame, path, {name: np.array(values, float) for name, values in NEW.items()})
    ]
    for one in (rows[0], frame.iloc[0]):
        assert client.predict(fitted, one, interval="predictive").mean == answers[0].mean[:1]

    first = answers[0]
    assert len(first) == 2
    assert np.all(first.lower < first.mean)
    assert [part.level for part in first.intervals] == [0.5, 0.9]
    for answer in answers[1:]:
        assert np.array_equal(answer.mean, first.mean)
        assert np.array_equal(answer.upper, first.upper)
    table = first.to_pandas()
    assert list(table) == ["mean", "sd", "lower_50", "upper_50", "lower_90", "upper_90", "quantile_10"]
    assert np.array_equal(table["lower_50"], first.lower)
    named = client.predict(fitted, frame.set_index(pd.Index(["a", "b"])))
    assert named.to_pandas()["mean"].to_dict() == dict(zip("ab", first.mean, strict=True))


def test_a_model_is_asked_by_name(client, fitted):
    """A name means the newest succeeded model, whose id is in the answer."""
    assert client.predict("client-cars", NEW).model_id == fitted.id


def test_a_dataset_is_predicted_in_the_background(client, fitted):
    """The result is a table in row order, equal to `predict` for its first rows."""
    dataset = client.upload(CARS)

    job = client.predict_dataset(fitted, dataset, interval="predictive")
    table = client.wait_prediction(job, seconds=300)

    assert table.num_rows == 397
    features = [{name: row[name] for name in NEW} for row in client.preview(dataset, rows=2)]
    now = client.predict(fitted, features, interval="predictive")
    assert np.array_equal(table["mean"].to_numpy()[:2], now.mean)


def test_the_model_explains_itself(client, fitted):
    """The client returns diagnostics, importance, partial dependence and draws."""
    assert client.diagnostics(fitted, points=10)["chains"] == 2
    assert client.model_card(fitted).startswith("<!doctype html>")
    assert client.model_card(fitted, "markdown").startswith("# Model of mpg")
    shares = client.inclusion(fitted)
    assert sum(feature["mean"] for feature in shares) == pytest.approx(1)
    assert client.inclusion(fitted, by="rows") != shares
    ranked = client.importance(fitted)
    assert {feature["name"] for feature in ranked["features"]} == {feature["name"] for feature in shares}
    assert client.importance(fitted, loss="log_loss")["loss"] == "log_loss"
    dependence = client.partial_dependence(fitted, ["weight"], level=0.5)
    assert len(dependence["mean"]) == len(dependence["grid"][0])
    pairs = client.interactions(fitted, ["weight", "cylinders", "displacement"])
    assert len(pairs) == 3
    contrast = client.contrast(fitted, {"weight": 2500}, {"weight": 3500}, by="cylinders")
    assert contrast["average"]["lower"] > 0
    assert client.accumulated_effects(fitted, "weight")["feature"] == "weight"
    reasons = client.shap(fitted, pd.DataFrame(NEW))
    assert reasons["values"] == client.shap(fitted, NEW)["values"]
    assert np.shape(reasons["values"]) == (2, len(NEW))
    draws = client.draws(fitted, f=True)
    assert draws.num_rows == 100
    assert set(draws.column_names) == {"chain", "draw", "sigma", "log_likelihood", "f"}


def test_groups_are_told(client, fitted):
    """`groups` has a column's intercepts and slopes with intervals; empty for a model without groups."""
    frame = pd.DataFrame({"day": np.arange(120) % 10, "site": np.arange(120) % 6})
    frame["y"] = frame["site"] + frame["day"] * (frame["site"] - 2) + np.arange(120) % 3
    model = client.fit(client.upload(frame), "y", groups=["site"], slopes=["day"], **SHORT)
    (grouping,) = client.groups(client.wait(model, seconds=300), level=0.5)
    assert (grouping["column"], grouping["level"], len(grouping["groups"])) == ("site", 0.5, 6)
    (slope,) = grouping["slopes"]
    assert slope["groups"][0]["mean"] < slope["groups"][5]["lower"]
    assert client.groups(fitted) == []


def test_counts_have_exposures_quantiles_and_zeros(client):
    """Expected counts in proportion to the exposure, quantiles that are counts, and scores of zeros."""
    k = np.arange(120)
    frame = pd.DataFrame({"x": k % 10, "days": 1 + k % 4, "y": (k * 7) % (2 + k % 4 * (k % 10))})
    settings = {"family": "zero-inflated-negative-binomial", "exposure": "days", "holdout": 0.25}
    model = client.wait(client.fit(client.upload(frame), "y", **settings, **SHORT), seconds=300)
    assert 0 < model.holdout["zeros"]["predicted"] < 1
    assert model.holdout["deviance"] > 0
    answer = client.predict(model, {"x": [5, 5], "days": [1, 4]}, quantiles=[0.5])
    assert answer.mean[1] == pytest.approx(4 * answer.mean[0])
    bounds = np.array([answer.lower, answer.quantiles[0.5], answer.upper])
    np.testing.assert_array_equal(bounds, np.sort(np.rint(bounds), axis=0))
    with pytest.raises(ProblemError, match="days"):
        client.predict(model, {"x": [5], "days": [0]})


def test_totals_of_a_frame_are_those_of_its_model_file(client, fitted, tmp_path):
    """A frame's totals by a column of its own, with known outcomes, equal those in a notebook."""
    frame = pd.DataFrame(NEW).assign(fleet="north")
    outcomes = np.full(len(frame), np.nan)
    outcomes[0] = 20.0
    answer = client.aggregate(fitted, frame, by="fleet", observed=outcomes)
    here = load(client.download(fitted, tmp_path / "cars.bart")).aggregate(frame, "fleet", observed=outcomes)
    assert answer["sets"] == here.to_json()["sets"]
    assert answer["sets"][0]["observed_rows"] == 1


def test_survival_has_curves_medians_and_scores(client):
    """A fit with events answers curves that fall, medians and restricted means, and is scored by them."""
    k = np.arange(120)
    frame = pd.DataFrame({"x": k % 10, "days": 1 + k % 10 + k % 7 / 2, "seen": k % 3 > 0})
    dataset = client.upload(frame)
    model = client.wait(client.fit(dataset, "days", event="seen", holdout=0.25, **SHORT), seconds=300)
    assert 0 < model.holdout["integrated_brier"] < model.holdout["base_integrated_brier"]
    answer = client.survival(model, {"x": [1, 8]}, times=[2, 6, 12])
    survival = np.array(answer["survival"])
    assert np.all(np.diff(survival, axis=1) < 0)
    assert np.all(survival[0] < survival[1])
    assert answer["median"]["value"][0] < answer["median"]["value"][1]


def test_a_model_travels_as_a_file(client, fitted, tmp_path):
    """A downloaded file loads in a notebook and imports into the service with equal bits."""
    path = client.download(fitted, tmp_path / "cars.bart")

    back = client.upload_model(path, name="travelled")

    here = load(path).predict(pd.DataFrame(NEW))
    there = client.predict(back, NEW)
    assert np.array_equal(here.mean, there.mean)
    assert client.predict("travelled", NEW).model_id == back.id


def test_events_are_listed_and_followed(client, fitted):
    """The log lists events; a followed stream stops at the end and resumes after the last seen event."""
    log = [event.kind for event in client.events(fitted)]
    assert log[0] == "created"
    assert log[-1] == "succeeded"

    followed = list(client.follow(fitted))
    resumed = list(client.follow(fitted, after=followed[1].sequence))

    assert [event.kind for event in followed] == log
    assert resumed == followed[2:]
    assert list(client.follow(fitted, after=followed[-1].sequence)) == []


def test_cancel_retry_and_extend(client):
    """`wait` reports a cancelled model; retried and extended it succeeds with all draws."""
    dataset = client.upload(CARS)
    long = SHORT | {"num_draws": 200, "thin": 50}
    model = client.fit(dataset, "mpg", **long)
    client.cancel(model)
    with pytest.raises(FitError, match="cancelled") as ended:
        client.wait(model, seconds=300)
    assert ended.value.state == "cancelled"
    client.delete_model(model)

    short = client.wait(client.fit(dataset, "mpg", **SHORT), seconds=300)
    extended = client.wait(client.extend(short, 25), seconds=300)

    assert extended.draws == 75


def test_waiting_has_an_end(client):
    """`seconds` ends a wait with its own error while the fit continues."""
    dataset = client.upload(CARS)
    model = client.fit(dataset, "mpg", **(SHORT | {"num_draws": 1000, "thin": 100}))
    with pytest.raises(WaitedTooLongError, match="continues"):
        client.wait(model, seconds=0.2)
    assert client.model(model).is_open
    client.delete_model(model)


def test_a_refusal_is_an_exception_with_the_problem_document(client):
    """An exception has the problem document's type, status, places and request id."""
    dataset = client.upload(CARS)

    with pytest.raises(ProblemError) as refused:
        client.fit(dataset, "no such column")

    problem = refused.value
    assert (problem.status, problem.type) == (422, problem.document["type"])
    assert problem.errors
    assert isinstance(problem.errors[0], Place)
    assert problem.request_id
    assert problem.detail in str(problem)


def test_address_and_key_come_from_the_environment(service, monkeypatch):
    """BARTSERVE_URL and BARTSERVE_KEY are the defaults of address and key."""
    monkeypatch.setenv("BARTSERVE_URL", service.address + "/")
    monkeypatch.setenv("BARTSERVE_KEY", "a-key")

    with Client() as client:
        assert client.ready()
        assert client.url == service.address
        assert client._http.headers["authorization"] == "Bearer a-key"
    with Client("http://127.0.0.1:9", key="another") as other:
        assert other._http.headers["authorization"] == "Bearer another"
        assert not other.ready()


def test_unusable_arguments_are_refused_without_a_request(client, fitted):
    """A missing path or a value that is no table is refused without a request."""
    with pytest.raises(ClientError, match="can't be opened"):
        client.upload("no-such-file.csv")
    with pytest.raises(ClientError, match="can't be sent"):
        client.upload(3)
    with pytest.raises(ClientError, match="list of dicts"):
        client.predict(fitted, 3)


@pytest.mark.slow
def test_a_set_has_a_model_for_each_group(client):
    """A set is fitted, listed, asked and deleted as one; a group with too few rows is listed with why."""
    cars = pd.read_csv(CARS, usecols=["mpg", "weight", "year", "cylinders"])
    dataset = client.upload(cars)
    reports = []
    made = client.fit_many(dataset, "mpg", by="cylinders", name="by-cylinders", **SHORT)
    ended = client.wait_many(made, progress=lambda now: reports.append(now.fraction), seconds=300)
    assert (ended.state, ended.by, ended.groups) == ("succeeded", ["cylinders"], 5)
    assert (ended.succeeded, ended.failed, ended.fraction) == (3, 2, 1.0)  # of 3 and 5 cylinders are few
    assert reports == sorted(reports)
    groups = {each.group[0]: each for each in client.models_of_set(made)}
    assert [*groups] == ["8", "4", "6", "3", "5"]
    assert "has 4 rows" in groups["3"].error
    assert groups["4"].rows == 203
    assert [each.group for each in client.models_of_set(made, state="failed", search="5")] == [["5"]]
    assert made.id in {each.id for each in client.model_sets()}

    new = pd.DataFrame({"weight": [2171, 3870, 2500], "year": [75, 76, 80], "cylinders": [4, 8, 3]})
    with pytest.raises(ProblemError, match="no model for cylinders '3'"):
        client.predict_many(made, new)
    answer = client.predict_many(made, new, level=[0.5, 0.9], unknown="flag")
    alone = client.predict(groups["8"].id, new.iloc[1:2].drop(columns="cylinders"), level=[0.5, 0.9])
    assert (answer.mean[1], answer.intervals[1].upper[1]) == (alone.mean[0], alone.intervals[1].upper[0])
    assert np.isnan(answer.mean[2])
    assert answer.document["model_ids"] == [groups["4"].id, groups["8"].id, None]
    table = client.predict_many_table(made, new, keep=["cylinders"], unknown="flag")
    assert table.column_names[:2] == ["cylinders", "mean"]
    assert table.column("mean").to_pylist()[:2] == answer.mean[:2].tolist()
    of_file = client.predict_many(made, new.to_csv(index=False).encode(), unknown="flag")
    assert of_file.mean[:2].tolist() == answer.mean[:2].tolist()
    client.delete_model_set(made)
    with pytest.raises(ProblemError):
        client.model(groups["8"].id)
    few = client.upload(cars[cars.cylinders == 3])
    with pytest.raises(ProblemError, match="has 4 rows"):
        client.fit_many(few, "mpg", by="cylinders", **SHORT)


@pytest.mark.slow
def test_studies(client, fitted):
    """Studies show their progress; a cancelled one raises, a deleted one is gone."""
    reports = []
    study = client.select_features(fitted, permutations=20, seed=1)
    result = client.wait_study(study, progress=lambda now: reports.append(now.fits_done), seconds=120)
    assert (result.state, result.fits_done, result.fits) == ("succeeded", 30, 30)
    assert reports == sorted(reports)
    assert set(result.names) >= set(NEW)
    assert set(result.selected("max")) <= set(result.selected("local"))
    with pytest.raises(ValueError, match="max, se"):
        result.selected("most")
    assert client.study(study).document == result.document
    assert study.id in {other.id for other in client.studies(fitted.id)}
    assert list(client.studies("mdl_other")) == []
    again = client.select_features("client-cars", permutations=1000)
    assert client.cancel_study(again).state in {"running", "cancelled"}
    with pytest.raises(FitError, match="cancelled"):
        client.wait_study(again, seconds=60)
    tried = [{"num_trees": 5, "num_chains": 1, "num_draws": 10}, {"num_trees": 1, "num_draws": 10}]
    tuned = client.wait_study(client.tune(fitted, candidates=tried, folds=2), seconds=120)
    assert (tuned.kind, tuned.fits, tuned.features) == ("tuning", 6, None)
    assert tuned.tuning["best"].items() >= tried[tuned.tuning["chosen"]].items()
    sure = client.wait_study(client.calibrate(fitted), seconds=120)
    assert (sure.kind, sure.state, sure.features, sure.tuning) == ("calibration", "succeeded", None, None)
    assert client.model(fitted.id).document["calibration"]["kind"] == "folds"
    prediction = client.predict(fitted, NEW, interval="calibrated")
    assert (prediction.interval, len(prediction.lower)) == ("calibrated", len(prediction))
    for each in (study, again, tuned, sure):
        client.delete_study(each)
    with pytest.raises(ProblemError) as gone:
        client.study(study)
    assert gone.value.status == 404
