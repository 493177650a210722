"""Several outcomes over HTTP: fits, joint predictions, pages, files, extension, refits and refusals."""

import io
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest

from sampler import holdout_rows, select_features, tune
from tests.support.api_calls import of_file, post_csv, post_model, problem
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import SMALL, extended, fitted, run_units

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
def test_several_outcomes_go_all_the_way(client, settings, model):
    """Joint answers equal those of the downloaded file; other answers are about the first outcome."""
    assert (model["target"], model["settings"]["outcomes"]) == ("a", TARGETS)
    assert model["holdout"]["rmse"] > 0
    path = f"/models/{model['id']}"
    answer = client.post(f"{path}/joint", json={"rows": NEW, "level": 0.8}).json()
    own = of_file(client, model)
    assert own.outcomes == tuple(TARGETS)
    found = own.predict(NEW, 0.8)
    for name in ("mean", "upper", "simultaneous_lower", "covariance", "radius", "effective_draws"):
        np.testing.assert_allclose(answer[name], getattr(found, name), rtol=1e-9)
    given = client.post(
        f"{path}/joint", json={"rows": [row | {"b": 12.0} for row in NEW], "given": ["b"]}
    ).json()
    assert np.all(np.array(given["sd"])[:, 0] < np.array(answer["sd"])[:, 0])
    assert [row[1] for row in given["mean"]] == [12.0, 12.0]
    file = client.get(f"{path}/file").content
    back = post_model(client, file).json()
    assert (back["settings"]["outcomes"], back["verdict"]) == (TARGETS, model["verdict"])
    again = client.post(f"/models/{back['id']}/joint", json={"rows": NEW, "level": 0.8}).json()
    assert again == answer | {"model_id": back["id"]}
    of_b = {"rows": NEW, "outcome": "b"}
    assert client.post(f"/models/{back['id']}/predict", json=of_b).status_code == 200
    assert client.get(f"/ui/models/{back['id']}").status_code == 200
    first = client.post(f"{path}/predict", json={"rows": NEW}).json()["mean"]
    np.testing.assert_allclose([row[0] for row in answer["mean"]], first)
    for part, body in (("shap", {"rows": NEW}), ("distribution", {"rows": NEW})):
        assert client.post(f"{path}/{part}", json=body).status_code == 200, part
    for tab in ("", "/chains", "/effects?part=all", "/features", "/predict", "/what-if"):
        assert client.get(f"/ui{path}{tab}").status_code == 200, tab
    for part in ("diagnostics", "variable-importance", "draws", "card", "holdout"):
        assert client.get(f"{path}/{part}").status_code == 200, part
    longer = extended(client, settings, path)
    assert (longer["state"], longer["draws"]) == ("succeeded", model["draws"] + 10)
    assert client.post(f"{path}/joint", json={"rows": NEW}).json()["mean"] != answer["mean"]


@only("sqlite")
def test_every_outcome_can_be_asked(client, settings, model):
    """Every answer is about the first outcome or the one asked for, and says about which."""
    path = f"/models/{model['id']}"
    own = of_file(client, model)["b"]
    first = client.post(f"{path}/predict", json={"rows": NEW}).json()
    answer = client.post(f"{path}/predict", json={"rows": NEW, "outcome": "b"}).json()
    assert (first["outcome"], answer["outcome"]) == ("a", "b")
    np.testing.assert_allclose(answer["mean"], own.predict(NEW).mean)
    csv = client.post(
        f"{path}/predict?outcome=b", content="u,v\n0.2,0.8\n", headers={"content-type": "text/csv"}
    ).json()
    np.testing.assert_allclose(csv["mean"][0], answer["mean"][0])
    for part, body in {
        "shap": {"rows": NEW},
        "distribution": {"rows": NEW},
        "partial-dependence": {"features": ["u"]},
        "accumulated-effects": {"feature": "u"},
        "aggregate": {"rows": NEW},
        "contrast": {"first": {"u": 0.1}, "second": {"u": 0.9}},
    }.items():
        of_b = client.post(f"{path}/{part}", json=body | {"outcome": "b"})
        assert of_b.json()["outcome"] == "b", of_b.text
        assert of_b.json() != client.post(f"{path}/{part}", json=body).json() | {"outcome": "b"}, part
    for part in ("diagnostics", "variable-importance", "interactions", "diagnostics/growth"):
        assert client.get(f"{path}/{part}?outcome=b").json()["outcome"] == "b", part
    assert client.get(f"{path}/variable-importance?outcome=b").json()["permutation"]
    assert "outcome" in problem(client.get(f"{path}/diagnostics?outcome=c"), 422)["detail"]
    wrong = client.post(f"{path}/predict", json={"rows": NEW, "outcome": "c"})
    assert "a or b" in problem(wrong, 422)["detail"]
    dataset = post_csv(client, "u,v\n0.2,0.8\n0.7,0.3\n").json()
    asked = {"dataset_id": dataset["id"], "outcome": "b"}
    prediction = client.post(f"{path}/predictions", json=asked).json()
    totals = client.post(f"{path}/predictions", json=asked | {"aggregate": {"of": "sum"}}).json()
    run_units(settings)
    assert client.get(f"/predictions/{prediction['id']}/result").json()["mean"] == answer["mean"]
    sets = client.get(f"/predictions/{totals['id']}/result").json()["sets"]
    assert np.isclose(sets[0]["mean"], sum(answer["mean"]))


@only("sqlite")
def test_held_out_rows_score_every_outcome_and_all_together(client, model):
    """Scores are stored of each outcome and of all together, and shown on pages and the card."""
    path, stored = f"/models/{model['id']}", model["holdout"]
    assert stored["outcomes"]["b"]["rmse"] != stored["rmse"]
    joint = stored["joint"]
    assert np.isclose(joint["log_score"] - joint["separate_log_score"], joint["gain"])
    assert {each["level"] for each in joint["coverage"]} == {0.5, 0.8, 0.9, 0.95}
    held = client.get(f"{path}/holdout?outcome=b").json()
    assert held["target"] == "b"
    assert held["rows"] != client.get(f"{path}/holdout").json()["rows"]
    card = client.get(f"{path}/card?format=markdown").text
    assert "b: What can be used?" in card
    assert "What have the outcomes in common?" in card
    query = "f0=0.2&f1=0.8"
    for tab in ("", "/chains", "/features", f"/predict?{query}", "/what-if", "/effects?part=all"):
        sign = "&" if "?" in tab else "?"
        page = client.get(f"/ui{path}{tab}{sign}outcome=b")
        assert page.status_code == 200, tab
        assert 'aria-current="true">b</a>' in page.text, tab
        for chart in re.findall(r'src="(/ui/models/[^"]*svg[^"]*)"', page.text):
            assert "outcome=b" in chart, chart
            assert client.get(unescape(chart)).status_code == 200, chart
    assert "for all at once" in client.get(f"/ui{path}/predict?{query}&outcome=b").text
    assert "a, b together" in client.get(f"/ui{path}/checks").text
    assert client.get(f"/ui{path}/held-out.csv?outcome=b").status_code == 200
    assert client.get(f"/ui{path}?outcome=c").status_code == 422


@only("sqlite")
def test_default_lengths_refits_and_background_predictions(client, settings, model):
    """A refit has the outcomes too; stored predictions are of the first outcome."""
    path = f"/models/{model['id']}"
    dataset = post_csv(client, "u,v\n0.2,0.8\n0.7,0.3\n").json()
    prediction = client.post(f"{path}/predictions", json={"dataset_id": dataset["id"]}).json()
    study = client.post(f"{path}/studies", json={"kind": "calibration"})
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


OWN = {"a": ["u", "school"], "b": ["v"]}


@only("sqlite")
def test_columns_of_its_own_for_each_outcome(client, settings):
    """Trees of an outcome split on its own columns: in fits, refits, extensions, files and on pages."""
    told = {"features": OWN, "monotone": {"v": "increasing"}, "holdout": 0.3}
    model = fitted(client, settings, text=pupils(), target=TARGETS, **told)
    assert model["settings"]["features"] == OWN
    assert model["settings"]["columns"] == {"u": "number", "school": "category", "v": "number"}
    assert model["settings"]["monotone"] == told["monotone"]
    path, rows = f"/models/{model['id']}", [row | {"school": "x"} for row in NEW]
    answer = client.post(f"{path}/joint", json={"rows": rows}).json()
    assert not any("not used" in text for text in answer["warnings"])
    content = client.get(f"{path}/file").content
    own = of_file(client, model)
    np.testing.assert_allclose(answer["mean"], own.predict(rows).mean)
    for name, columns in OWN.items():
        ranked = client.get(f"{path}/variable-importance?outcome={name}").json()
        assert sorted(each["name"] for each in ranked["features"]) == sorted(columns)
        alone = [{column: row[column] for column in columns} for row in rows]
        told = client.post(f"{path}/predict", json={"rows": alone, "outcome": name}).json()
        np.testing.assert_allclose(told["mean"], own[name].predict(rows).mean)
        assert (
            client.post(f"{path}/shap", json={"rows": alone, "outcome": name}).json()["features"] == columns
        )
    both = "u,v,school\n0.2,0.8,x\n0.7,0.3,x\n"
    csv = client.post(f"{path}/predict?outcome=b", content=both, headers={"content-type": "text/csv"}).json()
    np.testing.assert_allclose(csv["mean"], [row[1] for row in answer["mean"]], rtol=1e-4)
    lacking = problem(client.post(f"{path}/joint", json={"rows": NEW}), 422)
    assert [each["column"] for each in lacking["errors"]] == ["school"]
    for tab in ("", "/features", "/predict?f0=0.2&f1=x&f2=0.8", "/what-if", "/effects?part=all", "/settings"):
        for outcome in TARGETS:
            page = client.get(f"/ui{path}{tab}{'&' if '?' in tab else '?'}outcome={outcome}")
            assert page.status_code == 200, (tab, outcome)
    assert "Features of b" in page.text
    back = post_model(client, content)
    assert back.status_code == 201, back.text
    imported = back.json()["settings"]
    assert (imported["features"], imported["columns"]) == (OWN, model["settings"]["columns"])
    dataset = post_csv(client, both).json()
    of_b = client.post(f"{path}/predictions", json={"dataset_id": dataset["id"], "outcome": "b"}).json()
    refit = client.post(f"{path}/refit", json={})
    extended(client, settings, path)
    stored = client.get(f"/predictions/{of_b['id']}/result").json()["mean"]
    np.testing.assert_allclose(stored, [row[1] for row in answer["mean"]], rtol=1e-4)
    assert client.get(f"/models/{refit.json()['id']}").json()["settings"]["features"] == OWN
    assert client.get(path).json()["draws"] == model["draws"] + 10
    assert client.get(f"{path}/drift").status_code == 200


@only("sqlite")
def test_rows_with_weights(client, settings):
    """Weighted rows fit as in the library, are scored by their weights, and can be gone on with."""
    header, *lines = pupils().splitlines()
    text = "\n".join([f"{header},w", *(f"{line},{1 + i % 3}" for i, line in enumerate(lines))])
    told = {"features": ["u", "v"], "weights": "w"}
    model = fitted(client, settings, text=text, target=TARGETS, holdout=0.3, **told)
    path = f"/models/{model['id']}"
    assert model["settings"]["weights"] == "w"
    joint = model["holdout"]["joint"]
    assert (joint["rows"], joint["coverage"]) == (30, [])
    own, table = of_file(client, model), pd.read_csv(io.StringIO(text))
    held = table.iloc[holdout_rows(100, 0.3, 0)]
    scores = own.score(held[["u", "v"]], held[TARGETS], held["w"])
    assert joint["log_score"] == pytest.approx(scores.log_score)
    assert model["holdout"]["outcomes"]["b"]["log_score"] == pytest.approx(scores.outcomes["b"]["log_score"])
    for tab in ("", "/checks"):
        assert client.get(f"/ui{path}{tab}").status_code == 200
    assert client.get(f"{path}/card").status_code == 200
    assert extended(client, settings, path)["draws"] == model["draws"] + 10


@only("sqlite")
def test_noise_by_row(client, settings):
    """A fit whose noise differs by row answers as the library, is scored, gone on with, and shown."""
    told = {"features": OWN | {"b": ["v", "u"]}, "noise": "forest", "holdout": 0.3}
    model = fitted(client, settings, text=pupils(), target=TARGETS, **told)
    path = f"/models/{model['id']}"
    assert model["settings"]["noise"] == "forest"
    content = client.get(f"{path}/file").content
    own, table = of_file(client, model), pd.read_csv(io.StringIO(pupils()))
    rows = [{"u": 0.2, "v": 0.8, "school": "x"}, {"u": 0.7, "v": 0.3, "school": "z"}]
    answer = client.post(f"{path}/joint", json={"rows": rows}).json()
    np.testing.assert_allclose(answer["covariance"], own.predict(rows).covariance)
    of_b = {"rows": rows, "outcome": "b"}
    told = client.post(f"{path}/predict", json=of_b).json()
    np.testing.assert_allclose(told["mean"], own["b"].predict(rows).mean)
    for part in ("aggregate", "distribution"):
        assert client.post(f"{path}/{part}", json=of_b).status_code == 200, part
    held = table.iloc[holdout_rows(100, 0.3, 0)]
    scores = own.score(held[["u", "v", "school"]], held[TARGETS])
    assert model["holdout"]["joint"]["log_score"] == pytest.approx(scores.log_score)
    assert "Noise" in client.get(f"{path}/card").text
    for tab in ("", "/checks", "/chains", "/settings", "/predict"):
        assert client.get(f"/ui{path}{tab}?outcome=b").status_code == 200, tab
    assert post_model(client, content).status_code == 201
    assert extended(client, settings, path)["draws"] == model["draws"] + 10
    body = {"dataset_id": post_csv(client, pupils()).json()["id"], "target": TARGETS, "noise": "forest"}
    apart = client.post("/models", json=body | SMALL | {"features": {"a": ["u"], "b": ["v"]}})
    assert "name a feature for all" in problem(apart, 422)["errors"][0]["detail"]
    tails = client.post("/models", json=body | SMALL | {"noise": "t", "features": ["u", "v"]})
    assert "set noise=constant or forest" in problem(tails, 422)["errors"][0]["detail"]


@only("sqlite")
def test_groups_of_rows(client, settings):
    """Each outcome's intercepts are told over HTTP and on the page, and rows of new groups are answered."""
    told = {"features": OWN | {"a": ["u"]}, "groups": ["school"], "holdout": 0.2}
    model = fitted(client, settings, text=pupils(), target=TARGETS, **told)
    assert model["settings"]["groups"] == ["school"]
    path = f"/models/{model['id']}"
    own = of_file(client, model)
    for name in TARGETS:
        answer = client.get(f"{path}/groups?outcome={name}").json()
        (column,) = answer["columns"]
        assert (answer["outcome"], column["column"]) == (name, "school")
        np.testing.assert_allclose([each["mean"] for each in column["groups"]], own[name].groups()[0].mean)
        assert client.get(f"/ui{path}/features?outcome={name}").status_code == 200
    rows = [row | {"school": school} for row, school in zip(NEW, ("x", "other"), strict=True)]
    answer = client.post(f"{path}/joint", json={"rows": rows}).json()
    np.testing.assert_allclose(answer["covariance"], own.predict(rows).covariance)
    assert any("new group" in text for text in answer["warnings"])
    assert extended(client, settings, path)["draws"] == model["draws"] + 10


@only("sqlite")
def test_columns_of_outcomes_that_are_refused(client):
    """Features of no target, of one target by name, and what is no list of columns, are named."""
    dataset = post_csv(client, pupils()).json()
    body = {"dataset_id": dataset["id"], "target": TARGETS} | SMALL
    for more, words in (
        ({"features": {"c": ["u"]}}, "it is no outcome"),
        ({"features": {"a": ["w"]}}, "no such column"),
        ({"features": {"a": ["u"], "b": ["b"]}}, "another role"),
        ({"features": {"a": "u"}}, "a list of columns, or such a list for each target"),
        ({"target": "a", "features": OWN}, "are of several outcomes: leave out features"),
        ({"monotone": {"school": "increasing"}, "features": {"a": ["u"], "b": ["v"]}}, "it is no feature"),
    ):
        answer = client.post("/models", json=body | more)
        assert words in str(problem(answer, 422)["errors"]), answer.text


@only("sqlite")
def test_stop_rules_look_at_every_outcome(client, settings):
    """A fit with stop rules ends, with draws of both outcomes."""
    stop = {"verdict": "approximate", "max_draws": 40}
    model = fitted(client, settings, text=pupils(), target=TARGETS, features=["u", "v"], stop=stop)
    answer = client.post(f"/models/{model['id']}/joint", json={"rows": NEW})
    assert answer.status_code == 200, answer.text


@pytest.mark.slow
@only("sqlite")
def test_features_of_each_outcome_are_selected(client, settings, model):
    """A selection has the features of every outcome, on the page too; each equals the library's."""
    asked = {"kind": "selection", "permutations": 20, "level": 0.2, "seed": 3}
    study = client.post(f"/models/{model['id']}/studies", json=asked)
    assert study.status_code == 202, study.text
    run_units(settings)
    found = client.get(f"/studies/{study.json()['id']}").json()["selection"]
    table = pd.read_csv(io.StringIO(pupils())).drop(index=holdout_rows(100, 0.3, 0))
    own = select_features(table[["u", "v"]], table[TARGETS], level=0.2, num_permutations=20, seed=3)
    for name, features in {"a": found["features"], **found["others"]}.items():
        shares = dict(zip(own[name].names, own[name].share, strict=True))
        assert {each["name"]: each["share"] for each in features} == shares
        for each in features:
            place = own[name].names.index(each["name"])
            assert each["thresholds"]["se"] == own[name].threshold("se")[place]
    assert list(found["others"]) == ["b"]
    assert own["a"].selected() == ["u"]
    assert "Selected features of b" in client.get(f"/ui/models/{model['id']}/features").text


def shoppers(num_rows: int = 100) -> str:
    """Make a table of a number, and two classes with holes, whose errors go together."""
    rng = np.random.default_rng(4)
    u, v = rng.uniform(size=(2, num_rows))
    errors = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], num_rows)
    bought = np.where(np.arange(num_rows) % 5 == 0, "", np.where(errors[:, 1] > 0, "yes", "no"))
    lines = [f"{u[i]:.4f},{v[i]:.4f},{3 * u[i] + errors[i, 0]:.4f},{bought[i]}" for i in range(num_rows)]
    return "u,v,spent,bought\n" + "".join(f"{line}\n" for line in lines)


@only("sqlite")
def test_two_classes_beside_a_number(client, settings):
    """Joint answers have the class's probability, alone or given the number; scores, pages and refits too."""
    both = {"target": ["spent", "bought"], "features": ["u", "v"], "family": "auto"}
    model = fitted(client, settings, text=shoppers(), holdout=0.3, **both)
    assert model["settings"]["families"] == {"spent": "gaussian", "bought": "probit"}
    path = f"/models/{model['id']}"
    answer = client.post(f"{path}/joint", json={"rows": NEW}).json()
    assert answer["classes"] == [[], ["no", "yes"]]
    own = of_file(client, model)
    np.testing.assert_allclose(answer["mean"], own.predict(NEW).mean)
    given = client.post(
        f"{path}/joint", json={"rows": [row | {"bought": "yes"} for row in NEW], "given": ["bought"]}
    ).json()
    np.testing.assert_allclose(given["mean"], own.predict(NEW, given={"bought": ["yes"] * 2}).mean)
    assert all(row[0] > alone[0] for row, alone in zip(given["mean"], answer["mean"], strict=True))
    wrong = [row | {"bought": "maybe"} for row in NEW]
    asked = client.post(f"{path}/joint", json={"rows": wrong, "given": ["bought"]})
    assert problem(asked, 422)["errors"][0]["row"] == 1
    chance = client.post(f"{path}/predict", json={"rows": NEW, "outcome": "bought"}).json()
    assert (chance["interval"], chance["classes"]) == ("credible", ["no", "yes"])
    np.testing.assert_allclose(chance["mean"], [row[1] for row in answer["mean"]])
    assert model["holdout"]["outcomes"]["bought"]["log_loss"] > 0
    assert model["holdout"]["joint"]["rows"] == 30
    for tab in ("", "/chains", "/features", "/predict?f0=0.2&f1=0.8", "/what-if", "/effects?part=all"):
        sign = "&" if "?" in tab else "?"
        for asked in ("", f"{sign}outcome=bought"):
            page = client.get(f"/ui{path}{tab}{asked}")
            assert page.status_code == 200, (tab, asked)
            for chart in re.findall(r'src="(/ui/models/[^"]*svg[^"]*)"', page.text):
                assert client.get(unescape(chart)).status_code == 200, chart
    assert "probability of yes" in client.get(f"/ui{path}/predict?f0=0.2&f1=0.8").text
    assert "bought: " in client.get(f"{path}/card?format=markdown").text
    refit = client.post(f"{path}/refit", json={})
    extended(client, settings, path)
    again = client.get(f"/models/{refit.json()['id']}").json()
    assert (again["state"], again["settings"]["families"]) == ("succeeded", model["settings"]["families"])
    assert client.get(path).json()["draws"] == model["draws"] + 10


def test_classes_beside_numbers_that_are_refused(client):
    """A class first, further classes, and classes without family auto are refused by name."""
    text = "".join(
        f"{line},{word}\n" for line, word in zip(shoppers().splitlines(), ["kind", *("xy" * 50)], strict=True)
    )
    dataset = post_csv(client, text).json()
    body = {"dataset_id": dataset["id"], "features": ["u", "v"], "family": "auto"} | SMALL
    for more, words in (
        ({"target": ["bought", "spent"], "missing_target": "leave_out"}, "name a number such as spent first"),
        ({"target": ["spent", "bought", "kind"]}, "one of several outcomes may have two classes"),
        ({"target": ["spent", "bought"], "family": "gaussian"}, "numeric"),
    ):
        answer = client.post("/models", json=body | more)
        assert answer.status_code == 422, (more, answer.text)
        assert words in answer.text, (more, answer.text)


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
        ({"calibrate": "folds"}, "calibrate"),
        ({"new_rows": {"groups": "school"}}, "new_rows"),
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


@only("sqlite")
def test_settings_are_tuned_by_the_joint_score(client, settings):
    """A tuning equals the library's; a fit with what it chose has all outcomes, with their families."""
    both = {"target": ["spent", "bought"], "features": ["u", "v"], "family": "auto"}
    model = fitted(client, settings, text=shoppers(), **both, prior={"nu": 4.0})
    tried = [{"prior": {"k": 3.0}, "num_chains": 1}, {"num_trees": 3, "num_draws": 20}]
    path = f"/models/{model['id']}/studies"
    asked = {"kind": "tuning", "candidates": tried, "folds": 2, "seed": 5}
    wrong = client.post(path, json=asked | {"candidates": [{"noise": "forest"}]})
    assert "all numbers: leave out noise" in problem(wrong, 422)["errors"][0]["detail"]
    study = client.post(path, json=asked)
    assert study.status_code == 202, study.text
    run_units(settings)
    found = client.get(f"/studies/{study.json()['id']}").json()["tuning"]
    table = pd.read_csv(io.StringIO(shoppers()))
    own = tune(
        table[["u", "v"]], table[["spent", "bought"]], candidates=tried, folds=2, seed=5, family="auto",
        prior={"nu": 4.0}, num_trees=SMALL["num_trees"], linear=False,
    )  # fmt: skip
    for name in ("log_score", "rmse", "coverage", "behind"):
        expected = [getattr(trial, name) for trial in own.trials]
        np.testing.assert_allclose([trial[name] for trial in found["trials"]], expected, err_msg=name)
    page = page_of(client.get(f"/ui/models/{model['id']}/improve"))
    assert "of all outcomes together" in page.text
    client.post(f"/ui/studies/{study.json()['id']}/fit", data=page.hidden)
    run_units(settings)
    again = client.get(f"/models/{client.get('/models').json()['items'][0]['id']}").json()
    assert (again["id"] != model["id"], again["state"]) == (True, "succeeded")
    assert again["settings"]["families"] == model["settings"]["families"]
    assert found["best"]["family"] == "auto"
