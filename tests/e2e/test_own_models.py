"""Families, methods and parts of other packages: fitted, stored, explained and served, no change here."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

from app.client import Client, ProblemError
from sampler import PackedError, SettingsError, fit, load
from tests.support.processes.embedded_service import clean_environment, running_up
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
NAMES = "mislabelled_rows", "level_constants", "stumps"
PACKAGES = [ROOT / "tests" / "data" / "packages" / name for name in NAMES]
OWN = {"level-constants": "city"}  # what a fit tells the part
SCRIPT = """
import json, pickle, sys
import numpy as np
from sampler import SettingsError, fit, load
from sampler.posterior.untrusted import read_contents
rng = np.random.default_rng(0)
x = rng.uniform(size=300)
y = (x > 0.5) ^ (rng.uniform(size=300) < 0.1)
settings = {"num_trees": 10, "num_chains": 2, "num_burnin": 60, "thin": 1, "seed": 1, "progress": False}
posterior = fit({"x": x}, np.where(y, "yes", "no"), family="mislabelled", num_draws=30, **settings)
posterior.save(sys.argv[1])
again, new = load(sys.argv[1]), {"x": [0.1, 0.9]}
longer = fit({"x": x}, np.where(y, "yes", "no"), family="mislabelled", num_draws=40, **settings)
single = fit({"x": x}, x + rng.normal(size=300), method="short-bcart", progress=False)
city = np.array(["a", "b", "c", "d"])[rng.integers(4, size=300)]
rows, own = {"x": x, "city": city}, {"parts": {"level-constants": "city"}}
level = np.sin(3 * x) + 5.0 * (city == "c") + 0.1 * rng.normal(size=300)
part = fit(rows, level, num_draws=30, **own, **settings)
part.save(sys.argv[2])
stored, at = load(sys.argv[2]), {"x": [0.5, 0.5], "city": ["a", "c"]}
with open(sys.argv[2], "rb") as file:
    untrusted = read_contents(file.read()).header
more = fit(rows, level, num_draws=40, **own, **settings)
refused = []
for told in ({"level-constants": "x"}, {"level-constants": 3}, {"level-constant": "city"}):
    try:
        fit(rows, level, parts=told, **settings)
    except SettingsError as error:
        refused.append([error.field, error.code])
both = fit(rows, level > 2, family="probit", num_draws=10, **own, **settings)
trees = {"moves": "pg", "prior": {"trees": "stumps", "split_chance": 0.9}}
stumps = fit(rows, level, num_draws=30, **trees, **settings)
stumps.save(sys.argv[3])
print(json.dumps({
    "mean": stored.predict(at).mean.tolist(), "told": stored.settings["parts"],
    "pickled": np.array_equal(pickle.loads(pickle.dumps(part)).sample(at), part.sample(at)),
    "goes_on": np.array_equal(part.extend(10, progress=False).sample(at), more.sample(at)),
    "again": np.array_equal(stored.extend(10, rows, level, progress=False).sample(at), more.sample(at)),
    "untrusted": untrusted == stored.header.to_bytes(), "card": stored.model_card().to_markdown(),
    "of_stumps": stumps.predict(at).mean.tolist(), "rows": [x.tolist(), city.tolist(), level.tolist()],
    "leaves": [int(stumps.leaf_counts.max()), float(stumps.leaf_counts.mean())],
    "refused": refused, "both": both.predict(at).mean.tolist(),
    "label": again.predict(new).mean.tolist(), "same": posterior.predict(new).mean.tolist(),
    "extended": bool(np.array_equal(posterior.extend(10, progress=False).sample(new), longer.sample(new))),
    "log_loss": again.score({"x": x}, np.where(y, "yes", "no"))["log_loss"],
    "importance": again.importance({"x": x}, np.where(y, "yes", "no")).mean.tolist(),
    "shap": again.shap(new, {"x": x}).values.shape, "draws": single.num_draws,
}))
"""


def environment() -> dict[str, str]:
    """Return an environment in which the package is installed."""
    paths = [*map(str, PACKAGES), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return clean_environment() | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Fit in a process that has the package; return what it printed, and its model files."""
    folder = tmp_path_factory.mktemp("own")
    files = [folder / f"{kind}.bart" for kind in ("family", "part", "trees")]
    command = [sys.executable, "-c", SCRIPT, *map(str, files)]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout), *files


@pytest.mark.slow
def test_a_family_of_another_package_is_fitted_stored_and_explained(answers):
    """Probabilities stay within .1 and .9, since a tenth of the labels is wrong; chains go on exactly."""
    found, *_ = answers
    low, high = found["label"]
    assert 0.1 <= low < 0.2
    assert 0.8 < high <= 0.9
    assert found["same"] == found["label"]
    assert found["extended"]
    assert found["log_loss"] < 0.45
    assert found["importance"][0] > 0.1
    assert found["shap"] == [2, 1]
    assert found["draws"] == 20


def test_a_part_of_another_package_is_fitted_stored_and_shown(answers):
    """Level c is 5 higher; files, pickles and chains go on exactly; what it can't be is refused by field."""
    found, *_ = answers
    low, high = found["mean"]
    assert abs(high - low - 5) < 0.3
    assert found["told"] == OWN
    assert found["pickled"]
    assert found["goes_on"]
    assert found["again"]
    assert found["untrusted"]
    assert "Each level of city has a constant beside the trees." in found["card"]
    assert found["both"][0] < 0.2 < 0.8 < found["both"][1]
    wrong, unknown = ["parts.level-constants", "not_applicable"], ["parts.level-constant", "unknown"]
    assert found["refused"] == [wrong, ["parts.level-constants", "not_accepted"], unknown]


def test_a_prior_of_trees_of_another_package_is_drawn_from(answers):
    """No tree has more than one split, though its rows would."""
    most, mean = answers[0]["leaves"]
    assert most == 2
    assert 1.5 < mean < 2


def test_where_the_packages_are_absent_family_and_part_are_refused_by_name(answers):
    """Neither a fit nor its file is taken for something else."""
    _, file, with_part, _ = answers
    with pytest.raises(SettingsError, match="mislabelled"):
        fit({"x": np.arange(20.0)}, ["a", "b"] * 10, family="mislabelled", progress=False)
    with pytest.raises(PackedError, match="family 'mislabelled', which no installed package has"):
        load(file)
    with pytest.raises(SettingsError, match="no installed package has a part 'level-constants'"):
        fit({"x": np.arange(20.0)}, np.arange(20.0), parts=OWN, progress=False)
    with pytest.raises(SettingsError, match=r"prior trees must be one of depth, .*, not 'stumps'"):
        fit({"x": np.arange(20.0)}, np.arange(20.0), moves="pg", prior={"trees": "stumps"}, progress=False)
    with pytest.raises(PackedError, match=r"^the model has the part 'level-constants', which"):
        load(with_part)


def test_where_the_package_is_absent_its_trees_predict_but_no_more_are_drawn(answers):
    """Drawn trees are trees as any other; the prior of others is refused by name."""
    found, *_, of_stumps = answers
    read = load(of_stumps)
    assert read.predict({"x": [0.5, 0.5], "city": ["a", "c"]}).mean.tolist() == found["of_stumps"]
    x, city, level = found["rows"]
    with pytest.raises(SettingsError, match="no installed package has trees 'stumps'"):
        read.extend(10, {"x": x, "city": city}, level, progress=False)


@pytest.mark.slow
def test_a_family_and_a_part_of_other_packages_are_served(tmp_path):
    """A service where they are installed fits them, offers them in its form, and answers as the library."""
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
        _check_served_part(client, up.address, tmp_path, settings)


def _check_served_part(client, address, folder, settings):
    """A part is estimated, refused, fitted, predicted and shown, all over HTTP."""
    rng = np.random.default_rng(2)
    city = np.array(["a", "b", "c"])[rng.integers(3, size=200)]
    rows = [f"{x},{each},{x + 5 * (each == 'c')}" for x, each in zip(rng.normal(size=200), city, strict=True)]
    (folder / "cities.csv").write_text("\n".join(["x,city,level", *rows]) + "\n")
    dataset = client.upload(folder / "cities.csv")
    plain, more = (client.estimate(dataset, "level", **settings, **own) for own in ({}, {"parts": OWN}))
    assert more["seconds"] > plain["seconds"]
    assert more["settings"]["parts"] == OWN
    with pytest.raises(ProblemError, match="a category among the features: 'x' is none") as refused:
        client.fit(dataset, "level", parts={"level-constants": "x"})
    assert refused.value.status == 422
    model = client.wait(client.fit(dataset, "level", parts=OWN, holdout=0.2, **settings))
    low, high = client.predict(model, [{"x": 0.0, "city": "a"}, {"x": 0.0, "city": "c"}]).mean
    assert 4 < high - low < 6
    assert "Constants by level" in client.model_card(model, "markdown")
    page = httpx.get(f"{address}/ui/models/{model.id}/settings").text
    assert re.search(r"Constants by level</dt>\s*<dd>city", page), page
    form = httpx.get(f"{address}/ui/models/new?dataset={dataset.id}&target=level&all=1").text
    assert "parts.level-constants" in form
