"""Soft trees in the service: fitted in slices by the worker's functions, and queried."""

import numpy as np
import pytest

from sampler import fit
from tests.support.api_calls import of_file, post_model
from tests.support.databases import only
from tests.support.models.fitted_models import extended, fitted, run_units
from tests.support.models.partial_chains import give_back, take_chains
from tests.support.models.single_tree_models import KINDS, ask, kinds, numbers

SHORT = {"num_chains": 2, "num_trees": 1, "num_draws": 40, "num_burnin": 40}
SOFT = {"num_trees": 1, "num_chains": 2, "num_draws": 20, "num_burnin": 40, "thin": 2}
SEARCH = {"iterations": 3, "first": 20, "chains": 2, "draws": 40, "samples": 4}
METHODS = {
    "rjhmc-df": {"thin": 2},
    "rjhmc-dfi": {"thin": 2},
    "dcc-tree": {"thin": 1, "search": SEARCH},
}


@pytest.mark.parametrize(
    "method", ["rjhmc-df", pytest.param("rjhmc-dfi", marks=pytest.mark.slow), "dcc-tree"]
)
def test_numbers(client, settings, method):
    """A step is found, judged and scored; every view responds; its file gives equal answers elsewhere."""
    body = {**SHORT, **METHODS[method]}
    model = fitted(client, settings, text=numbers(), method=method, holdout=0.2, **body)
    assert model["holdout"]["rmse"] < model["holdout"]["linear_rmse"]
    answer = ask(client, model, interval="predictive", level=[0.5, 0.9])
    assert answer["mean"] == pytest.approx([1, 4], abs=0.6)
    for path in ("variable-importance", "draws", "diagnostics", "card"):
        assert client.get(f"/models/{model['id']}/{path}").status_code == 200
    shapes = model["diagnostics"]["topologies"]
    assert 0.3 < sum(shape["probability"] for shape in shapes) < 1 + 1e-9
    effect = client.post(f"/models/{model['id']}/partial-dependence", json={"features": ["x"]}).json()
    assert effect["mean"][-1] - effect["mean"][0] > 2
    data = client.get(f"/models/{model['id']}/file").content
    there = of_file(client, model).predict({"x": [0.1, 0.9]}, level=[0.5, 0.9], interval="predictive")
    assert there.mean.tolist() == answer["mean"]
    response = post_model(client, data)
    assert response.status_code == 201, response.text
    assert ask(client, response.json(), interval="predictive", level=[0.5, 0.9])["mean"] == answer["mean"]


@only("sqlite")
def test_classes(client, settings):
    """Three classes have a probability each."""
    body = {**SHORT, **METHODS["rjhmc-dfi"]}
    model = fitted(client, settings, text=kinds(), method="rjhmc-dfi", family="categorical", **body)
    answer = ask(client, model)
    assert sum(answer["mean"][0]) == pytest.approx(1)
    assert answer["mean"][0][0] > 0.6
    assert answer["mean"][1][2] > 0.6


def columns_of(text):
    """Return the two columns of a CSV text."""
    lines = [line.split(",") for line in text.splitlines()[1:]]
    return {"x": [float(x) for x, _ in lines]}, [y for _, y in lines]


@only("sqlite")
def test_a_fit_is_that_of_a_notebook(client, settings):
    """The service's fit equals a notebook's bit for bit, with verdict and topologies."""
    model = fitted(client, settings, text=numbers(), method="rjhmc-dfi", seed=3, **SOFT)
    X, y = columns_of(numbers())
    posterior = fit(X, np.array(y, float), method="rjhmc-dfi", seed=3, progress=False, **SOFT)

    answer = ask(client, model, interval="predictive", mcse=True, rhat=True, samples=3)

    expected = posterior.predict({"x": [0.1, 0.9]}, interval="predictive")
    assert answer["mean"] == expected.mean.tolist()
    assert answer["intervals"][0]["lower"] == expected.lower.tolist()
    assert len(answer["samples"][0]) == 3
    shapes = client.get(f"/models/{model['id']}/diagnostics").json()["topologies"]
    assert shapes == model["diagnostics"]["topologies"]
    assert [shape["topology"] for shape in shapes] == [each["topology"] for each in posterior.topologies()]
    assert sum(shape["probability"] for shape in shapes) == pytest.approx(1)
    assert "topologies.svg" in client.get(f"/ui/models/{model['id']}/chains").text
    assert client.get(f"/ui/models/{model['id']}/charts/topologies.svg").status_code == 200
    for path in ("variable-importance", "draws"):
        assert client.get(f"/models/{model['id']}/{path}").status_code == 200
    effect = client.post(f"/models/{model['id']}/partial-dependence", json={"features": ["x"]}).json()
    assert effect["mean"][-1] - effect["mean"][0] > 2


def test_extended(client, settings):
    """An extension draws what one longer fit in a notebook draws."""
    model = fitted(client, settings, text=numbers(), method="rjhmc-df", **SOFT)
    assert extended(client, settings, f"/models/{model['id']}")["draws"] == 30
    X, y = columns_of(numbers())
    longer = fit(X, np.array(y, float), method="rjhmc-df", progress=False, **SOFT | {"num_draws": 30})
    answer = ask(client, model, draws=30)
    assert answer["mean"] == longer.predict({"x": [0.1, 0.9]}).mean.tolist()


@only("sqlite")
def test_pictures_and_whole_datasets_of_classes(client, settings):
    """Three classes have probabilities, charts of held-out rows, and predictions of a dataset."""
    model = fitted(
        client, settings, text=kinds(), method="rjhmc-dfi", family="categorical", holdout=0.2, **SOFT
    )
    assert model["holdout"]["log_loss"] < model["holdout"]["base_log_loss"]
    answer = ask(client, model, rhat=True)
    assert answer["classes"] == [*KINDS]
    assert np.argmax(answer["mean"], axis=1).tolist() == [0, 2]
    for name in ("held-out", "calibration", "agreement"):
        assert client.get(f"/ui/models/{model['id']}/charts/{name}.svg").status_code == 200
    response = client.post(f"/models/{model['id']}/predictions", json={"dataset_id": model["dataset_id"]})
    assert response.status_code == 202, response.text
    run_units(settings)
    result = client.get(f"/predictions/{response.json()['id']}/result").json()
    assert np.shape(result["mean"]) == (120, 3)


def test_a_chain_continues_where_another_worker_left_it(client, database, settings):
    """A chain left by a worker, in burn-in or later, continues to the draws of an uninterrupted one."""
    whole = fitted(client, settings, text=numbers(60), method="rjhmc-df", **SOFT)
    body = {"dataset_id": whole["dataset_id"], "target": "y", "method": "rjhmc-df"} | SOFT
    response = client.post("/models", json=body)
    assert response.status_code == 202, response.text

    give_back(database.engine, take_chains(database.engine, 7, 0))
    run_units(settings)

    again = client.get(response.headers["location"]).json()
    assert again["state"] == "succeeded"
    assert again["diagnostics"] == whole["diagnostics"]
    assert ask(client, again)["mean"] == ask(client, whole)["mean"]
