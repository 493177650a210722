"""Examples in the documents run unchanged: every Python and curl block, on a real service."""

import base64
import doctest
import importlib
import json
import re
import shlex
import subprocess
import threading
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from app.cli import app
from app.client import Client
from app.services.access import keys
from app.services.webhook_sending import signed
from app.store import schema
from app.store.webhooks import outbox as webhooks
from sampler import fit, load_many
from tests.support.processes import plain_http
from tests.support.processes.embedded_service import Up

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DEFAULT = "http://127.0.0.1:8000"


def blocks(path: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


def run_page(path: Path, names: dict | None = None) -> dict:
    """Run a page's Python blocks in order in one session that begins with `names`; return its names."""
    session = dict(names or {})
    for block in blocks(path, "python"):
        exec(compile(block, path.name, "exec"), session)
    return session


@pytest.fixture
def place(tmp_path, monkeypatch, service: Up) -> Path:
    """Enter a reader's folder with the examples; point the client at the service."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BARTSERVE_URL", service.address)
    monkeypatch.delenv("BARTSERVE_KEY", raising=False)
    return tmp_path


def curl(command: str, service: Up, replacements: dict[str, str]) -> dict:
    """Run a document's curl command on this service with real ids; return the response."""
    for name, value in replacements.items():
        command = command.replace(name, value)
    ran = subprocess.run(
        ["bash", "-c", command.replace(DEFAULT, service.address)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert "status" not in answer, answer
    return answer


def commands(block: str) -> list[str]:
    """Split a shell block into commands: a backslash or an open quote continues a line."""
    blocks, open_ = [], ""
    for line in block.splitlines():
        open_ += line + "\n"
        if not line.endswith("\\") and open_.count("'") % 2 == 0:
            blocks.append(open_)
            open_ = ""
    return blocks


@pytest.mark.slow
def test_the_tutorial_runs(place, service, capsys):
    """The tutorial's Python blocks run in order in one session, and so do its curl commands."""
    session = run_page(DOCS / "tutorial.md")
    session["bart"].close()
    output = capsys.readouterr().out
    assert re.search(r"\b(converged|approximate|not_converged)$", output, re.MULTILINE)
    assert "outside_range" in output
    assert "horsepower number 5" in output
    assert np.array_equal(session["before"].mean, session["answer"].mean)
    for block in blocks(DOCS / "tutorial.md", "sh"):
        for command in commands(block):
            assert curl(command, service, {})["num_rows"] == 397


@pytest.mark.slow
def test_the_page_about_the_verdict_runs(place, capsys):
    """The page's Python blocks run in order and show what the page says."""
    session = run_page(DOCS / "verdict.md")
    session["bart"].close()
    assert session["model"].draws > 225  # it was continued until a stop rule held
    assert session["careful"].document["stopped"]["by"] in {"rules", "max_seconds", "max_draws"}
    output = capsys.readouterr().out
    assert re.search(r"^(converged|approximate|not_converged) \[", output, re.MULTILINE)
    assert re.search(r"^(converged|approximate|not_converged)$", output, re.MULTILINE)


@pytest.mark.slow
def test_the_page_about_explanations_runs(monkeypatch, capsys):
    """The page's blocks run; weight and year matter most, and both are selected."""
    monkeypatch.chdir(ROOT)
    session = run_page(DOCS / "explanations.md")
    importance = session["importance"]
    assert {importance.names[j] for j in importance.order[:2]} == {"weight", "year"}
    assert {"weight", "year"} <= {name for pair in session["pairs"].pairs[:3] for name in pair}
    assert "['" in capsys.readouterr().out


@pytest.mark.slow
def test_the_page_about_forecasts_runs(tmp_path, monkeypatch, capsys):
    """The page's blocks forecast shops, states and electricity; what came is about where it was forecast."""
    monkeypatch.chdir(tmp_path)
    session = run_page(DOCS / "forecasts.md")
    assert (tmp_path / "sales.forecaster").exists()
    assert session["lead_time"].sets == {"region": ["east", "west"]}
    australia, came = session["australia"], session["later"]["Takings"].sum()
    assert came == pytest.approx(20_447, abs=1)
    assert [australia.lower[0], australia.upper[0]] == pytest.approx([18_013, 20_184], rel=0.02)
    table, demand = session["fortnight"].to_pandas(), session["plan"]["Demand"].to_numpy()
    assert 10 <= ((table["lower"] <= demand) & (demand <= table["upper"])).sum() <= 12
    total = session["fortnight"].total()
    assert [total.lower[0], total.upper[0]] == pytest.approx([2_686, 3_073], rel=0.02)
    assert total.lower[0] < demand.sum() < total.upper[0]
    assert "10 rehearsals" in capsys.readouterr().out


def test_the_page_about_contrasts_runs():
    """The page's block contrasts two weights of cars by their origin, in all averages that it names."""
    origin = np.array(["europe", "japan", "usa"] * 20)
    X = {"weight": np.linspace(1600, 5000, 60), "origin": origin}
    posterior = fit(X, 1e5 / X["weight"], num_trees=10, num_burnin=50, num_draws=50, progress=False)
    session = run_page(DOCS / "contrasts.md", {"posterior": posterior, "X": X})
    assert session["contrast"].average.mean > 0
    assert len(session["contrast"].groups) == 3


@pytest.mark.filterwarnings("ignore")  # of MLflow's own dependencies
def test_the_page_about_mlflow_runs(tmp_path, monkeypatch):
    """The page's block saves a model and loads it as MLflow's, with the same figures."""
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame({"weight": np.linspace(1600, 5000, 60)})
    y = (1e5 / rows["weight"]).to_numpy()
    posterior = fit(rows, y, num_trees=5, num_burnin=20, num_draws=20, progress=False)
    session = run_page(DOCS / "mlflow.md", {"posterior": posterior, "rows": rows})
    assert np.array_equal(session["figures"]["mean"], posterior.predict(rows).mean)


@pytest.mark.slow
def test_the_page_about_effects_runs():
    """The page's blocks find the effects that it says, of quitting and of a pupil more for each teacher."""
    session = run_page(DOCS / "effects.md")
    average = session["answer"].average
    assert average.rows == 1566
    ends = (average.mean, average.lower, average.upper)
    np.testing.assert_allclose(ends, [3.5, 2.7, 4.4], atol=0.06)
    assert session["people"]["qsmk"].sum() == 403
    by_age = session["table_1"].to_pandas().set_index("group")
    assert by_age.loc["average", "treated"] == 403 == by_age["treated"].iloc[-3:].sum()
    np.testing.assert_allclose(by_age["estimate"].iloc[-3:], [3.5, 3.6, 3.5], atol=0.06)
    assert session["table_2"]["after"].abs().max() < 0.05
    assert session["by_age"].sensitivity.shift == pytest.approx(2.7, abs=0.1)
    assert session["figure_2"].get_yticklabels()[-1].get_text() == session["table_2"]["feature"][0]
    pupil = session["of_pupils"].average
    np.testing.assert_allclose((pupil.mean, pupil.lower, pupil.upper), [-0.60, -1.13, -0.07], atol=0.006)


def test_the_page_about_totals_runs(capsys):
    """The page's block adds up rows by shop; totals of new shops are the least certain."""
    session = run_page(DOCS / "totals.md")
    assert "new" in capsys.readouterr().out
    total = session["total"]
    width = dict(zip(total.sets["shop"], total.upper - total.lower, strict=True))
    assert min(width["new"], width["newer"]) > 2 * max(width["s1"], width["s2"])
    assert session["middle"].rows.tolist() == [28]
    assert session["difference"].figure.endswith("shop = s1 less shop = s2")


@pytest.mark.long
def test_the_page_about_many_models_runs(place):
    """The page's blocks fit a model to each origin, and flag the row of an origin without one."""
    session = run_page(DOCS / "many-models.md")
    assert [*session["models"]] == ["1", "3", "2"]
    assert np.isnan(session["answer"].mean).tolist() == [False, False, True]
    assert len(load_many("cars-by-origin")) == 3


def test_the_page_about_engines_runs(place):
    """The page's block scores a table, and keeps the column that it says."""
    session = run_page(DOCS / "engines.md")
    assert session["scorer"](session["cars"])["name"].equals(session["cars"]["name"])


def test_the_page_about_own_models_runs():
    """The page's samplers recover what their data were drawn with, and go on from a packed state."""
    session = run_page(DOCS / "own-models.md")
    truth = np.random.default_rng(1)
    truth.integers(0, 10, 300), truth.uniform(size=(300, 2))
    of_groups = truth.normal(0, 0.7, 10)
    np.testing.assert_allclose(np.mean(session["draws"], axis=0), of_groups - of_groups.mean(), atol=0.25)
    assert 0.4 < np.mean(session["sds"]) < 1.2
    assert session["posterior"].num_draws == 1000
    low, high = np.mean(session["probabilities"], axis=0)
    assert low < 0.25 < 0.75 < high
    session["trees"].step(10)
    np.testing.assert_array_equal(session["later"].sums, session["trees"].sums)


@pytest.mark.slow
def test_the_page_about_groups_runs():
    """The page's blocks run on the Exam data, and print its figures."""
    session = run_page(DOCS / "groups.md")
    posterior, schools = session["posterior"], session["schools"]
    assert posterior.summary().verdict == "converged"
    assert schools.standard_deviation["mean"] == pytest.approx(0.28, abs=0.005)
    assert schools.share == pytest.approx(0.125, abs=0.005)
    assert schools.mean[schools.groups.index("54")] == pytest.approx(-0.611, abs=0.001)
    prediction = posterior.predict(session["pupil"])
    assert prediction.mean.round(2).tolist() == [0.39, 0.05]
    assert prediction.lower.round(2).tolist() == [-0.85, -1.26]
    new, out = posterior.predict(session["X"][session["left_out"]]), session["y"][session["left_out"]]
    assert np.mean((new.lower <= out) & (out <= new.upper)) == pytest.approx(0.88, abs=0.005)


@pytest.mark.filterwarnings("ignore:subject is left out")
def test_the_page_about_new_rows_runs():
    """The page's blocks run, and the claim is of new subjects."""
    session = run_page(DOCS / "validity.md")
    assert "about 0.9 of the rows of a new value of subject" in session["answer"].claims[0].text
    assert [each.name for each in session["claim"].subgroups] == [
        "region = a",
        "region = b",
        "region = c",
        "old",
    ]


@pytest.mark.slow
def test_the_page_about_classes_runs():
    """The page's table has the probabilities and scores that it says."""
    session = run_page(DOCS / "classes.md")
    prediction = session["prediction"]
    assert prediction.classes == ("fulltime", "not.work", "parttime")
    np.testing.assert_allclose(prediction.mean, [[0.69, 0.24, 0.07], [0.08, 0.75, 0.17]], atol=0.02)
    assert session["scores"]["log_loss"] == pytest.approx(0.838, abs=0.005)


@pytest.mark.slow
def test_the_page_about_ordered_classes_runs():
    """The page's table has the probabilities, ends and scores that it says."""
    session = run_page(DOCS / "ordinal.md")
    prediction = session["prediction"]
    assert prediction.classes == ("Low", "Medium", "High")
    np.testing.assert_allclose(prediction.mean, [[0.34, 0.28, 0.39], [0.10, 0.19, 0.71]], atol=0.01)
    np.testing.assert_allclose(prediction.lower[:, 0], [0.25, 0.05], atol=0.01)
    assert session["scores"]["rps"] == pytest.approx(0.213, abs=0.001)


@pytest.mark.slow
def test_the_page_about_hurdles_runs():
    """The page's table has the means, probabilities and scores that it says."""
    session = run_page(DOCS / "hurdle.md")
    np.testing.assert_allclose(session["prediction"].mean, [930, 274], atol=5)
    np.testing.assert_allclose(session["law"].prob(0), [0.33, 0.79], atol=0.01)
    assert session["scores"]["crps"] == pytest.approx(342, abs=2)


@pytest.mark.slow
def test_the_page_about_monotone_features_runs():
    """The page's house has the prices that it says, intervals are narrower, and free draws fall."""
    session = run_page(DOCS / "monotone.md")
    np.testing.assert_allclose(session["prediction"].mean, [47_000, 55_600, 62_200, 68_100], atol=100)
    np.testing.assert_allclose(session["width"], [15_800, 19_300], atol=100)
    assert session["falls"] == pytest.approx(0.19, abs=0.01)
    np.testing.assert_allclose(session["scores"], [9_130, 9_060], atol=10)


@pytest.mark.slow
def test_the_page_about_rules_of_categories_runs():
    """Dear districts and cheap ones are told apart, and a new one may be either."""
    at = run_page(DOCS / "categories.md")["at"]
    np.testing.assert_allclose(at.mean[:2], [180, 260], atol=12)
    width = at.upper - at.lower
    assert width[2] > 2 * max(width[0], width[1])
    assert at.lower[2] < 200 < 240 < at.upper[2]


@pytest.mark.slow
def test_the_page_about_places_runs():
    """The surface is found where rows were, and its whole spread is in intervals elsewhere."""
    at = run_page(DOCS / "spatial.md")["at"]
    width = at.upper - at.lower
    assert at.mean[0] == pytest.approx(3 * np.sin(50 / 15) * np.cos(50 / 20), abs=0.6)
    assert width[0] < 0.5 * min(width[1], width[2])


@pytest.mark.long
def test_the_page_about_several_outcomes_runs():
    """The page's table has the means, regions and gain that it says."""
    session = run_page(DOCS / "several_outcomes.md")
    assert session["correlation"] == pytest.approx(-0.20, abs=0.02)
    alone, given = session["alone"], session["given"]
    np.testing.assert_allclose(alone.mean, [[28.4, 68.8]], rtol=0.01)
    np.testing.assert_allclose(alone.simultaneous_upper, [[33.7, 92.8]], rtol=0.01)
    assert given.mean[0, 0] == pytest.approx(28.0, abs=0.2)
    assert session["scores"].gain == pytest.approx(0.060, abs=0.01)
    rows, outcomes = session["X"].iloc[session["held"]], session["Y"].iloc[session["held"]]
    assert session["uneven"].score(rows, outcomes).log_score == pytest.approx(-6.26, abs=0.03)
    assert session["scores"].log_score == pytest.approx(-6.37, abs=0.02)
    assert list(session["unrelated"]["mpg"].inclusion().names) == session["own"]["mpg"]


@pytest.mark.slow
def test_the_page_about_counts_runs():
    """The page's tables have the means, intervals and probabilities that it says."""
    session = run_page(DOCS / "counts.md")
    np.testing.assert_allclose(session["days"].mean, [15.6, 7.8], atol=0.3)
    np.testing.assert_allclose(session["days"].upper, [46, 23], atol=1)
    np.testing.assert_allclose(session["means"].lower, [9.0, 4.4], atol=0.5)
    np.testing.assert_allclose(session["zero_to_three"][0], [0.042, 0.047, 0.049, 0.049], atol=0.004)
    assert session["posterior"].dispersion.mean() == pytest.approx(1.32, abs=0.05)
    np.testing.assert_allclose(session["expected"].mean, [13.1, 34.5], atol=1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is left out")
def test_the_pages_about_methods_run(place, service):
    """The pages show what they say, by the library, over HTTP and on the command line."""
    trees = run_page(DOCS / "single-trees.md")
    light, heavy = trees["answer"].upper - trees["answer"].lower
    assert light > 2 * heavy
    assert run_page(DOCS / "smc.md")["gain"] > 100
    assert run_page(DOCS / "rjhmc.md")["tree"].topologies(most=1)
    found = run_page(DOCS / "dcc-tree.md")["tree"].topologies(most=1)[0]
    assert found["topology"] in ("(.(..))", "((..).)")
    assert run_page(DOCS / "particle-gibbs.md")["whole"].summary().moves["pg"]["accepted"] > 0
    recipes = run_page(DOCS / "recipes.md")
    assert (recipes["paper"].settings["num_trees"], recipes["wider"].settings["num_trees"]) == (200, 50)
    with Client(service.address) as client:
        dataset = client.upload("examples/auto_mpg.csv").id
    for name in ("single-trees", "smc", "rjhmc", "dcc-tree", "particle-gibbs", "recipes"):
        (request,), commands = (blocks(DOCS / f"{name}.md", kind) for kind in ("sh", "console"))
        asked = curl(request, service, {"DATASET": dataset})
        _wait(service, asked["id"])
        for command in commands:
            ran = CliRunner().invoke(app, shlex.split(command)[1:])
            assert ran.exit_code == 0, ran.output


@pytest.mark.slow
def test_the_page_about_outcomes_runs(place, service):
    """The page's blocks run: the alarm of 1977, the calibration by 122 cars, and a model of all cars."""
    session = run_page(DOCS / "outcomes.md")
    reports = session["reports"]
    assert [reports[year]["verdict"] for year in range(76, 79)] == ["holds", *["no_longer_hold"] * 2]
    assert "since the week of 1976-12-27, 96% of 28 outcomes lie above" in reports[77]["text"]
    assert reports[76]["text"] in (DOCS / "outcomes.md").read_text()
    assert session["calibration"]["rows"] == 122
    assert reports[82]["text"].startswith("The intervals hold: of 59 outcomes 88.1%")
    assert session["bart"].dataset(session["newer"].dataset_id).num_rows == 397
    session["bart"].close()


@pytest.mark.slow
def test_the_receiver_of_the_page_about_webhooks_accepts_what_is_signed():
    """The receiver takes a delivery with either of two secrets once, and refuses what is forged or old."""
    session = run_page(DOCS / "webhooks.md")
    server, now = session["server"], int(time.time())
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}/bart"
    other = "whsec_" + base64.b64encode(b"o" * 32).decode()
    taken = webhooks.Taken("msg_1", "wh_1", "ann", url, '{"type": "test"}', 1, [other, session["SECRET"]])
    forged = replace(taken, secrets=[other])

    def status(delivery, at):
        return plain_http.post(url, content=delivery.body, headers=signed(delivery, at)).status_code

    assert [status(taken, now), status(taken, now)] == [204, 204]
    assert [status(forged, now), status(taken, now - 400)] == [401, 401]
    assert session["seen"] == {"msg_1": {"type": "test"}}
    server.shutdown()
    server.server_close()
    thread.join()
    page = (DOCS / "webhooks.md").read_text()
    assert all(f"| `{kind}` |" in page for kind in webhooks.EVENTS)


@pytest.mark.slow
def test_the_page_about_censored_outcomes_runs():
    """The page's table has the curves, medians and scores that it says; rows with limits are fitted."""
    whole, limits = blocks(DOCS / "survival.md", "python")
    session: dict = {}
    exec(compile(whole, "survival.md", "exec"), session)
    curves, posterior, test = session["curves"], session["posterior"], session["test"]
    np.testing.assert_allclose(curves.survival, [[0.72, 0.44, 0.13], [0.78, 0.52, 0.18]], atol=0.03)
    assert posterior.score(test, test["rfstime"])["concordance"] == pytest.approx(0.735, abs=0.01)
    x = np.linspace(0, 1, 40)
    y = np.where(x < 0.3, np.nan, x + 0.1 * np.sin(50 * x))
    session |= {
        "X": {"x": x},
        "y": y,
        "limit": np.full(40, 0.3),
        "low": np.zeros(40),
        "high": np.full(40, 0.35),
    }
    exec(compile(limits, "survival.md", "exec"), session)


@pytest.mark.slow
def test_the_page_about_bart_runs():
    """The page's notebook runs, and its statements on equality, noise and trees hold."""
    session = run_page(DOCS / "how-bart-works.md")
    credible, predictive = session["credible"], session["predictive"]
    assert session["f"].shape == (8, 100, 1)
    assert np.isclose(session["mean"], credible.mean[0])
    assert np.allclose([session["low"], session["high"]], [credible.lower[0], credible.upper[0]], atol=0.02)
    assert predictive.lower[0] < credible.lower[0] < credible.upper[0] < predictive.upper[0]
    assert 1 < session["posterior"].leaf_counts.mean() < 5
    assert 0.15 < session["posterior"].sigma.mean() < 0.25


def test_the_keys_of_the_page_about_deployment(tmp_path, monkeypatch):
    """The page's commands about keys run in order, and its table has all scopes."""
    monkeypatch.setenv("BARTSERVE_DATABASE_URL", f"sqlite:///{tmp_path / 'keys.db'}")
    schema.migrate(f"sqlite:///{tmp_path / 'keys.db'}")
    (block,) = blocks(DOCS / "deploy.md", "sh")
    secrets = {}
    for line in block.splitlines():
        ran = CliRunner().invoke(app, shlex.split(line)[1:])
        assert ran.exit_code == 0, (line, ran.output)
        secrets[line] = ran.stdout
    listed = secrets["bartserve keys list"].splitlines()
    assert listed[0].split()[1:4] == ["name", "owner", "scopes"]
    assert [line.split()[1:4] for line in listed[1:]] == [
        ["ann", "research", "read,predict,train"],
        ["shop", "research", "predict"],
        ["prometheus", "prometheus", "metrics"],
    ]
    text = (DOCS / "deploy.md").read_text()
    assert re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE)[: len(keys.SCOPES)] == list(keys.SCOPES)
    (scrape,) = blocks(DOCS / "deploy.md", "yaml")
    assert yaml.safe_load(scrape)["rule_files"] == ["alerts.yml"]


def rows_at_hand() -> dict[str, np.ndarray]:
    """Provide the data that notebook examples assume: rows with an outcome, and new ones."""
    generator = np.random.default_rng(0)
    X = generator.uniform(size=(60, 3))
    y = X[:, 0] + generator.normal(size=60) / 5
    return {"X": X, "y": y, "X_new": X[:4], "y_new": y[:4]}


def with_examples() -> list:
    """Return the modules whose docstrings have an example; those that fit in a service are slow."""
    sources = [
        path
        for package in ("app", "bartserve", "sampler", "worker")
        for path in (ROOT / package).rglob("*.py")
    ]
    files = [
        path.relative_to(ROOT)
        for path in sorted(sources)
        if re.search(r"^\s*>>> ", path.read_text(), re.MULTILINE)
    ]
    return [
        pytest.param(path, id=str(path), marks=[pytest.mark.slow] * ("Client()" in (ROOT / path).read_text()))
        for path in files
    ]


@pytest.mark.parametrize("path", with_examples())
def test_the_examples_of_docstrings_run(path, request):
    """Every `>>>` example of the sources passes doctest."""
    if "Client()" in (ROOT / path).read_text():
        request.getfixturevalue("place")
    try:
        module = importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    except ModuleNotFoundError as error:
        if error.name != "skpro":  # the lock of the tests can't have it, that of the measurements has
            raise
        pytest.skip("skpro is not installed")
    runner, failures = doctest.DocTestRunner(), []
    for example in doctest.DocTestFinder().find(module, globs=rows_at_hand()):
        runner.run(example, out=failures.append)
    assert runner.tries > 0
    assert runner.failures == 0, "".join(failures)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter:UserWarning")  # of rows so few
def test_the_python_reference_runs():
    """The reference's block holds rows out and scores a fit on them."""
    session = run_page(DOCS / "reference.md", rows_at_hand())
    assert len(session["held"]) == 12
    assert session["posterior"].predict(session["X_new"]).mean.shape == (4,)


def test_the_citation_is_of_this_version():
    """CITATION.cff, which citation managers read, has the package's version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == project["version"]


def test_every_page_with_python_is_run():
    """Every page with Python blocks is run by a test."""
    pages = {path.name for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")] if blocks(path, "python")}
    run = r'(?:run_page|blocks)\(\w+ / "([\w-]+\.md)"(?!, "(?:sh|yaml)")'
    assert pages == set(re.findall(run, Path(__file__).read_text()))


def test_the_readme_runs(place, service):
    """The README's curl commands run in order, and so does the page that has its Python."""
    replacements: dict[str, str] = {}
    answers = []
    for block in blocks(ROOT / "README.md", "sh"):
        for command in commands(block):
            if command.startswith("curl"):
                if "/predict" in command:
                    _wait(service, answers[-1]["id"])
                answers.append(curl(command, service, replacements))
                replacements.setdefault("DATASET", answers[0]["id"])
    assert len(answers) == 3
    (low, high) = answers[-1]["intervals"][1]["lower"][0], answers[-1]["intervals"][1]["upper"][0]
    assert low < answers[-1]["mean"][0] < high

    page = run_page(DOCS / "use.md", rows_at_hand())
    assert page["prediction"].mean.shape == (4,)
    lines = {line for block in blocks(DOCS / "use.md", "python") for line in block.splitlines()}
    assert set("\n".join(blocks(ROOT / "README.md", "python")).splitlines()) <= lines
    assert commands(blocks(DOCS / "use.md", "sh")[0]) == commands(blocks(ROOT / "README.md", "sh")[2])[:1]


def _wait(service: Up, model: str) -> None:
    with Client(service.address) as client:
        client.wait(model, seconds=300)
