"""A target of two or more classes: probabilities with their intervals, in the user's own labels."""

import numpy as np
import pytest

from tests.support.api_calls import of_file, post_csv, post_model, problem, two_classes
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, extended, fitted
from tests.support.models.single_tree_models import KINDS, ask, kinds


@pytest.mark.parametrize("family", ["probit", "auto"])
def test_two_classes_give_a_probability_in_the_users_labels(client, settings, family):
    """The answer has P(second label), its credible interval inside [0, 1], and the labels."""
    model = fitted(client, settings, text=two_classes(), family=family, holdout=0.25)
    assert model["settings"]["family"] == "probit"
    holdout = model["holdout"]
    assert holdout["note"] == "The served model was fitted without these rows."
    assert holdout["log_loss"] < holdout["base_log_loss"]
    assert 0.6 < holdout["accuracy"] <= 1

    answer = client.post(
        f"/models/{model['id']}/predict", json={"columns": {"x": [0.02, 0.98]}, "level": 0.9}
    )

    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["classes"] == ["no", "yes"]
    (interval,) = body["intervals"]
    assert 0 <= interval["lower"][0] <= body["mean"][0] <= interval["upper"][0] <= 1
    assert body["mean"][0] < 0.5 < body["mean"][1]


def test_a_predictive_interval_of_a_class_is_refused(client, settings):
    """A predictive interval of a class is meaningless: 422 with an explanation."""
    model = fitted(client, settings, text=two_classes(), family="probit")

    answer = client.post(
        f"/models/{model['id']}/predict", json={"rows": [{"x": 0.5}], "interval": "predictive"}
    )

    assert answer.status_code == 422
    assert "credible" in answer.json()["detail"]


@only("sqlite")
def test_a_third_class_is_refused_before_the_202(client):
    """Probit takes two."""
    dataset = post_csv(client, two_classes().replace("yes", "maybe", 3)).json()
    body = {"dataset_id": dataset["id"], "target": "y", "family": "probit"} | SMALL
    assert "3 classes" in problem(client.post("/models", json=body), 422)["detail"]


def test_three_classes_have_a_sum_of_trees_each(client, settings):
    """A fit that is detected as one of classes goes all the way: answers, scores, pages, file, more draws."""
    dataset = post_csv(client, kinds()).json()
    body = {"dataset_id": dataset["id"], "target": "y", "family": "auto", "holdout": 0.2} | SMALL
    guess = client.post("/models/estimate", json=body).json()
    one = client.post("/models/estimate", json=body | {"method": "bcart", "num_trees": 1}).json()
    assert guess["settings"]["classes"] == 3
    assert guess["memory_bytes"] > one["memory_bytes"]
    model = fitted(client, settings, text=kinds(), family="auto", holdout=0.2)
    assert model["settings"]["family"] == "categorical"
    assert model["holdout"]["log_loss"] < model["holdout"]["base_log_loss"]
    answer = ask(client, model, level=0.8, rhat=True, mcse=True, samples=3)
    assert answer["classes"] == [*KINDS]
    mean = np.array(answer["mean"])
    np.testing.assert_allclose(mean.sum(axis=1), 1)
    (interval,) = answer["intervals"]
    assert np.all((np.array(interval["lower"]) <= mean) & (mean <= np.array(interval["upper"])))
    path = f"/models/{model['id']}"
    holdout = client.get(f"{path}/holdout").json()
    assert holdout["classes"] == [*KINDS]
    assert holdout["calibration"]
    effect = client.post(f"{path}/partial-dependence", json={"features": ["x"]})
    assert effect.status_code == 200, effect.text
    for part in ("diagnostics", "variable-importance", "draws", "card"):
        assert client.get(f"{path}/{part}").status_code == 200
    for tab in ("", "/chains", "/effects?part=all", "/features", "/predict"):
        assert client.get(f"/ui{path}{tab}").status_code == 200, tab
    data = client.get(f"{path}/file").content
    assert of_file(client, model).predict({"x": [0.1, 0.9]}).mean.tolist() == answer["mean"]
    back = post_model(client, data)
    assert back.status_code == 201, back.text
    assert ask(client, back.json())["mean"] == answer["mean"]
    longer = extended(client, settings, path)
    assert longer["draws"] == 50
    assert ask(client, longer, draws=40)["mean"] == answer["mean"]
