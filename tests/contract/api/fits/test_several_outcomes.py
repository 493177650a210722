"""Several outcomes over HTTP: fits, joint predictions, pages, files, extension, refits and refusals."""

import numpy as np
import pytest

from sampler import load
from tests.support.api_calls import post_csv, problem
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, fitted, run_units

NEW = [{"u": 0.2, "v": 0.8}, {"u": 0.7, "v": 0.3}]
TARGETS = ["a", "b"]


def pupils(num_rows: int = 100) -> str:
    """Make a table of two outcomes with correlated errors, of which the second has holes, and others."""
    rng = np.random.default_rng(4)
    u, v = rng.uniform(size=(2, num_rows))
    errors = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], num_rows)
    lines = [
        f"{u[i]:.4f},{v[i]:.4f},{3 * u[i] + errors[i, 0]:.4f},"
        f"{'' if i % 5 == 0 else f'{10 * errors[i, 1]:.4f}'},{'xyz'[i % 3]}"
        for i in range(num_rows)
    ]
    return "u,v,a,b,school\n" + "".join(f"{line}\n" for line in lines)


@pytest.fixture
def model(client, settings):
    """Return a model fitted to two outcomes, with held-out rows."""
    return fitted(client, settings, text=pupils(), target=TARGETS, features=["u", "v"], holdout=0.3)


@only("sqlite")
def test_several_outcomes_go_all_the_way(client, settings, model, tmp_path):
    """Joint answers equal those of the downloaded file; other answers are about the first outcome."""
    assert (model["target"], model["settings"]["outcomes"]) == ("a", TARGETS)
    assert model["holdout"]["rmse"] > 0
    path = f"/models/{model['id']}"
    answer = client.post(f"{path}/joint", json={"rows": NEW, "level": 0.8}).json()
    (tmp_path / "model.bart").write_bytes(client.get(f"{path}/file").content)
    own = load(tmp_path / "model.bart")
    assert own.outcomes == tuple(TARGETS)
    found = own.predict(NEW, 0.8)
    for name in ("mean", "upper", "simultaneous_lower", "covariance", "radius", "effective_draws"):
        np.testing.assert_allclose(answer[name], getattr(found, name), rtol=1e-9)
    given = client.post(
        f"{path}/joint", json={"rows": [row | {"b": 12.0} for row in NEW], "given": ["b"]}
    ).json()
    assert np.all(np.array(given["sd"])[:, 0] < np.array(answer["sd"])[:, 0])
    assert [row[1] for row in given["mean"]] == [12.0, 12.0]
    first = client.post(f"{path}/predict", json={"rows": NEW}).json()["mean"]
    np.testing.assert_allclose([row[0] for row in answer["mean"]], first)
    for part, body in (("shap", {"rows": NEW}), ("distribution", {"rows": NEW})):
        assert client.post(f"{path}/{part}", json=body).status_code == 200, part
    for tab in ("", "/chains", "/effects?part=all", "/features", "/predict", "/what-if"):
        assert client.get(f"/ui{path}{tab}").status_code == 200, tab
    for part in ("diagnostics", "variable-importance", "draws", "card", "holdout"):
        assert client.get(f"{path}/{part}").status_code == 200, part
    assert client.post(f"{path}/extend", json={"num_draws": 10}).status_code == 202
    run_units(settings)
    longer = client.get(path).json()
    assert (longer["state"], longer["draws"]) == ("succeeded", model["draws"] + 10)
    assert client.post(f"{path}/joint", json={"rows": NEW}).json()["mean"] != answer["mean"]


@only("sqlite")
def test_default_lengths_refits_and_background_predictions(client, settings, model):
    """A refit has the outcomes too; studies are refused; stored predictions are of the first outcome."""
    path = f"/models/{model['id']}"
    dataset = post_csv(client, "u,v\n0.2,0.8\n0.7,0.3\n").json()
    prediction = client.post(f"{path}/predictions", json={"dataset_id": dataset["id"]}).json()
    study = client.post(f"{path}/studies", json={"kind": "selection", "permutations": 20})
    assert "several outcomes" in problem(study, 409)["detail"]
    refit = client.post(f"{path}/refit", json={})
    assert refit.status_code == 202, refit.text
    run_units(settings)
    again = client.get(f"/models/{refit.json()['id']}").json()
    assert (again["state"], again["settings"]["outcomes"]) == ("succeeded", TARGETS)
    stored = client.get(f"/predictions/{prediction['id']}/result").json()
    assert stored["mean"] == client.post(f"{path}/predict", json={"rows": NEW}).json()["mean"]
    wrong = client.post(f"{path}/joint", json={"rows": NEW, "given": ["c"]})
    assert "given" in problem(wrong, 422)["detail"]
    text = [row | {"b": "much"} for row in NEW]
    wrong = client.post(f"{path}/joint", json={"rows": text, "given": ["b"]})
    assert "a number" in problem(wrong, 422)["detail"]
    assert client.post(f"{path}/joint", json={"rows": NEW, "given": ["b"]}).status_code == 422


@only("sqlite")
def test_stop_rules_look_at_every_outcome(client, settings):
    """A fit with stop rules ends, with draws of both outcomes."""
    stop = {"verdict": "approximate", "max_draws": 40}
    model = fitted(client, settings, text=pupils(), target=TARGETS, features=["u", "v"], stop=stop)
    answer = client.post(f"/models/{model['id']}/joint", json={"rows": NEW})
    assert answer.status_code == 200, answer.text


@only("sqlite")
def test_one_outcome_has_no_joint_predictions(client, settings):
    """Models of one outcome say what to ask instead."""
    model = fitted(client, settings)
    answer = client.post(f"/models/{model['id']}/joint", json={"rows": [{"size": 1, "colour": "red"}]})
    assert "list of targets" in problem(answer, 422)["detail"]


def test_what_several_outcomes_do_not_go_with_is_refused_before_the_202(client):
    """Refusals name the field or the column and what to change; the estimate counts all outcomes."""
    dataset = post_csv(client, pupils()).json()
    body = {"dataset_id": dataset["id"], "target": TARGETS, "features": ["u", "v"]} | SMALL
    for more, words in (
        ({"target": ["a"]}, "target"),
        ({"target": ["a", "a"]}, "twice"),
        ({"target": ["a", "c"]}, "no such column"),
        ({"target": ["a", "school"]}, "school"),
        ({"target": ["b", "a"]}, "missing"),
        ({"target": 5}, "target"),
        ({"noise": "forest"}, "noise"),
        ({"family": "probit"}, "family"),
        ({"groups": ["school"]}, "groups"),
        ({"weights": "u", "features": ["v"]}, "weights"),
        ({"calibrate": "folds"}, "calibrate"),
        ({"new_rows": {"groups": "school"}}, "new_rows"),
        ({"method": "bcart", "num_trees": None}, "method"),
        ({"prior": {"sigma": 1.0}}, "prior entry sigma"),
        ({"features": ["u", "b"]}, "b"),
    ):
        answer = client.post("/models", json=body | more)
        assert answer.status_code == 422, (more, answer.text)
        assert words in answer.text, (more, answer.text)
    lengths = {"num_trees": 200, "num_draws": 1000, "noise": "constant"}
    one, two = (
        client.post("/models/estimate", json=body | lengths | {"target": target}).json()["seconds"]
        for target in ("a", TARGETS)
    )
    assert two > 1.2 * one
