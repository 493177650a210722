"""Single-tree methods in the service: accepted, fitted by the worker's functions, and queried."""

import io

import numpy as np
import pyarrow as pa
import pytest

from tests.support.api_calls import of_file, post_csv, post_model
from tests.support.databases import only
from tests.support.models.fitted_models import extended, fitted, run_units
from tests.support.models.single_tree_models import KINDS, ask, kinds, numbers

ONE = {"num_trees": 1, "num_draws": 60, "num_burnin": 400, "thin": 10}


@pytest.mark.parametrize(
    "method", ["bcart", pytest.param("bcart-mean-variance", marks=pytest.mark.slow), "bcart-wu"]
)
def test_numbers(client, settings, method):
    """A tree is fitted, judged and scored; intervals follow the noise where leaves have their own."""
    model = fitted(client, settings, text=numbers(), method=method, holdout=0.2, **ONE)
    assert model["settings"]["num_trees"] == 1
    assert model["holdout"]["rmse"] < model["holdout"]["linear_rmse"]

    answer = ask(client, model, interval="predictive", level=[0.5, 0.9], mcse=True, rhat=True, samples=3)

    assert answer["mean"] == pytest.approx([1, 4], abs=0.6)
    width = np.subtract(answer["intervals"][1]["upper"], answer["intervals"][1]["lower"])
    assert (width[1] > 3 * width[0]) == (method == "bcart-mean-variance")
    assert len(answer["samples"][0]) == 3
    for path in ("variable-importance", "draws", "card"):
        assert client.get(f"/models/{model['id']}/{path}").status_code == 200
    shapes = client.get(f"/models/{model['id']}/diagnostics").json()["topologies"]
    assert shapes == model["diagnostics"]["topologies"]
    chances = [shape["probability"] for shape in shapes]
    assert chances == sorted(chances, reverse=True)
    assert 0.3 < sum(chances) < 1 + 1e-9
    assert all(set(shape["topology"]) == {*"(.)"} for shape in shapes)
    page = client.get(f"/ui/models/{model['id']}/chains").text
    assert "topologies.svg" in page
    drawn = client.get(f"/ui/models/{model['id']}/charts/topologies.svg")
    assert drawn.status_code == 200
    assert f">{100 * shapes[0]['probability']:.3g}%<" in drawn.text
    effect = client.post(f"/models/{model['id']}/partial-dependence", json={"features": ["x"]}).json()
    assert effect["mean"][-1] - effect["mean"][0] > 2


def test_extended_and_moved(client, settings):
    """A tree is extended, and its file gives equal answers in a notebook and imported again."""
    model = fitted(client, settings, text=numbers(), method="bcart", **ONE)
    assert extended(client, settings, f"/models/{model['id']}", num_draws=20)["draws"] == 80
    data = client.get(f"/models/{model['id']}/file").content
    answer = ask(client, model, draws=80)
    assert of_file(client, model).predict({"x": [0.1, 0.9]}).mean.tolist() == answer["mean"]
    back = post_model(client, data)
    assert back.status_code == 201, back.text
    assert ask(client, back.json())["mean"] == answer["mean"]


@only("sqlite")
def test_classes(client, settings):
    """Three classes have probabilities with intervals, [row][class] in JSON and columns in tables."""
    model = fitted(client, settings, text=kinds(), method="bcart", family="auto", holdout=0.2, **ONE)
    assert model["settings"]["family"] == "categorical"
    assert model["holdout"]["log_loss"] < model["holdout"]["base_log_loss"]

    holdout = client.get(f"/models/{model['id']}/holdout").json()
    rows = holdout["rows"]
    lines = [line.split(",") for line in kinds().splitlines()[1:]]
    new_rows = {"columns": {"x": [float(lines[i - 1][0]) for i in rows["row"]]}}
    predicted = np.array(client.post(f"/models/{model['id']}/predict", json=new_rows).json()["mean"])
    own = [KINDS.index(lines[i - 1][1]) for i in rows["row"]]
    assert rows["actual"] == own
    assert rows["mean"] == predicted[np.arange(24), own].tolist()
    assert rows["predicted"] == predicted.argmax(axis=1).tolist()
    right = np.mean(predicted.argmax(axis=1) == own)
    assert right == pytest.approx(model["holdout"]["accuracy"])
    assert sum(e["observed"] * e["rows"] for e in holdout["calibration"]) == pytest.approx(24 * right)
    assert sum(e["level"] * e["rows"] for e in holdout["calibration"]) == pytest.approx(
        predicted.max(1).sum()
    )
    for name in ("held-out", "calibration", "agreement"):
        assert client.get(f"/ui/models/{model['id']}/charts/{name}.svg").status_code == 200
    page = client.get(f"/ui/models/{model['id']}/checks").text
    assert "Probability of the actual class" in page

    answer = ask(client, model, quantiles=[0.5], mcse=True, rhat=True, samples=2)

    assert answer["classes"] == [*KINDS]
    mean = np.array(answer["mean"])
    assert mean.shape == (2, 3)
    np.testing.assert_allclose(mean.sum(axis=1), 1)
    assert mean[0].argmax() == 0
    assert mean[1].argmax() == 2
    (interval,) = answer["intervals"]
    assert np.all(np.array(interval["lower"]) <= mean)
    assert np.all(mean <= np.array(interval["upper"]))
    assert np.shape(answer["samples"]) == (2, 3, 2)
    path = f"/models/{model['id']}/predict"
    body = {"columns": {"x": [0.1, 0.9]}}
    table = client.post(path, json=body, headers={"Accept": "text/csv"}).text
    assert table.splitlines()[0].replace('"', "").startswith("mean_a,mean_b,mean_c,sd_a")
    for path in ("diagnostics", "variable-importance", "draws", "card"):
        assert client.get(f"/models/{model['id']}/{path}").status_code == 200
    effect = client.post(f"/models/{model['id']}/partial-dependence", json={"features": ["x"], "ice": True})
    assert effect.status_code == 200, effect.text
    mean = np.array(effect.json()["mean"])
    assert mean[0].argmax() == 0
    assert mean[-1].argmax() == 2
    assert np.shape(effect.json()["ice"]["mean"])[1:] == mean.shape
    page = client.get(f"/ui/models/{model['id']}/effects?part=all")
    assert page.status_code == 200
    assert "the probability of each class" in page.text
    drawn = client.get(f"/ui/models/{model['id']}/dependence.svg", params={"feature": "x"})
    assert drawn.status_code == 200
    assert all(f">{kind}<" in drawn.text for kind in KINDS)
    page = client.get(f"/ui/models/{model['id']}/predict", params={"f0": "0.1"})
    assert page.status_code == 200
    assert "Probabilities" in page.text
    assert client.get(f"/ui/models/{model['id']}/density.svg", params={"f0": "0.1"}).status_code == 422


@only("sqlite")
def test_classes_of_a_dataset(client, settings):
    """Background predictions have JSON [row][class], and one Arrow column per class."""
    model = fitted(client, settings, text=kinds(), method="bcart", family="categorical", **ONE)
    response = client.post(f"/models/{model['id']}/predictions", json={"dataset_id": model["dataset_id"]})
    assert response.status_code == 202, response.text
    run_units(settings)
    result = f"/predictions/{response.json()['id']}/result"
    reply = client.get(result)
    assert reply.status_code == 200, reply.text
    mean = np.array(reply.json()["mean"])
    assert mean.shape == (120, 3)
    arrow = client.get(result, headers={"Accept": "application/vnd.apache.arrow.stream"}).content
    table = pa.ipc.open_stream(io.BytesIO(arrow)).read_all()
    np.testing.assert_array_equal(table.column("mean_b").to_numpy(), mean[:, 1])


@only("sqlite")
@pytest.mark.parametrize("method", ["bcart", "smc"])
def test_rows_with_weights(client, settings, method):
    """A column of weights is used: shifted heavy rows raise the mean above the step."""
    lines = [line.split(",") for line in numbers().splitlines()[1:]]
    shifted = [(x, float(y) + 2 * (i % 2), 1 + 20 * (i % 2)) for i, (x, y) in enumerate(lines)]
    text = "x,y,w\n" + "".join(f"{x},{y},{w}\n" for x, y, w in shifted)
    fits = {"text": text, "method": method, **ONE}
    if method == "smc":
        fits |= {"num_burnin": None, "thin": None, "num_draws": 200}
    plain = fitted(client, settings, **fits, features=["x"])
    weighed = fitted(client, settings, **fits, weights="w", holdout=0.2)
    assert ask(client, weighed)["mean"][1] > ask(client, plain)["mean"][1] + 0.4
    assert weighed["holdout"]["rows"] == 24


@only("sqlite")
def test_what_a_tree_cannot_use_is_refused_before_the_202(client):
    """Settings that a tree can't use are a 422 with the alternative."""
    dataset = post_csv(client, numbers()).json()
    body = {"dataset_id": dataset["id"], "target": "y", "method": "bcart"}

    def refusal(**more) -> str:
        answer = client.post("/models", json=body | more)
        assert answer.status_code == 422, answer.text
        return answer.json()["detail"] + str(answer.json()["errors"])

    assert "num_trees must be 1" in refusal(num_trees=200)
    assert "k" in refusal(prior={"k": 2})
    assert "unknown move 'rule'" in refusal(moves={"grow": 0.5, "prune": 0.5, "rule": 1.0})
    assert "unknown entry 'depth' of search" in refusal(method="dcc-tree", search={"depth": 3})
    assert "bcart, bcart-mean-variance, bcart-wu, smc" in refusal(method="forest")


@only("sqlite")
def test_no_predictive_interval_of_a_class(client, settings):
    """A predictive interval of a class is meaningless: 422 with an explanation."""
    model = fitted(client, settings, text=kinds(), method="bcart", family="categorical", **ONE)
    answer = client.post(
        f"/models/{model['id']}/predict", json={"rows": [{"x": 0.5}], "interval": "predictive"}
    )
    assert answer.status_code == 422
    assert "3 classes" in answer.json()["detail"]


@only("sqlite")
def test_weighted_particles(client, settings):
    """A particle filter is fitted, judged by its runs and weights, and queried; it can't be extended."""
    filtered = ONE | {"num_draws": 200, "num_burnin": None, "thin": None, "num_chains": 4}
    model = fitted(client, settings, text=numbers(), method="smc", holdout=0.2, **filtered)
    assert model["progress"]["fraction"] == 1
    weights = model["diagnostics"]["weights"]
    assert len(weights["log_evidence_runs"]) == 4
    assert weights["ess"] > 20
    answer = ask(client, model, interval="predictive", rhat=True, mcse=True, samples=5)
    assert 0 < answer["mcse"]["mean"][0] < 0.5
    assert 0 < answer["mcse"]["intervals"][0]["lower"][0] < 0.5
    assert answer["mean"] == pytest.approx([1, 4], abs=0.6)
    for path in ("diagnostics", "variable-importance", "draws", "card"):
        assert client.get(f"/models/{model['id']}/{path}").status_code == 200
    page = client.get(f"/ui/models/{model['id']}/chains")
    assert page.status_code == 200
    assert "Log evidence" in page.text
    assert "agreement.svg" not in page.text
    effect = client.post(f"/models/{model['id']}/partial-dependence", json={"features": ["x"]}).json()
    assert effect["mean"][-1] - effect["mean"][0] > 2
    for page in ("predict", "density.svg"):
        assert client.get(f"/ui/models/{model['id']}/{page}", params={"f0": "0.1"}).status_code == 200
    assert client.post(f"/models/{model['id']}/extend", json={"num_draws": 20}).status_code == 409
    body = {"dataset_id": model["dataset_id"], "target": "y", "method": "smc"}
    for refused in ({"stop": {"max_seconds": 5}}, {"thin": 2}, {"moves": "cgm"}, {"num_draws": 1_000_000}):
        assert client.post("/models", json=body | refused).status_code == 422
