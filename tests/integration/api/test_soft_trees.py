"""Trees of soft splits through the service: fitted in slices by the worker's functions, asked every way."""

import pytest

from sampler import load
from tests.integration.api.fitting import fitted
from tests.integration.api.test_single_trees import ask, kinds, numbers

SHORT = {"num_chains": 2, "num_trees": 1, "num_draws": 40, "num_burnin": 40}
SEARCH = {"iterations": 3, "first": 20, "chains": 2, "draws": 40, "samples": 4}
METHODS = {
    "rjhmc-df": {"thin": 2},
    "rjhmc-dfi": {"thin": 2},
    "dcc-tree": {"thin": 1, "search": SEARCH},
}


@pytest.mark.parametrize("method", METHODS)
def test_numbers(client, settings, method, tmp_path):
    """A step is found, judged and scored; every view of a model answers; its file does so elsewhere."""
    asked = {**SHORT, **METHODS[method]}
    model = fitted(client, settings, text=numbers(), method=method, holdout=0.2, **asked)
    assert model["holdout"]["rmse"] < model["holdout"]["linear_rmse"]
    said = ask(client, model, interval="predictive", level=[0.5, 0.9])
    assert said["mean"] == pytest.approx([1, 4], abs=0.6)
    for path in ("variable-importance", "draws", "diagnostics"):
        assert client.get(f"/models/{model['id']}/{path}").status_code == 200
    shapes = model["diagnostics"]["topologies"]
    assert 0.3 < sum(shape["probability"] for shape in shapes) < 1 + 1e-9
    effect = client.post(f"/models/{model['id']}/partial-dependence", json={"features": ["x"]}).json()
    assert effect["mean"][-1] - effect["mean"][0] > 2
    data = client.get(f"/models/{model['id']}/file").content
    (tmp_path / "model.bart").write_bytes(data)
    there = load(tmp_path / "model.bart").predict({"x": [0.1, 0.9]}, level=[0.5, 0.9], interval="predictive")
    assert there.mean.tolist() == said["mean"]
    taken = client.post("/models", content=data, headers={"content-type": "application/vnd.bartserve.model"})
    assert taken.status_code == 201, taken.text
    assert ask(client, taken.json(), interval="predictive", level=[0.5, 0.9])["mean"] == said["mean"]


def test_classes(client, settings):
    """Three classes: a probability of each."""
    asked = {**SHORT, **METHODS["rjhmc-dfi"]}
    model = fitted(client, settings, text=kinds(), method="rjhmc-dfi", family="categorical", **asked)
    said = ask(client, model)
    assert sum(said["mean"][0]) == pytest.approx(1)
    assert said["mean"][0][0] > 0.6
    assert said["mean"][1][2] > 0.6
