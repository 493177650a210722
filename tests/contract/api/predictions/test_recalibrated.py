"""Laws of outcomes that held-out rows recalibrate: what a fit says of it, and every face answers."""

import io
import json
import pickle
from copy import copy

import numpy as np
import pandas as pd
import pytest
from pyarrow.csv import read_csv

from app.services.model_sets import making
from bartserve.scoring import Scorer
from sampler import Posterior, fit_many
from sampler import fit as fit_here
from sampler.host.storage import RECALIBRATION, with_part
from tests.support.api_calls import of_file, post_csv
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models import kinds
from tests.support.models.fitted_models import SMALL, extended, fitted, run_units
from tests.support.pickling_executor import PicklingExecutor
from tests.support.routes import every_route

MEDIA_TYPE = "application/vnd.bartserve.model"
NEW = {"rows": [{"size": 0.2, "kind": 0.3}, {"size": 0.9, "kind": 0.1}], "level": [0.5, 0.9]}


def rows_of(rows: int) -> str:
    """Return a table whose noise has heavy tails and differs by row."""
    rng = np.random.default_rng(0)
    size, kind = rng.uniform(size=(2, rows)).round(3)
    y = 4 * size + rng.standard_t(3, rows) * np.exp(2 * kind - 1)
    lines = [f"{a:.3f},{b},{c}" for a, b, c in zip(y, size, kind, strict=True)]
    return "y,size,kind\n" + "\n".join(lines) + "\n"


def fit(client, settings, rows, **more):
    shared = {"noise": "constant", "transform": "none", "holdout": 0.5, "seed": 3}
    return fitted(client, settings, text=rows_of(rows), **shared | more)


def test_held_out_rows_make_intervals_hold(client, settings):
    """A fit says so, its file, its page, its draws and totals answer alike, and an extension keeps it."""
    model = fit(client, settings, 600, name="mine", calibrate="holdout")
    held = model["holdout"]
    assert held["recalibration"]["rows"] == 300
    assert "corrected by the errors of 300 held-out rows" in held["recalibration"]["text"]
    assert held["intervals_verdict"]["verdict"] == model["use"]["intervals"] == "made_to_hold"
    assert held["coverage"] == []  # rows that calibrate are no evidence
    page = client.get("/ui/models/mine/checks").text + client.get("/ui/models/mine/improve").text
    assert held["recalibration"]["text"] in page
    assert "before the rows made them hold" in page
    assert "Its intervals are not made to hold: it has no rows for that." in page
    of_all = client.post("/models/mine/refit", json={"name": "of all"}).json()
    assert any("not made to hold: those of the model before were" in each for each in of_all["warnings"])
    assert client.delete(f"/models/{of_all['id']}").status_code == 204
    again = client.post("/models/mine/refit", json={"name": "again", "holdout": 0.4}).json()
    assert not any("made to hold" in each for each in again["warnings"])
    assert client.delete(f"/models/{again['id']}").status_code == 204

    posterior = of_file(client, model)
    assert posterior.law.recalibration is not None
    answer = client.post("/models/mine/predict", json=NEW).json()
    own = posterior.predict(NEW["rows"], level=NEW["level"])
    assert answer["mean"] == own.mean.tolist()
    for each, mine in zip(answer["intervals"], own.intervals, strict=True):
        assert (each["lower"], each["upper"]) == (mine.lower.tolist(), mine.upper.tolist())
    imported = client.post(
        "/models", content=posterior.to_bytes(), headers={"Content-Type": MEDIA_TYPE}
    ).json()
    again = client.post(f"/models/{imported['id']}/predict", json=NEW).json()
    assert again["intervals"] == answer["intervals"]
    plain = Posterior.from_bytes(posterior.to_bytes())
    plain.law = plain.law.before_recalibration
    for kind in ("credible", "calibrated"):
        asked = client.post("/models/mine/predict", json=NEW | {"interval": kind}).json()
        assert asked["mean"] == plain.predict(NEW["rows"], interval=kind).mean.tolist()
        assert asked["intervals"][1]["lower"] == plain.predict(NEW["rows"], interval=kind).lower.tolist()

    extended(client, settings, "/models/mine")
    more = of_file(client, model)
    assert more.num_draws == 50
    assert more.law.recalibration.to_json() == posterior.law.recalibration.to_json()
    assert client.get("/models/mine").json()["holdout"]["recalibration"] == held["recalibration"]
    earlier = client.post("/models/mine/predict", json=NEW | {"draws": 40}).json()
    assert (earlier["mean"], earlier["intervals"]) == (answer["mean"], answer["intervals"])
    rows = NEW["rows"]
    for each in (posterior, more):
        np.testing.assert_array_equal(
            each.sample_predictive(rows, num_draws=20), posterior.sample_predictive(rows, num_draws=20)
        )
        assert each.aggregate(rows, num_draws=40).mean == posterior.aggregate(rows, num_draws=40).mean


ASKED = {"level": [0.5, 0.9], "quantiles": [0.1]}
FIGURES = ["mean", "sd", "lower_50", "upper_50", "lower_90", "upper_90", "quantile_10"]


def sent(model):
    return pickle.loads(pickle.dumps(model))


def over_http(client, path, rows):
    text = pd.DataFrame(rows).to_csv(index=False)
    accept = {"Content-Type": "text/csv", "Accept": "text/csv"}
    query = {"level": ASKED["level"], "quantiles": ASKED["quantiles"]}
    response = client.post(path, params=query, content=text.encode(), headers=accept)
    assert response.status_code == 200, response.text
    return read_csv(io.BytesIO(response.content)).to_pandas()


def imported(client, posterior):
    headers = {"Content-Type": MEDIA_TYPE}
    model = client.post("/models", content=posterior.to_bytes(), headers=headers).json()
    return f"/models/{model['id']}/predict"


FACES = {
    "bytes": lambda p, rows, *_: Posterior.from_bytes(p.to_bytes()).predict(rows, **ASKED).columns(),
    "pickle": lambda p, rows, *_: sent(p).predict(rows, **ASKED).columns(),
    "scorer": lambda p, rows, *_: sent(Scorer(p, **ASKED))(rows),
    "scorer of a file": lambda p, rows, _, file: sent(Scorer(file, shared=True, **ASKED))(pd.DataFrame(rows)),
    "HTTP": lambda p, rows, client, _: over_http(client, imported(client, p), rows),
}


@only("sqlite")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "kind", ["gaussian+recalibrated+calibrated", "gaussian+yeo-johnson+forest+recalibrated"]
)
def test_every_face_answers_the_same(client, tmp_path, kind, face):
    """Whatever way a recalibrated model is read and asked, figures are the same bits."""
    posterior, rows = kinds.fitted(kind), kinds.Kind(kind).new
    posterior.save(tmp_path / "model.bart")
    before = copy(posterior)
    before.law = posterior.law.before_recalibration
    expected, plain = (each.predict(rows, **ASKED).columns() for each in (posterior, before))
    answer = FACES[face](posterior, rows, client, tmp_path / "model.bart")
    for name in FIGURES:
        np.testing.assert_array_equal(np.asarray(answer[name]), expected[name])
        assert np.all(expected[name] != plain[name])


# Routes that ask a model about rows: whether their answers are of outcomes, and so of the recalibrated law.
ROUTES = {
    "predict": True, "predictions": True, "distribution": True, "aggregate": True, "invocations": True,
    "infer": True, "outcomes": True, "contrast": False, "effects": False, "shap": False, "survival": False,
    "partial-dependence": False, "accumulated-effects": False, "joint": False, "forecast": False,
}  # fmt: skip
OF_MODELS = {
    *("cancel", "extend", "extend/estimate", "promote", "refit", "retry", "rollback", "studies"),
    *("outcomes/policy", "outcomes/recalibrate", "outcomes/refit"),
}


def bodies(rows, y):
    """Return what is sent to a route, where it isn't rows alone."""
    tensors = [
        {
            "name": name,
            "datatype": "BYTES" if name == "kind" else "FP64",
            "shape": [len(cells)],
            "data": cells,
        }
        for name, cells in rows.items()
    ]
    cells = [dict(zip(rows, each, strict=True)) for each in zip(*rows.values(), strict=True)]
    return {
        "distribution": {"columns": rows, "outcomes": y, "quantiles": [0.1]},
        "aggregate": {"columns": rows, "level": 0.8},
        "contrast": {"columns": rows, "first": {"last": 0.2}, "second": {"last": 0.8}},
        "partial-dependence": {"features": ["last"]},
        "accumulated-effects": {"feature": "last"},
        "invocations": {"dataframe_records": cells},
        "infer": {"inputs": tensors},
        "outcomes": {"rows": [each | {"y": value} for each, value in zip(cells, y, strict=True)]},
    }


@only("sqlite")
@pytest.mark.slow
def test_every_route_answers_by_the_recalibrated_law(client, settings):
    """Routes of outcomes answer what the library does by it, routes of f what they did without it."""
    asked = {
        path.rpartition("}/")[2]: path
        for method, path in every_route()
        if method == "POST" and "/models/{model_id}/" in path and "{version}" not in path
        if not path.startswith("/ui")
    }
    assert asked.keys() - OF_MODELS == ROUTES.keys()
    name = "gaussian+yeo-johnson+forest+recalibrated"
    posterior, kind = kinds.fitted(name), kinds.Kind(name)
    header = with_part(posterior.header.to_bytes(), RECALIBRATION, None)
    plain = Posterior.from_blocks(header, posterior.law.draws.blocks)
    assert plain.law.recalibration is None
    own = [slice(0, 1), slice(2, 4)]  # whose cells are all known
    rows = {each: np.concatenate([cells[part] for part in own]).tolist() for each, cells in kind.new.items()}
    y, told = [1.5, 2.0, 2.5], {}
    dataset = post_csv(client, pd.DataFrame(rows).to_csv(index=False)).json()["id"]
    for model in (posterior, plain):
        at = imported(client, model).rpartition("/")[0]
        for route, path in asked.items():
            if route not in ROUTES:
                continue
            body = bodies(rows, y).get(route, {"columns": rows})
            body = {"dataset_id": dataset} if route == "predictions" else body
            answer = client.post(path.replace("/models/{model_id}", at), json=body)
            if route == "predictions":
                run_units(settings)
                answer = client.get(f"/predictions/{answer.json()['id']}/result")
            if route == "outcomes":
                answer = client.get(f"{at}/outcomes")
            told.setdefault(route, []).append(answer.json())
    law = posterior.distribution(rows)
    total, predicted = posterior.aggregate(rows, level=0.8), posterior.predict(rows, level=0.9)
    assert told["distribution"][0]["crps"] == law.crps(y).tolist()
    assert told["distribution"][0]["log_prob"] == law.log_prob(y).tolist()
    assert told["distribution"][0]["quantiles"] == law.quantile([0.1]).T.tolist()
    (found,) = told["aggregate"][0]["sets"]
    assert (found["mean"], found["lower"], found["upper"]) == (total.mean, total.lower, total.upper)
    for route in ("predict", "predictions", "distribution"):
        assert told[route][0]["mean"] == predicted.mean.tolist(), route
    for route, (with_it, without) in told.items():
        texts = [json.dumps(_figures(each)) for each in (with_it, without)]
        assert (texts[0] != texts[1]) == ROUTES[route], (route, texts)
    for route in ("invocations", "infer"):
        assert str(predicted.lower[0])[:12] in json.dumps(told[route][0]), (route, told[route][0])


def _figures(value):
    """Leave out what names the model, and times."""
    if isinstance(value, dict):
        left_out = ("model_id", "id", "name", "model_name", "created_at", "request_id", "instance", "url")
        return {key: _figures(each) for key, each in value.items() if key not in left_out}
    return [_figures(each) for each in value] if isinstance(value, list) else value


@only("sqlite")
def test_models_of_groups_are_recalibrated_each_by_its_rows(client, settings, database, tmp_path):
    """Those of `fit_many` are fits to their rows alone; their scorer and a service's set answer by them."""
    table = pd.read_csv(io.StringIO(rows_of(400))).assign(shop=np.arange(400) % 2)
    given = SMALL | {"noise": "constant", "transform": "none", "seed": 3}
    asked = {"calibrate": "holdout", "holdout": 0.5, "progress": False} | given
    folder = tmp_path / "shops"
    models = fit_many(table, by="shop", target="y", folder=folder, executor=PicklingExecutor(), **asked)
    new = pd.DataFrame({"size": [0.2, 0.9], "kind": [0.3, 0.1], "shop": [0, 1]})
    routed = sent(Scorer(folder, **ASKED))(new)
    for shop in (0, 1):
        own, row = table[table.shop == shop].drop(columns="shop"), new[new.shop == shop].drop(columns="shop")
        alone = fit_here(own.drop(columns="y"), own.y, **asked)
        assert models[shop].law.recalibration is not None
        assert models[shop].to_bytes() == alone.to_bytes()
        for name, values in alone.predict(row, **ASKED).columns().items():
            if name in FIGURES:
                np.testing.assert_array_equal(routed[name][new.shop == shop], values)
    dataset = post_csv(client, table.to_csv(index=False)).json()
    body = {"dataset_id": dataset["id"], "target": "y", "by": "shop", "holdout": 0.5} | given
    made = client.post("/model-sets", json=body).json()
    while making.run_due(database.engine, settings):
        run_units(settings)
    answer = over_http(client, f"/model-sets/{made['id']}/predict", new)
    for model in client.get(f"/model-sets/{made['id']}/models").json()["items"]:
        posterior = Posterior.from_bytes(client.get(f"/models/{model['model_id']}/file").content)
        assert posterior.law.recalibration is not None
        here = new.shop == int(model["group"][0])
        for name, values in posterior.predict(new[here].drop(columns="shop"), **ASKED).columns().items():
            if name in FIGURES:
                np.testing.assert_array_equal(answer[name][here], values)


def test_of_many_held_out_rows_half_judge(client, settings):
    """They say how many are inside, and count once."""
    model = fit(client, settings, 2_100)
    held = model["holdout"]
    assert (held["recalibration"]["rows"], held["rows"]) == (525, 525)
    assert held["intervals_verdict"]["verdict"] == "held"
    shares = {each["level"]: each["coverage"] for each in held["coverage"]}
    assert abs(shares[0.5] - 0.5) < 0.06
    off = fit(client, settings, 2_100, recalibrate="off")["holdout"]
    assert "recalibration" not in off
    assert {each["level"]: each["coverage"] for each in off["coverage"]}[0.5] > 0.58


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"holdout": 0.1}, "there are 30 held-out rows, and it takes 90"),
        ({"treatment": "site"}, "the model has a treatment"),
        ({"groups": ["site"]}, "the model has groups"),
        ({"target": ["y", "count"]}, "the model has several outcomes"),
        ({"new_rows": {"groups": "site"}}, "new rows are of other groups, or later"),
        (
            {"target": "count", "family": "poisson", "noise": None, "transform": None},
            "outcomes are counts",
        ),
        ({"target": "word", "family": "auto", "noise": None, "transform": None}, "outcomes are classes"),
        (
            {"method": "bcart", "noise": None, "transform": None, "num_trees": None, "linear": None},
            "no sum of trees",
        ),
    ],
)
@pytest.mark.slow
def test_other_laws_stay_with_a_word(client, settings, more, reason):
    """A fit says that it is off, and why, where it isn't shown to hold."""
    header, *lines = rows_of(300).splitlines()
    more_cells = (f"{each},{i % 2},{i % 5},{'ab'[i % 2]}" for i, each in enumerate(lines))
    text = "\n".join([header + ",site,count,word", *more_cells])
    if "new_rows" in more or "groups" in more:
        text = "\n".join([header + ",site", *(f"{each},s{i % 40}" for i, each in enumerate(lines))])
    shared = {"noise": "constant", "transform": "none", "holdout": 0.5} | more
    body = {key: value for key, value in shared.items() if value is not None}
    dataset = post_csv(client, text + "\n").json()
    small = {"num_trees": 5, "num_chains": 2, "num_draws": 20, "num_burnin": 20, "linear": False}
    asked = {key: value for key, value in (small | more).items() if value is not None}
    response = client.post("/models", json={"dataset_id": dataset["id"], "target": "y"} | body | asked)
    assert response.status_code == 202, response.text
    run_units(settings)
    model = client.get(response.headers["location"]).json()
    assert reason in model["holdout"]["recalibration"]["text"], model["holdout"]
    page = page_of(client.get(f"/ui/models/{model['id']}/checks"))
    assert model["holdout"]["recalibration"]["text"] in page.words
    for each in model["holdout"].get("outcomes", {}).values():
        assert reason in each["recalibration"]["text"]
    assert model["use"]["intervals"] != "made_to_hold"
