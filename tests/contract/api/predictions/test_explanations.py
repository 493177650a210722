"""Diagnostics, importance, draws and the card of a fitted model over HTTP."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest

from sampler import Posterior, holdout_rows
from sampler.storage.model_file import MEDIA_TYPE
from tests.support.api_calls import ask, dependence, of_file, places, problem, table, two_classes
from tests.support.databases import only
from tests.support.fuzzing.model_files import seeds, taken_apart
from tests.support.models.fitted_models import SMALL, fitted
from tests.support.models.partial_chains import give_back, take_chains
from tests.support.models.random_posteriors import make_posterior

TYPES = {"html": "text/html; charset=utf-8", "markdown": "text/markdown; charset=utf-8"}


def test_diagnostics_are_those_of_the_notebook(client, model):
    """Diagnostics equal the report of the model's file, by id and by name, with the stored verdict."""
    report = ask(client, model, "diagnostics")

    assert report.pop("model_id") == model["id"]
    assert (report.pop("classes"), report.pop("outcome")) == (None, "y")
    assert (report.pop("effects"), report.pop("num_trees")) == (None, None)
    assert report == of_file(client, model).diagnostics()
    assert (report["verdict"], report["reasons"]) == (model["verdict"], model["diagnostics"]["reasons"])
    assert report["sigma"]["rhat"] == model["diagnostics"]["sigma"]["rhat"]
    assert [chain["moves"].keys() for chain in report["moves"]] == [model["diagnostics"]["moves"].keys()] * 2
    assert len(report["f"]["rhat"]) == report["f"]["rows"] == 60
    assert ask(client, "mine", "diagnostics")["f"] == report["f"]


def test_traces_are_thinned_on_the_server(client, model):
    """Traces have the requested number of points, taken from sigma's own draws."""
    traces = ask(client, model, "diagnostics", points=9)["traces"]
    sigma = of_file(client, model).sigma

    assert (len(traces["draws"]), traces["draws"][0], traces["draws"][-1]) == (9, 0, 39)
    assert traces["sigma"] == sigma[:, traces["draws"]].tolist()


@only("sqlite")
def test_the_card_is_that_of_the_notebook(client, settings):
    """The card of a model is that of its file with the scores of its held-out rows, in both forms."""
    model = fitted(client, settings, name="mine", seed=3, holdout=0.2)
    importance = ask(client, model, "variable-importance")["permutation"]
    card = of_file(client, model).model_card(scores=model["holdout"], importance=importance)
    answers = {form: client.get(f"/models/{model['id']}/card", params={"format": form}) for form in TYPES}
    assert {form: answer.headers["content-type"] for form, answer in answers.items()} == TYPES
    assert "default-src 'none'" in answers["html"].headers["content-security-policy"]
    markdown = answers["markdown"].text
    assert model["id"] in markdown.replace("\\", "")
    of_data = "## Data"
    assert markdown[markdown.index(of_data) :] == card.to_markdown()[card.to_markdown().index(of_data) :]
    assert client.get(f"/models/{model['id']}/card").text == answers["html"].text
    problem(client.get(f"/models/{model['id']}/card", params={"format": "pdf"}), 422, "invalid-request")


@only("sqlite")
def test_importance_is_inclusion_with_intervals(client, model):
    """Importances are shares with intervals that sum to one, largest first, a category's levels combined."""
    answer = ask(client, model, "variable-importance", level=0.5)
    expected = of_file(client, model).inclusion(0.5)

    assert (answer["model_id"], answer["draws"], answer["level"]) == (model["id"], 40, 0.5)
    assert sorted(feature["name"] for feature in answer["features"]) == ["colour", "size"]
    for feature in answer["features"]:
        at = expected.names.index(feature["name"])
        assert feature["mean"] == expected.mean[at]
        assert (feature["lower"], feature["upper"]) == (expected.lower[at], expected.upper[at])
    means = [feature["mean"] for feature in answer["features"]]
    assert means == sorted(means, reverse=True)
    assert sum(means) == pytest.approx(1)
    assert answer["draws_without_rules"] == expected.draws_without_rules
    wide = ask(client, model, "variable-importance")
    assert all(
        a["upper"] - a["lower"] >= b["upper"] - b["lower"]
        for a, b in zip(wide["features"], answer["features"], strict=True)
    )


@only("sqlite")
def test_rules_are_counted_by_rows(client, model, monkeypatch):
    """The shares of the rows at rules are those of the model's file; too much work is refused."""
    answer = ask(client, model, "variable-importance", by="rows")
    by_rows, by_rules = (of_file(client, model).inclusion(by=by) for by in ("rows", "rules"))
    assert {each["name"]: each["mean"] for each in answer["features"]} == dict(
        zip(by_rows.names, by_rows.mean, strict=True)
    )
    assert by_rows.mean.tolist() != by_rules.mean.tolist()
    path = f"/models/{model['id']}/variable-importance"
    problem(client.get(path, params={"by": "draws"}), 422)
    monkeypatch.setattr("app.services.explanations.guard.MOST", 1)
    problem(client.get(path, params={"by": "rows"}), 413)
    assert client.get(path).status_code == 200


@only("sqlite")
def test_a_linear_part_is_fitted_and_told(client, settings):
    """Slopes beside the shares, as the model's file has them, also of the file sent back; none without."""
    line = fitted(client, settings, linear=True, noise="forest")
    content = client.get(f"/models/{line['id']}/file").content
    posterior = Posterior.from_bytes(content)
    again = client.post("/models", content=content, headers={"Content-Type": MEDIA_TYPE}).json()
    rows = {"rows": [{"size": 2.5, "colour": "red"}, {"size": None, "colour": "blue"}]}
    answers = [client.post(f"/models/{model['id']}/predict", json=rows).json() for model in (line, again)]

    assert line["settings"]["linear"] is True
    assert ask(client, line, "variable-importance")["linear"] == posterior.linear_part()
    assert ask(client, again, "variable-importance")["linear"] == posterior.linear_part()
    assert (answers[0]["mean"], answers[0]["intervals"]) == (answers[1]["mean"], answers[1]["intervals"])
    noise = ask(client, line, "variable-importance", of="noise")
    assert [each["name"] for each in noise["features"]] != []
    path = f"/models/{line['id']}/partial-dependence"
    curve = client.post(path, json={"features": ["size"], "of": "noise"}).json()
    assert curve["mean"] == posterior.partial_dependence(["size"], of="noise").mean.tolist()
    plain = fitted(client, settings)
    assert ask(client, plain, "variable-importance")["linear"] is None
    refused = client.get(f"/models/{plain['id']}/variable-importance", params={"of": "noise"})
    assert refused.status_code == 422
    assert "has no trees" in refused.text


@only("sqlite")
def test_importance_ranks_by_held_out_rows(client, settings):
    """By the usual loss, the notebook's own figures; by another on request; null without held-out rows."""
    model = fitted(client, settings, holdout=0.3, seed=4)
    lines = [line.split(",") for line in table(60).splitlines()[1:]]
    held_out = [lines[i] for i in holdout_rows(60, 0.3, 4)]
    X = {"size": [float(line[1]) for line in held_out], "colour": [line[2] for line in held_out]}
    y = [float(line[0]) for line in held_out]

    for query, loss in (({}, "rmse"), ({"loss": "log_loss"}, "log_loss")):
        answer = ask(client, model, "variable-importance", **query)
        assert answer["permutation"] == of_file(client, model).importance(X, y, loss=loss).to_json()
    refused = client.get(f"/models/{model['id']}/variable-importance", params={"loss": "crps"})
    assert refused.status_code == 422
    assert ask(client, fitted(client, settings), "variable-importance")["permutation"] is None


@only("sqlite")
def test_importance_of_classes_is_by_log_loss(client, settings):
    """Another loss is refused by name."""
    model = fitted(client, settings, text=two_classes(80), holdout=0.4, family="probit")
    assert ask(client, model, "variable-importance")["permutation"]["loss"] == "log_loss"
    path = f"/models/{model['id']}/variable-importance"
    refused = problem(client.get(path, params={"loss": "rmse"}), 422, "invalid-request")
    assert refused["errors"][0]["column"] == "loss"


def test_a_model_that_came_as_a_file_explains_itself(client):
    """An imported model has explanations without a dataset, with the counts of its file."""
    posterior = make_posterior()[0]
    posted = client.post("/models", content=posterior.to_bytes(), headers={"Content-Type": MEDIA_TYPE})
    model = posted.json()

    report = ask(client, model, "diagnostics")

    assert {name: report[name] for name in posterior.diagnostics()} == posterior.diagnostics()
    assert len(ask(client, model, "variable-importance")["features"]) == 4


def draws_of(client, model: dict, **query) -> pa.Table:
    response = client.get(f"/models/{model['id']}/draws", params=query)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/vnd.apache.arrow.stream"
    return pa.ipc.open_stream(response.content).read_all()


def test_draws_leave_as_arrow_in_the_shape_arviz_wants(client, model):
    """Arrow draws are ordered by chain: reshaped to [chain, draw] (and row) they equal the notebook's."""
    posterior = of_file(client, model)
    table = draws_of(client, model, f=True)
    facts = json.loads(table.schema.metadata[b"bartserve"])

    assert table.column_names == ["chain", "draw", "sigma", "log_likelihood", "f"]
    assert table["chain"].to_pylist() == [0] * 40 + [1] * 40
    assert table["draw"].to_pylist() == [*range(40)] * 2
    shape = facts["chains"], facts["draws"]
    np.testing.assert_array_equal(table["sigma"].to_numpy().reshape(shape), posterior.sigma)
    f = table["f"].combine_chunks().flatten().to_numpy().reshape(*shape, -1)
    np.testing.assert_array_equal(f, posterior.sample(posterior.reference))
    assert facts == {
        "model_id": model["id"],
        "outcome": "y",
        "chains": 2,
        "draws": 40,
        "classes": None,
        "verdict": model["verdict"],
    }


@only("sqlite")
def test_fewer_draws_and_no_f(client, model):
    """f is omitted unless requested; `draws` takes the first draws of each chain."""
    table = draws_of(client, model, draws=7)

    assert table.column_names == ["chain", "draw", "sigma", "log_likelihood"]
    assert table["draw"].to_pylist() == [*range(7)] * 2
    sigma = of_file(client, model).sigma[:, :7]
    np.testing.assert_array_equal(table["sigma"].to_numpy(), sigma.reshape(-1))
    for draws in (0, 41, "x"):
        refused = problem(client.get(f"/models/{model['id']}/draws", params={"draws": draws}), 422)
        assert places(refused) == [("draws", None)]


@only("sqlite")
def test_draws_of_classes_have_a_figure_for_each(client):
    """With three classes f has their probabilities at each row, adjacent."""
    data = next(each for each in seeds() if Posterior.from_bytes(each).family == "categorical")
    sent = client.post("/models", content=data, headers={"Content-Type": MEDIA_TYPE})
    table, posterior = draws_of(client, sent.json(), f=True), Posterior.from_bytes(data)
    assert json.loads(table.schema.metadata[b"bartserve"])["classes"] == ["a", "b", "d"]
    f = table["f"].combine_chunks().flatten().to_numpy().reshape(2, 4, -1, 3)
    np.testing.assert_array_equal(f, posterior.sample(posterior.reference))


@only("sqlite")
@pytest.mark.parametrize(("rate", "status"), [(1e149, 422), (1e100, 201)])
def test_figures_beyond_the_largest_float_are_refused(client, rate, status):
    """A model of counts whose rates overflow is refused; one whose squares do gives no NaN or infinity."""
    data = next(each for each in seeds() if Posterior.from_bytes(each).family == "poisson")
    file = taken_apart(data)
    file.text["constants"] |= {"rate": rate, "step": 1e-3}
    sent = client.post("/models", content=file.to_bytes(), headers={"Content-Type": MEDIA_TYPE})
    assert sent.status_code == status, sent.text
    if status == 422:
        assert "predictions are out of range" in sent.json()["detail"]
        return
    path, rows = f"/models/{sent.json()['id']}", [{"x1": 0.5, "x2": 1, "c": "a", "exposure": 1e90}]
    for answer in (
        client.get(f"{path}/interactions"),
        client.post(f"{path}/partial-dependence", json={"features": ["x1"], "rows": rows, "ice": True}),
        client.post(f"{path}/contrast", json={"first": {"x1": 1}, "second": {"x1": -1}, "rows": rows}),
        client.post(f"{path}/shap", json={"rows": rows}),
        client.post(f"{path}/aggregate", json={"rows": rows}),
        client.post(f"{path}/aggregate", json={"rows": rows, "of": "quantile", "q": 0.5}),
        client.post(f"{path}/predict", json={"rows": rows, "rhat": True, "mcse": True}),
        client.get(f"{path}/diagnostics"),
        client.get(f"{path}/diagnostics/growth"),
    ):
        assert answer.status_code in (200, 422), answer.text
        assert not {"NaN", "Infinity"} & set(re.findall(r"\w+", answer.text))


@only("sqlite")
def test_too_many_draws_for_one_answer(client, model, monkeypatch):
    """Too many draws for one response are a 413 with advice."""
    monkeypatch.setattr("app.services.explanations.diagnostics.MAX_CELLS", 2 * 40 * 60 - 1)
    refused = problem(client.get(f"/models/{model['id']}/draws", params={"f": True}), 413, "too-large")
    assert "fewer" in refused["detail"]
    assert draws_of(client, model, f=True, draws=39).num_rows == 78


GETS = ("diagnostics", "variable-importance", "draws", "card")


@only("sqlite")
def test_explanations_of_what_is_not_there(client, settings):
    """An unknown model is a 404, an unfinished one a 409, a parameter out of range a 422."""
    model = fitted(client, settings)
    waiting = {"dataset_id": model["dataset_id"], "target": "y"}
    queued = client.post("/models", json=waiting).json()["id"]
    for what in GETS:
        for unknown in ("mdl_0", "nobody", "%00"):
            problem(client.get(f"/models/{unknown}/{what}"), 404, "not-found")
        problem(client.get(f"/models/{queued}/{what}"), 409, "model-not-finished")
    for unknown, status in (("mdl_0", 404), (queued, 409)):
        problem(dependence(client, {"id": unknown}, features=["size"]), status)
    for query in ({"points": 1}, {"points": 501}, {"points": "x"}):
        problem(client.get(f"/models/{model['id']}/diagnostics", params=query), 422, "invalid-request")
    for level in (0, 1, "nan", "inf", "x", ""):
        path = f"/models/{model['id']}/variable-importance"
        problem(client.get(path, params={"level": level}), 422, "invalid-request")


def test_a_model_part_of_the_way_explains_nothing_yet(client, database, model):
    """A model during its fit predicts, but is explained only when it has all draws."""
    body = {"dataset_id": model["dataset_id"], "target": "y", **SMALL}
    running = client.post("/models", json=body).json()["id"]
    give_back(database.engine, take_chains(database.engine, 9, 9))

    rows = [{"size": 3, "colour": "red"}]
    assert client.post(f"/models/{running}/predict", json={"rows": rows}).status_code == 200
    for what in (*GETS, "file"):
        problem(client.get(f"/models/{running}/{what}"), 409, "model-not-finished")


@only("sqlite")
def test_two_classes_explain_themselves(client, settings):
    """For two classes there is no sigma, classes are named, and f is the second's probability."""
    rows = "".join(f"{'yes' if row % 7 > 3 else 'no'},{row % 7},{'ab'[row % 2]}\n" for row in range(70))
    model = fitted(client, settings, text=f"y,size,colour\n{rows}", family="probit")

    report = ask(client, model, "diagnostics")

    assert report["classes"] == ["no", "yes"]
    assert report["sigma"] is None
    assert np.all(np.array(report["f"]["mean"]) <= 1)
    curve = dependence(client, model, features=["size"]).json()
    assert curve["classes"] == ["no", "yes"]
    assert 0 <= curve["mean"][0] < curve["mean"][-1] <= 1
    table = draws_of(client, model, f=True)
    assert table.column_names == ["chain", "draw", "log_likelihood", "f"]
    assert json.loads(table.schema.metadata[b"bartserve"])["classes"] == ["no", "yes"]


def test_models_are_compared_on_the_rows_that_both_held_out(client, settings):
    """The figures are those of both models' held-out rows; other rows or targets are no comparison."""
    first = fitted(client, settings, holdout=0.4, name="first")
    second = fitted(client, settings, holdout=0.4, name="second", num_trees=1, dataset_id=first["dataset_id"])
    found = client.get("/models/first/comparison/second").json()
    assert (found["model_id"], found["other_id"]) == (first["id"], second["id"])
    log_score, rmse = found["differences"]
    for each, score in ((log_score, "log_score"), (rmse, "rmse")):
        assert each["score"] == score
        assert each["first"] == pytest.approx(first["holdout"][score])
        assert each["difference"] == pytest.approx(each["first"] - each["second"])
        assert each["error"] > 0
    page = client.get("/ui/models/compare", params={"model": [first["id"], second["id"]]}).text
    assert "Log score less that of the first" in page
    other = fitted(client, settings, name="third", holdout=0.4, seed=99, dataset_id=first["dataset_id"])
    assert client.get(f"/models/first/comparison/{other['id']}").status_code in (200, 409)
    without = fitted(client, settings, name="none", dataset_id=first["dataset_id"])
    problem(client.get(f"/models/first/comparison/{without['id']}"), 409)
    problem(client.get("/models/first/comparison/absent"), 404)
