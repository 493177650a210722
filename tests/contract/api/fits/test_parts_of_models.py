"""Noise by row, heavy tails, the linear part and transforms over HTTP: the library's fits, also extended."""

import numpy as np
import pytest

from sampler import Posterior, fit, holdout_rows
from tests.support.api_calls import post_csv, problem
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, extended, fitted

pytestmark = only("sqlite")
PARTS = {
    "noise by row": {"noise": "forest"},
    "heavy tails": {"noise": "t"},
    "heavy tails by row": {"noise": "t-forest"},
    "linear part": {"linear": True},
    "logarithm": {"transform": "log"},
    "power, line and noise by row": {"transform": "yeo-johnson", "linear": True, "noise": "forest"},
}
SHORT = SMALL | {"num_draws": 15, "linear": False, "transform": "none"}
HOLDOUT, SEED = 0.2, 3


def rows():
    """Return 80 rows: positive outcomes whose noise grows, missing cells and weights."""
    rng = np.random.default_rng(6)
    x, z = np.round(rng.uniform(size=(2, 80)), 3)
    y = np.round(np.exp(x + 0.3 * z + 0.2 * (0.5 + x) * rng.normal(size=80)), 4)
    z[::9] = np.nan
    return {"x": x, "z": z}, y, np.tile([1.0, 2.0, 0.5, 1.0], 20)


def as_csv():
    X, y, weights = rows()
    cells = zip(y, X["x"], X["z"], weights, strict=True)
    lines = (f"{a},{b},{'' if np.isnan(c) else c},{w}" for a, b, c, w in cells)
    return "y,x,z,w\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.sampled(quick=2)
def test_fits_are_the_librarys(client, settings, part):
    """Fitted, stopped by rules, extended and stored as in the library, bit for bit; estimated dearer."""
    options = SHORT | PARTS[part] | {"weights": "w", "holdout": HOLDOUT, "seed": SEED}
    response = fitted(client, settings, text=as_csv(), name="mine", **options, stop={"max_rhat": 10.0})
    for name, value in PARTS[part].items():
        assert response["settings"][name] == value
    body = {"dataset_id": response["dataset_id"], "target": "y"}
    dear = client.post("/models/estimate", json=body | options).json()
    plain = client.post("/models/estimate", json=body | SHORT | {"weights": "w", "holdout": HOLDOUT}).json()
    assert dear["seconds"] >= plain["seconds"]
    assert set(response["holdout"]["intervals_verdict"]) >= {"verdict", "text"}
    path = f"/models/{response['id']}"
    extended(client, settings, path)

    X, y, weights = rows()
    train_rows = np.setdiff1d(np.arange(80), holdout_rows(80, HOLDOUT, SEED))
    training = {name: values[train_rows] for name, values in X.items()}
    settings_of_fit = SHORT | PARTS[part] | {"num_draws": 25, "num_burnin": SHORT["num_burnin"]}
    expected = fit(
        training,
        y[train_rows],
        weights[train_rows],
        target_name="y",
        seed=SEED,
        progress=False,
        **settings_of_fit,
    )
    downloaded = Posterior.from_bytes(client.get(f"{path}/file").content)
    np.testing.assert_array_equal(downloaded.sigma, expected.sigma)
    new = {"x": [0.1, 0.9], "z": [0.5, np.nan]}
    answer = client.post(
        f"{path}/predict", json={"columns": {"x": [0.1, 0.9], "z": [0.5, None]}, "level": [0.9]}
    ).json()
    prediction = expected.predict(new, 0.9)
    assert answer["mean"] == prediction.mean.tolist()
    assert answer["intervals"][0]["lower"] == prediction.lower.tolist()
    assert answer["intervals"][0]["upper"] == prediction.upper.tolist()


def test_a_mixture_is_the_librarys(client, settings):
    """Fitted without weights and predicted as in the library, bit for bit."""
    options = SHORT | {"noise": "mixture", "seed": SEED}
    response = fitted(client, settings, text=as_csv(), features=["x", "z"], **options)
    assert response["settings"]["noise"] == "mixture"
    X, y, _ = rows()
    expected = fit(X, y, target_name="y", progress=False, **options)
    body = {"columns": {"x": [0.1, 0.9], "z": [0.5, None]}, "level": [0.9]}
    answer = client.post(f"/models/{response['id']}/predict", json=body).json()
    prediction = expected.predict({"x": [0.1, 0.9], "z": [0.5, np.nan]}, 0.9)
    assert answer["mean"] == prediction.mean.tolist()
    assert answer["intervals"][0]["upper"] == prediction.upper.tolist()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"noise": "forests"}, "noise"),
        ({"noise": "forest", "method": "bcart", "num_trees": None}, "noise"),
        ({"noise": "t", "transform": "log"}, "transform"),
        ({"noise": "mixture", "weights": "w"}, "w"),
        ({"linear": True, "method": "bcart", "num_trees": None}, "linear"),
        ({"linear": "sometimes"}, "linear"),
        ({"transform": "square"}, "transform"),
        ({"transform": "log", "family": "poisson"}, "transform"),
    ],
    ids=str,
)
def test_refused_by_name(client, wrong, field):
    """Values that a part doesn't have, and parts that don't go together, are refused at their field."""
    dataset = post_csv(client, as_csv()).json()["id"]
    refusal = problem(
        client.post("/models", json={"dataset_id": dataset, "target": "y"} | SHORT | wrong), 422
    )
    assert field in {entry["column"] for entry in refusal["errors"]}, refusal


def test_outcomes_without_a_logarithm_are_refused(client):
    """The refusal names the target before anything is queued."""
    dataset = post_csv(client, as_csv() + "-1,.5,.5,1\n").json()["id"]
    body = {"dataset_id": dataset, "target": "y", "transform": "log"}
    refusal = problem(client.post("/models", json=body), 422)
    assert [(entry["column"], entry["code"]) for entry in refusal["errors"]] == [
        ("transform", "not_applicable")
    ]
    assert "row 81 has -1" in refusal["errors"][0]["detail"]
    assert client.get("/models").json()["items"] == []
