"""MLflow: the flavour gives our numbers, also through MLflow's own server; a fit is logged where asked."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from tests.support.api_calls import of_file
from tests.support.databases import only
from tests.support.models.fitted_models import fitted, run_units

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own dependencies
    mlflow = pytest.importorskip("mlflow")
    import mlflow.pyfunc.scoring_server as scoring
    from mlflow.tracking import MlflowClient
    from starlette.testclient import TestClient

    import bartserve.mlflow as flavour
    from sampler import fit

pytestmark = pytest.mark.filterwarnings("ignore")  # of its own dependencies


@pytest.fixture
def rows() -> pd.DataFrame:
    """Rows of every kind, with missing cells."""
    rng = np.random.default_rng(1)
    n = 120
    frame = pd.DataFrame({
        "count": rng.integers(0, 20, n),
        "share": rng.uniform(size=n),
        "colour": rng.choice(["red", "green", "blue"], n),
        "code": pd.Categorical(rng.integers(1, 4, n)),
        "flag": rng.random(n) < 0.5,
        "day": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
    })  # fmt: skip
    frame.loc[::7, "share"] = np.nan
    frame.loc[::11, "colour"] = None
    frame.loc[::13, "day"] = pd.NaT
    return frame


def model_of(rows: pd.DataFrame):
    y = rows["count"] / 2 + 3 * (rows["colour"] == "red")
    lengths = {"num_trees": 10, "num_chains": 2, "num_burnin": 20, "num_draws": 20, "thin": 1}
    return fit(rows, y, **lengths, linear=False, progress=False, seed=1)


def test_the_flavour_gives_the_models_numbers(rows, tmp_path):
    """For integers, categories, dates and missing values; as a function, loaded, and over MLflow's server."""
    posterior = model_of(rows)
    flavour.save_model(posterior, tmp_path / "model")
    expected = posterior.predict(rows, level=0.8)
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    found = loaded.predict(rows, params={"level": 0.8})
    assert np.array_equal(found["mean"], expected.mean)
    assert np.array_equal(found["upper_80"], expected.upper)
    assert list(found.columns) == ["mean", "sd", "lower_80", "upper_80", "flags", "interval"]
    more = loaded.predict(rows, params={"quantiles": [0.25], "interval": "credible"})
    again = posterior.predict(rows, interval="credible", quantiles=0.25)
    assert np.array_equal(more["quantile_25"], again.quantiles[0].values)
    assert np.array_equal(flavour.load_model(str(tmp_path / "model")).predict(rows).mean, expected.mean)
    assert loaded.metadata.metadata["bartserve"]["target"] == posterior.schema.target.name
    assert [each.name for each in loaded.metadata.signature.inputs] == list(rows.columns)

    server = TestClient(scoring.init(loaded))
    split = json.loads(rows.to_json(orient="split", date_format="iso"))
    body = {"dataframe_split": {name: split[name] for name in ("columns", "data")}, "params": {"level": 0.8}}
    answer = server.post("/invocations", json=body)
    assert answer.status_code == 200, answer.text
    assert [row["upper_80"] for row in answer.json()["predictions"]] == expected.upper.tolist()


@only("sqlite")
def test_a_model_file_of_the_service_is_logged(client, settings, tmp_path, monkeypatch):
    """`log_model` takes a file's path; the model that MLflow then loads answers as the service does."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    model = fitted(client, settings, name="mine", seed=3)
    file = tmp_path / "mine.bart"
    file.write_bytes(client.get(f"/models/{model['id']}/file").content)
    mlflow.set_tracking_uri(f"file://{tmp_path / 'runs'}")
    with mlflow.start_run():
        info = flavour.log_model(file, name="mine")
    sent = [{"size": 3, "colour": "red"}]
    found = mlflow.pyfunc.load_model(info.model_uri).predict(pd.DataFrame(sent))
    assert found["mean"].tolist() == client.post("/models/mine/predict", json={"rows": sent}).json()["mean"]
    assert flavour.load_model(info.model_uri).num_draws == of_file(client, model).num_draws


@only("sqlite")
def test_a_fit_is_logged_to_the_tracking_server(client, settings, tmp_path, monkeypatch):
    """Settings, scores, verdict and card; and a server that isn't there fails no fit."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = f"file://{tmp_path / 'runs'}"
    dataset = fitted(client, settings)["dataset_id"]
    body = {"dataset_id": dataset, "target": "y", "name": "mine", "num_trees": 10, "num_chains": 2}
    body |= {"num_draws": 40, "num_burnin": 60, "thin": 1, "linear": False, "holdout": 0.3}
    model_id = client.post("/models", json=body).json()["id"]
    run_units(settings.model_copy(update={"mlflow_tracking_uri": uri}))
    model = client.get(f"/models/{model_id}").json()
    assert model["state"] == "succeeded"
    tracked = MlflowClient(uri)
    experiment = tracked.get_experiment_by_name("bartserve/local")
    (run,) = tracked.search_runs([experiment.experiment_id])
    assert run.info.run_name == "mine"
    assert run.data.metrics["rmse"] == model["holdout"]["rmse"]
    assert "coverage_90" in run.data.metrics
    assert run.data.params["num_trees"] == "10"
    assert run.data.tags["bartserve.verdict"] == model["verdict"]
    assert [each.path for each in tracked.list_artifacts(run.info.run_id)] == ["card.html"]

    other = client.post("/models", json=body | {"name": "other"}).json()["id"]
    run_units(settings.model_copy(update={"mlflow_tracking_uri": "nowhere://x"}))
    assert client.get(f"/models/{other}").json()["state"] == "succeeded"
