"""Targets of two classes: a probability with its interval, in the user's labels."""

import pytest

from tests.support.api_calls import post_csv, two_classes
from tests.support.models.fitted_models import SMALL, fitted


@pytest.mark.parametrize("family", ["probit", "auto"])
def test_two_classes_give_a_probability_in_the_users_labels(client, settings, family):
    """The answer has P(second label), its credible interval inside [0, 1], and the labels."""
    model = fitted(client, settings, text=two_classes(), family=family, holdout=0.25)
    assert model["settings"]["family"] == "probit"
    held = model["holdout"]
    assert held["note"] == "The served model was fitted without these rows."
    assert held["log_loss"] < held["base_log_loss"]
    assert 0.6 < held["accuracy"] <= 1

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


def test_what_probit_cannot_use_is_refused_before_the_202(client):
    """Weights, noise priors and a third class are refused by name."""
    text = two_classes().replace("\n", ",1\n").replace("x,y,1", "x,y,w")
    dataset = post_csv(client, text).json()
    three = post_csv(client, text.replace("yes", "maybe", 3)).json()
    body = {"dataset_id": dataset["id"], "target": "y", "family": "probit"} | SMALL

    weighted = client.post("/models", json=body | {"weights": "w"})
    noisy = client.post("/models", json=body | {"prior": {"nu": 3}})
    classes = client.post("/models", json=body | {"dataset_id": three["id"]})

    assert {weighted.status_code, noisy.status_code, classes.status_code} == {422}
    assert "probit takes no weights" in weighted.json()["detail"]
    assert "nu has no meaning for probit" in noisy.json()["detail"]
    assert "3 classes" in classes.json()["detail"]
