"""Explanations by very many draws: more than the bound is refused, and what is just below takes its time."""

import time

import numpy as np
import pytest

from sampler import fit
from sampler.storage.model_file import MEDIA_TYPE
from tests.support.api_calls import problem
from tests.support.databases import only

SECONDS = 2.0  # of a core, that one explanation may take (docs/deploy.md)
SLOWER = 5  # that a machine may be


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"max_predict_rows": 100_000, "max_body_bytes": 60_000_000})


@pytest.mark.long
@only("sqlite")
def test_explanations_of_100_000_rows_by_20_000_draws(client):
    """A request over the bound says how many rows are accepted; so many take about what is promised."""
    rng = np.random.default_rng(8)
    X = rng.random((90, 3))
    y = X[:, 0] - X[:, 1] ** 2 + 0.1 * rng.normal(size=90)
    short = {"num_trees": 1, "num_chains": 4, "num_draws": 5000, "num_burnin": 50, "thin": 1}
    file = fit(X, y, seed=6, progress=False, **short).to_bytes()
    model = client.post("/models", content=file, headers={"content-type": MEDIA_TYPE}).json()["id"]
    rows = {name: rng.random(100_000).round(3).tolist() for name in ("x1", "x2", "x3")}
    for path, body in {
        "contrast": {"first": {"x1": 0.1}, "second": {"x1": 0.9}},
        "aggregate": {},
        "distribution": {"quantiles": [0.5]},
        "accumulated-effects": {"feature": "x2"},
        "shap": {"draws": 20_000},
    }.items():
        address = f"/models/{model}/{path}"
        detail = problem(client.post(address, json=body | {"columns": rows}), 413)["detail"]
        most = int(detail.split("at most ")[1].split()[0])
        accepted = {name: values[:most] for name, values in rows.items()}
        began = time.process_time()
        response = client.post(address, json=body | {"columns": accepted})
        seconds = time.process_time() - began
        assert response.status_code == 200, response.text
        assert SECONDS / 20 < seconds < SECONDS * SLOWER, (path, most, seconds)
    began = time.process_time()
    surface = {"features": ["x1", "x2"], "draws": 2000, "columns": rows}
    response = client.post(f"/models/{model}/partial-dependence", json=surface)
    assert response.status_code == 200, response.text
    assert 20 <= response.json()["rows"] < 100_000
    assert time.process_time() - began < SECONDS * SLOWER
