"""Families and methods of another package: fitted, stored, explained and served without a change here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from app.client import Client
from sampler import PackedError, SettingsError, fit, load
from tests.support.processes.embedded_service import clean_environment, running_up
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tests" / "data" / "packages" / "mislabelled_rows"
SCRIPT = """
import json, sys
import numpy as np
from sampler import fit, load
rng = np.random.default_rng(0)
x = rng.uniform(size=300)
y = (x > 0.5) ^ (rng.uniform(size=300) < 0.1)
settings = {"num_trees": 10, "num_chains": 2, "num_burnin": 60, "thin": 1, "seed": 1, "progress": False}
posterior = fit({"x": x}, np.where(y, "yes", "no"), family="mislabelled", num_draws=30, **settings)
posterior.save(sys.argv[1])
again, new = load(sys.argv[1]), {"x": [0.1, 0.9]}
longer = fit({"x": x}, np.where(y, "yes", "no"), family="mislabelled", num_draws=40, **settings)
single = fit({"x": x}, x + rng.normal(size=300), method="short-bcart", progress=False)
print(json.dumps({
    "label": again.predict(new).mean.tolist(), "same": posterior.predict(new).mean.tolist(),
    "extended": bool(np.array_equal(posterior.extend(10, progress=False).sample(new), longer.sample(new))),
    "log_loss": again.score({"x": x}, np.where(y, "yes", "no"))["log_loss"],
    "importance": again.importance({"x": x}, np.where(y, "yes", "no")).mean.tolist(),
    "shap": again.shap(new, {"x": x}).values.shape, "draws": single.num_draws,
}))
"""


def environment() -> dict[str, str]:
    """Return an environment in which the package is installed."""
    paths = [str(PACKAGE), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return clean_environment() | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Fit in a process that has the package; return what it printed, and its model file."""
    file = tmp_path_factory.mktemp("own") / "own.bart"
    command = [sys.executable, "-c", SCRIPT, str(file)]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout), file


@pytest.mark.slow
def test_a_family_of_another_package_is_fitted_stored_and_explained(answers):
    """Probabilities stay within .1 and .9, since a tenth of the labels is wrong; chains go on exactly."""
    found, _ = answers
    low, high = found["label"]
    assert 0.1 <= low < 0.2
    assert 0.8 < high <= 0.9
    assert found["same"] == found["label"]
    assert found["extended"]
    assert found["log_loss"] < 0.45
    assert found["importance"][0] > 0.1
    assert found["shap"] == [2, 1]
    assert found["draws"] == 20


def test_where_the_package_is_absent_the_family_is_refused_by_name(answers):
    """Neither a fit nor its file is taken for something else."""
    _, file = answers
    with pytest.raises(SettingsError, match="mislabelled"):
        fit({"x": np.arange(20.0)}, ["a", "b"] * 10, family="mislabelled", progress=False)
    with pytest.raises(PackedError, match="family 'mislabelled', which no installed package has"):
        load(file)


@pytest.mark.slow
def test_a_family_of_another_package_is_served(tmp_path):
    """A service where it is installed fits it, offers it in its form, and answers as the library does."""
    rng = np.random.default_rng(1)
    x = rng.uniform(size=200)
    label = np.where(x > 0.5, "yes", "no")
    table = tmp_path / "rows.csv"
    table.write_text("x,label\n" + "\n".join(f"{a},{b}" for a, b in zip(x, label, strict=True)) + "\n")
    with running_up(tmp_path / "data", environment=environment()) as up, Client(up.address) as client:
        eventually(up.answers)
        eventually(up.ready)
        dataset = client.upload(table)
        settings = {"num_trees": 10, "num_chains": 2, "num_draws": 30, "num_burnin": 50, "seed": 1}
        model = client.wait(client.fit(dataset, "label", family="mislabelled", **settings))
        served = client.predict(model, [{"x": 0.05}, {"x": 0.95}])
        assert all(0.1 <= p <= 0.9 for p in served.mean)
        assert served.mean[0] < 0.3 < 0.7 < served.mean[1]
        assert client.model(model).settings["family"] == "mislabelled"
