"""Monotone features over HTTP: forms, pages, files, extension, studies, predictions, costs and refusals."""

import numpy as np
import pytest
from starlette.datastructures import FormData

from app.dashboard.forms.fit_form import body_of
from app.services.errors import InvalidRequestError
from tests.support.api_calls import of_file, post_csv
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, extended, fitted, run_units

DIRECTIONS = {"a": "increasing", "b": "decreasing"}
LOW, HIGH = {"a": 0.2, "b": 0.8, "c": 0.5}, {"a": 0.7, "b": 0.3, "c": 0.5}


def sold(num_rows: int = 100) -> str:
    """Make a table of an outcome that rises with a and falls with b."""
    rng = np.random.default_rng(4)
    a, b, c = rng.uniform(size=(3, num_rows))
    y = 2 * a - b + np.sin(6 * c) + rng.normal(0, 0.5, num_rows)
    rows = zip(a, b, c, y, np.where(y > 0.5, "yes", "no"), np.digitize(y, [0, 1]), strict=True)
    return "a,b,c,y,bought,grade,shop\n" + "".join(
        f"{a:.4f},{b:.4f},{c:.4f},{y:.4f},{word},{grade},{'xyz'[int(3 * c)]}\n"
        for a, b, c, y, word, grade in rows
    )


@pytest.fixture
def model(client, settings):
    """Return a fitted model with held-out rows and calibrated intervals."""
    body = {"features": ["a", "b", "c"], "monotone": DIRECTIONS, "holdout": 0.3, "calibrate": "holdout"}
    return fitted(client, settings, text=sold(), **body)


@only("sqlite")
def test_a_model_with_monotone_features_goes_all_the_way(client, settings, model):
    """Answers keep the order, pages name the features, files and more draws keep it."""
    assert model["settings"]["monotone"] == DIRECTIONS
    assert model["holdout"]["rmse"] > 0
    path = f"/models/{model['id']}"
    assert "a increasing, b decreasing" in client.get(f"/ui{path}/settings").text
    for kind in ("credible", "predictive", "calibrated"):
        answer = client.post(f"{path}/predict", json={"rows": [LOW, HIGH], "interval": kind})
        assert answer.status_code == 200, answer.text
    mean = answer.json()["mean"]
    assert mean[0] < mean[1]
    for part, body in (
        ("partial-dependence", {"features": ["a"]}),
        ("shap", {"rows": [LOW]}),
        ("contrast", {"first": {"a": 0.2}, "second": {"a": 0.9}}),
        ("aggregate", {"rows": [LOW, HIGH]}),
        ("accumulated-effects", {"feature": "a"}),
    ):
        reply = client.post(f"{path}/{part}", json=body)
        assert reply.status_code == 200, (part, reply.text)
    effects = client.post(f"{path}/partial-dependence", json={"features": ["a"]}).json()
    assert np.all(np.diff(effects["mean"]) >= 0)
    for tab in ("", "/chains", "/effects?part=all", "/features", "/predict", "/what-if"):
        assert client.get(f"/ui{path}{tab}").status_code == 200, tab
    for part in ("diagnostics", "variable-importance", "draws", "card", "holdout"):
        assert client.get(f"{path}/{part}").status_code == 200, part
    own = of_file(client, model)
    assert own.settings["monotone"] == DIRECTIONS
    assert own.predict([LOW, HIGH]).mean.tolist() == mean
    longer = extended(client, settings, path)
    assert (longer["state"], longer["draws"]) == ("succeeded", 50)
    difference = np.diff(client.post(f"{path}/predict", json={"rows": [LOW, HIGH]}).json()["mean"])
    assert difference > 0


@only("sqlite")
def test_studies_refits_and_background_predictions_keep_directions(client, settings, model):
    """Tuning with and without them, selection, a stored dataset's predictions and a refit run."""
    path = f"/models/{model['id']}"
    dataset = post_csv(client, "a,b,c\n0.2,0.8,0.5\n0.7,0.3,0.5\n").json()
    prediction = client.post(f"{path}/predictions", json={"dataset_id": dataset["id"]}).json()
    brief = {"num_trees": 5, "num_chains": 1, "num_burnin": 20, "num_draws": 10, "thin": 1}
    candidates = [brief, brief | {"monotone": {"a": "increasing"}}, brief | {"monotone": {}}]
    tuning = client.post(f"{path}/studies", json={"kind": "tuning", "candidates": candidates, "folds": 2})
    assert tuning.status_code == 202, tuning.text
    selection = client.post(f"{path}/studies", json={"kind": "selection", "permutations": 20})
    assert selection.status_code == 202, selection.text
    refit = client.post(f"{path}/refit", json={})
    assert refit.status_code == 202, refit.text
    run_units(settings)
    for study in (tuning, selection):
        done = client.get(f"/studies/{study.json()['id']}").json()
        assert done["state"] == "succeeded", done["error"]
    again = client.get(f"/models/{refit.json()['id']}").json()
    assert (again["state"], again["settings"]["monotone"]) == ("succeeded", DIRECTIONS)
    stored = client.get(f"/predictions/{prediction['id']}/result").json()
    assert stored["mean"] == client.post(f"{path}/predict", json={"rows": [LOW, HIGH]}).json()["mean"]


@only("sqlite")
@pytest.mark.parametrize(("target", "family"), [("bought", "probit"), ("grade", "ordinal")])
def test_probabilities_of_classes_rise(client, settings, target, family):
    """The second of two classes, and the highest of ordered ones, are likelier where f is higher."""
    body = {"target": target, "family": family, "features": ["a", "b", "c"], "monotone": DIRECTIONS}
    model = fitted(client, settings, text=sold(), **body)
    low, high = client.post(f"/models/{model['id']}/predict", json={"rows": [LOW, HIGH]}).json()["mean"]
    assert low < high if family == "probit" else low[-1] < high[-1]


def test_they_have_fewer_trees(client):
    """Trees are 50 unless their number is given, also where a verdict is asked for of thousands of rows."""
    dataset = post_csv(client, sold(1500)).json()
    body = {"dataset_id": dataset["id"], "target": "y", "features": ["a", "b"], "monotone": DIRECTIONS}
    for more, trees in (({}, 50), ({"num_trees": 120}, 120)):
        answer = client.post("/models/estimate", json=body | more)
        assert answer.json()["settings"]["num_trees"] == trees, answer.text


def test_they_cost_more_in_the_estimate(client):
    """The estimate knows that trees with order take longer, the more columns have one."""
    dataset = post_csv(client, sold()).json()
    body = {"dataset_id": dataset["id"], "target": "y", "features": ["a", "b", "c"]} | SMALL

    def seconds(**more):
        answer = client.post("/models/estimate", json=body | {"num_trees": 200} | more)
        assert answer.status_code == 200, answer.text
        return answer.json()["seconds"]

    one, two = seconds(monotone={"a": "increasing"}), seconds(monotone=DIRECTIONS)
    assert seconds(moves="growprune") < one < two


def test_features_without_a_direction_are_refused_before_the_202(client):
    """Refusals name the feature and what to change."""
    dataset = post_csv(client, sold()).json()
    body = {"dataset_id": dataset["id"], "target": "y", "monotone": DIRECTIONS} | SMALL
    for more, words in (
        ({"monotone": {"d": "increasing"}}, "no feature"),
        ({"monotone": {"a": "up"}}, "increasing"),
        ({"monotone": {"a": 1}}, "the direction of a must be text"),
        ({"monotone": {"shop": "increasing"}, "columns": {"shop": "category"}}, "no order"),
        ({"groups": ["shop"], "slopes": ["a"]}, "slope"),
    ):
        answer = client.post("/models", json=body | more)
        assert answer.status_code == 422, (more, answer.text)
        assert words in answer.text, (more, answer.text)


def test_the_form_has_two_lists():
    """A feature rises or falls, and not both."""
    fields = [("target", "y"), ("features", "a"), ("features", "b")]
    up = ("monotone.increasing", "a")
    assert body_of(FormData([*fields, up, ("monotone.decreasing", "b")]))["monotone"] == DIRECTIONS
    assert "monotone" not in body_of(FormData(fields))
    with pytest.raises(InvalidRequestError) as refused:
        body_of(FormData([*fields, up, ("monotone.decreasing", "a")]))
    assert [(fault.column, fault.detail) for fault in refused.value.errors] == [
        ("monotone", "a can't both rise and fall")
    ]
