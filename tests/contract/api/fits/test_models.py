"""POST, GET and DELETE /models, and cancelling, without fitting."""

import re

import pytest

from app.store import models as store
from app.store.engine import session_scope
from app.store.queue import claims, units
from app.store.queue.workers import register
from app.store.tables import Worker
from app.web.errors import faults_of
from sampler import holdout_rows
from tests.support.api_calls import places, post_csv, post_json, problem, table
from tests.support.databases import only
from worker.context import Context
from worker.units import run_one

SMALL = {"num_trees": 5, "num_chains": 2, "num_draws": 10, "num_burnin": 20, "thin": 2}


@pytest.fixture
def dataset_id(client) -> str:
    return post_csv(client, table()).json()["id"]


def fit(client, dataset_id, /, **more):
    return client.post("/models", json={"dataset_id": dataset_id, "target": "y"} | more)


def test_a_fit_is_accepted_with_everything_resolved(client, dataset_id):
    """A fit gives 202, Location, Retry-After, all settings resolved, and the progress of each chain."""
    response = fit(client, dataset_id, name="first", holdout=0.2, prior={"k": 3}, **SMALL)

    assert response.status_code == 202, response.text
    model = response.json()
    assert response.headers["location"] == f"/models/{model['id']}"
    assert int(response.headers["retry-after"]) >= 1
    assert (model["state"], model["name"], model["draws"], model["verdict"]) == (
        "queued",
        "first",
        0,
        None,
    )
    settings = model["settings"]
    assert SMALL.items() <= settings.items()
    assert (settings["family"], settings["method"], settings["seed"]) == ("gaussian", "bart", 0)
    assert settings["features"] == ["size", "colour"] or settings["features"] == ["size", "colour", "note"]
    assert settings["columns"]["colour"] == "category"
    assert settings["prior"]["k"] == 3
    assert settings["prior"]["alpha"] == 0.95
    assert settings["holdout"] == 0.2
    assert model["progress"]["fraction"] == 0
    chains = [
        {"chain": c, "state": "queued", "phase": None, "iteration": 0, "iterations": 40} for c in (0, 1)
    ]
    assert model["progress"]["chains"] == chains
    assert client.get(response.headers["location"]).json() == model
    assert client.get("/models").json() == {"items": [model], "next_cursor": None}


def test_particle_gibbs_and_hyperpriors_are_settings(client):
    """Particle Gibbs and hyperpriors have the notebook's setting names and are shown resolved."""
    dataset_id = post_csv(client, table(60)).json()["id"]

    moves = {"moves": {"pg": 0.2, "grow": 0.4, "prune": 0.4}, "particles": 20, "start": "smc"}
    response = fit(client, dataset_id, **SMALL, **moves, prior={"sparse": True, "k_df": 3})

    assert response.status_code == 202
    settings = response.json()["settings"]
    assert moves.items() <= settings.items()
    assert (settings["prior"]["sparse"], settings["prior"]["k_df"]) == (True, 3)


def test_a_prior_of_trees_is_an_entry_of_the_prior(client):
    """It is shown with its own entries; moves that ask for its density are refused with the way."""
    dataset_id = post_csv(client, table(60)).json()["id"]

    response = fit(client, dataset_id, **SMALL, moves="pg", prior={"trees": "pinball", "evenness": 4})

    assert response.status_code == 202
    prior = response.json()["settings"]["prior"]
    assert (prior["trees"], prior["evenness"], "sparse_a" in prior) == ("pinball", 4, False)
    refused = problem(fit(client, dataset_id, **SMALL, prior={"trees": "leaves"}), 422, "invalid-request")
    assert refused["errors"][0]["column"] == "moves"
    assert "set moves=pg, or leave out prior.trees" in refused["detail"]


@pytest.mark.parametrize(
    "beside",
    [
        {"groups": ["colour"], "linear": True},
        {"noise": "t-forest"},
        {"family": "zero-inflated-negative-binomial"},
        {"target": "colour", "family": "categorical", "features": ["y"]},
        {"target": "size", "family": "ordinal", "features": ["y"], "levels": ["1", "2", "3"]},
    ],
    ids=str,
)
def test_particle_gibbs_goes_with_what_stands_beside_trees(client, beside):
    """Its moves and its start are accepted with lines, groups, other noise, and other families."""
    rows = "\n".join(f"{1 + k % 3},{'abc'[k % 3]},{k * 7 % 13}" for k in range(60))
    dataset_id = post_csv(client, "size,colour,y\n" + rows).json()["id"]

    for given in ({"moves": "pg"}, {"start": "smc"}):
        response = fit(client, dataset_id, **SMALL, **beside, **given)
        assert response.status_code == 202, response.text
        assert given.get("start", "stumps") == response.json()["settings"]["start"]


def test_text_of_many_levels_is_left_out_with_a_word(client):
    """A text column of many levels is left out with a warning unless it is requested."""
    dataset_id = post_csv(client, table(60)).json()["id"]

    left = fit(client, dataset_id, **SMALL).json()
    named = fit(client, dataset_id, features=["note", "size"], **SMALL).json()

    assert left["settings"]["features"] == ["size", "colour"]
    assert any("note" in warning for warning in left["warnings"])
    assert named["settings"]["columns"] == {"note": "category", "size": "number"}


def test_progress_is_what_the_workers_commit(client, dataset_id, database):
    """Fraction, rate and time left follow from the chains; during compilation progress is zero."""
    model_id = fit(client, dataset_id, **SMALL).json()["id"]
    with session_scope(database.engine) as session:
        register(session, Worker(id="w", host="h", pid=1, slots=2, beat_at=0, phase="working"))
        first, second = (claims.claim(session, "w", 60), claims.claim(session, "w", 60))
        units.heartbeat(session, first, units.Progress("sampling", 30, 40, 5, rate=10.0))
        units.heartbeat(session, second, units.Progress("compiling", 3, 9))

    model = client.get(f"/models/{model_id}").json()

    assert model["state"] == "running"
    assert model["started_at"] is not None
    progress = model["progress"]
    assert progress["fraction"] == pytest.approx(30 / 80)
    assert (progress["iterations_per_second"], progress["eta_seconds"]) == (10, 5)
    assert progress["chains"] == [
        {"chain": 0, "state": "running", "phase": "sampling", "iteration": 30, "iterations": 40},
        {"chain": 1, "state": "running", "phase": "compiling", "iteration": 3, "iterations": 9},
    ]


def test_progress_never_falls(client, settings, dataset_id):
    """Not even where stop rules aren't met, and the chains go on."""
    stop = {"min_ess": 100_000, "max_draws": 60}
    path = fit(client, dataset_id, **SMALL | {"num_draws": 20, "stop": stop}).headers["location"]
    context, seen = Context(settings, "tests"), [0.0]
    while run_one(context):
        seen.append(client.get(path).json()["progress"]["fraction"])
    context.close()
    assert len(seen) > 8
    assert seen == sorted(seen)
    assert seen[-2] < seen[-1] == 1


def test_cancelling(client, dataset_id):
    """A queued model is cancelled at once, and cancelling again changes nothing."""
    path = fit(client, dataset_id, **SMALL).headers["location"]

    first, again = client.post(f"{path}/cancel"), client.post(f"{path}/cancel")

    assert (first.status_code, first.json()["state"]) == (200, "cancelled")
    assert first.json() == again.json()


def test_an_ended_model_has_nothing_to_cancel(client, dataset_id, database):
    """Cancelling an ended model is a 409 with its state."""
    path = fit(client, dataset_id, **SMALL).headers["location"]
    with session_scope(database.engine) as session:
        register(session, Worker(id="w", host="h", pid=1, slots=2, beat_at=0, phase="working"))
        units.fail(session, claims.claim(session, "w", 60), {"type": "data", "detail": "It broke."})

    body = problem(client.post(f"{path}/cancel"), 409, "conflict")

    assert "failed" in body["detail"]
    assert client.get(path).json()["error"] == {"type": "data", "detail": "It broke."}


def test_deleting_frees_the_dataset(client, dataset_id):
    """Deleting a dataset in use is a 409 that names the model; without the model it succeeds."""
    path = fit(client, dataset_id, **SMALL).headers["location"]

    body = problem(client.delete(f"/datasets/{dataset_id}"), 409, "in-use")
    assert path.removeprefix("/models/") in body["detail"]
    assert client.delete(path).status_code == 204
    problem(client.get(path), 404)
    problem(client.delete(path), 404)
    assert client.delete(f"/datasets/{dataset_id}").status_code == 204


REFUSED = {
    "absent target": ({"target": "z"}, [("z", None)]),
    "text target": ({"target": "colour"}, [("colour", None)]),
    "boolean target": ({"target": "flag"}, [("flag", None)]),
    "constant target": ({"target": "same"}, [("same", None)]),
    "missing target values": ({"target": "holes"}, [("holes", None)]),
    "unknown features": ({"features": ["size", "nope", "nor"]}, [("nope", None), ("nor", None)]),
    "target as feature": ({"features": ["y"]}, [("y", None)]),
    "feature twice": ({"features": ["size", "size"]}, [("size", None)]),
    "no features": ({"features": []}, [(None, None)]),
    "unknown weights": ({"weights": "nope"}, [("nope", None)]),
    "negative weights": ({"weights": "minus"}, [("minus", 3)]),
    "text weights": ({"weights": "colour"}, [("colour", None)]),
    "weights and target": ({"weights": "y"}, [("y", None)]),
    "unknown kind": ({"columns": {"size": "ordinal"}}, [("columns", None)]),
    "kind of no column": ({"columns": {"nope": "number"}}, [("columns", None)]),
}


@pytest.mark.parametrize("case", REFUSED)
@only("sqlite")
def test_data_that_cannot_be_learnt_from_are_refused_with_their_place(client, case):
    """Unusable data are refused before the 202, with the column and the row where there is one."""
    lines = ["y,size,colour,flag,same,holes,minus"]
    for row in range(1, 21):
        hole = "" if row in {2, 5} else row
        sign = -1 if row == 3 else 1
        lines.append(f"{row},{row % 7},{'ab'[row % 2]},{'true' if row % 3 else 'false'},1,{hole},{sign}")
    dataset_id = post_csv(client, "\n".join(lines)).json()["id"]
    more, where = REFUSED[case]

    body = problem(fit(client, dataset_id, **more), 422)

    assert where == places(body), body
    assert client.get("/models").json()["items"] == []


@only("sqlite")
def test_rows_to_learn_from_are_refused_by_their_place_in_the_dataset(client):
    """Rows without a target count as rows; what is constant but for held-out rows can't be learnt."""
    held = set(holdout_rows(20, 0.2, 0).tolist())
    lines = [f"{'' if i < 2 else i},{i % 7},{'ab'[i in held]},{0 if i == 9 else 1}" for i in range(20)]
    dataset_id = post_csv(client, "\n".join(["y,size,known,weight", *lines])).json()["id"]

    weighted = fit(client, dataset_id, missing_target="leave_out", weights="weight")
    assert places(problem(weighted, 422, "unusable-data")) == [("weight", 10)]
    alike = fit(client, dataset_id, target="known", family="categorical", holdout=0.2)
    assert places(problem(alike, 422, "unusable-data")) == [("known", None)]


@only("sqlite")
def test_ten_rows_are_the_least(client):
    """A fit needs ten rows, held-out ones not counted."""
    nine, ten = (post_csv(client, table(n)).json()["id"] for n in (9, 10))

    assert "9 rows" in problem(fit(client, nine), 422, "unusable-data")["detail"]
    assert fit(client, ten, features=["size"]).status_code == 202
    assert "held out" in problem(fit(client, ten, holdout=0.3), 422)["detail"]


OUT_OF_RANGE = {
    "num_trees": [0, -1, 10**9, 1.5, "200", True, [1]],
    "num_chains": [0, 1000, 10**30],
    "num_draws": [0, {}],
    "num_burnin": [-1],
    "thin": [0],
    "seed": [-1, 2**63, "x"],
    "family": ["weibull", 3],
    "method": ["forest"],
    "moves": ["fast", {"grow": 1}, {"grow": 0.5, "prune": 0.6}, {"jump": 1.0}, {"grow": "a"}],
    "particles": [1, "x"],
    "start": ["prior", 3],
    "prior": [
        {"sparse": 1},
        {"k_scale": 1},
        {"sparse_theta": 2},
        {"num_trees": "normal"},
        {"num_trees_mean": 3},
        {"k": 0},
        {"k": "x"},
        {"kappa": 1},
        {"trees": "tall"},
        {"trees": ["leaves"]},
        {"tries": 2},
        {"cuts": "all"},
        {"cuts": {"nope": [1]}},
        [1],
    ],
    "holdout": [-0.1, 1, "x"],
    "stop": [
        {},
        {"max_draws": 900},
        {"verdict": "fine"},
        {"verdict": "converged", "max_draws": 124},
        {"max_rhat": 1},
        {"min_ess": 0},
        {"max_seconds": 0},
        {"patience": 3},
        True,
    ],
    "name": ["", "a/b", "mdl_x", "x" * 201, "a\nb", 7],
    "features": ["size", [1], {"a": 1}],
    "columns": [["size"], {"size": 1}],
    "weights": [1],
    "target": [1, None],
    "dataset_id": [1, None],
    "colour": ["unknown fields are refused"],
}


@pytest.mark.parametrize("field", OUT_OF_RANGE)
@only("sqlite")
def test_settings_out_of_range_are_refused_by_name(client, dataset_id, field):
    """A 422 names the field and the accepted values; nothing is created."""
    for value in OUT_OF_RANGE[field]:
        body = problem(fit(client, dataset_id, **{field: value}), 422, "invalid-request")

        assert body["errors"], value
        named = body["errors"][0]["column"]
        assert named.startswith((field, "size") if field == "columns" else field), (value, body)
    assert client.get("/models").json()["items"] == []


@only("sqlite")
def test_a_field_that_is_misspelt_is_told_the_right_one(client, dataset_id):
    """A misspelt field, nested ones too, gets the nearest valid one; a level out of range is named once."""
    for body, where, near in (
        ({"numtrees": 5}, "numtrees", "num_trees"),
        ({"stop": {"max_rhatt": 1.1}}, "stop.max_rhatt", "max_rhat"),
        ({"zzz": 1}, "zzz", "/docs"),
    ):
        (entry,) = problem(fit(client, dataset_id, **body), 422)["errors"]
        assert entry["column"] == where
        assert "there is no such field" in entry["detail"]
        assert near in entry["detail"]
    detail = problem(fit(client, dataset_id, numtrees=5), 422)["detail"]
    assert detail == "numtrees: there is no such field; did you mean num_trees?"
    for other, ours in (("ntree", "num_trees"), ("power", "prior.beta"), ("random_state", "seed")):
        (fault,) = problem(fit(client, dataset_id, **{other: 2}), 422)["errors"]
        assert fault["detail"].endswith(f"did you mean {ours}?")
    (fault,) = problem(fit(client, dataset_id, moves={"grow": "a"}), 422)["errors"]
    assert fault["column"] == "moves.grow"
    detail = problem(fit(client, dataset_id, columns={"size": None}), 422)["detail"]
    assert detail == "columns: the kind of size must be text"
    detail = problem(fit(client, dataset_id, groups=["y"]), 422)["detail"]
    assert detail == "groups: 'y' is the target already"
    wrong = problem(client.post("/models/x/predict", json={"rows": [{"a": 1}], "level": [90]}), 422)
    assert [entry["column"] for entry in wrong["errors"]] == ["level.0"]
    assert "less than 1" in wrong["detail"]
    names = ["a", "a.b", "list[a"]  # of columns: places that are kept as they are
    faults = faults_of([{"loc": ("body", "columns", name, 0), "type": "", "msg": ""} for name in names])
    assert [fault.column for fault in faults] == names


@pytest.mark.parametrize("points", [["a"], [3, 1], [None], [[1]], "x", {}])
def test_cut_points_are_checked_before_the_202(client, dataset_id, points):
    """Lists that are no increasing numbers were accepted, and failed in the worker."""
    response = fit(client, dataset_id, prior={"cuts": {"size": points}}, **SMALL)
    assert "the cut points of 'size'" in problem(response, 422)["detail"]


def test_a_model_that_leaves_rows_out_has_its_name(client):
    """Rows without a target may be left out by a model with a name, which was lost there."""
    text = "x,y\n" + "".join(f"{k % 7},{k if k % 5 else ''}\n" for k in range(60))
    dataset_id = post_csv(client, text).json()["id"]
    model = fit(client, dataset_id, name="mine", missing_target="leave_out", **SMALL).json()
    assert (model["name"], model["label"]) == ("mine", "mine")
    assert client.get("/models/mine").json()["id"] == model["id"]


@pytest.mark.parametrize(
    ("body", "message"), [("", "the request has no body"), ("null", "must be a JSON object"), ("[]", "JSON")]
)
def test_a_body_that_is_no_object_is_named(client, body, message):
    """No "Field required" without a field."""
    headers = {"Content-Type": "application/json"}
    answer = client.post("/models", content=body, headers=headers)

    assert message in problem(answer, 422)["detail"]


@only("sqlite")
def test_unknown_ids(client, dataset_id):
    """A malformed or unknown id is a 404, even one that no database could store."""
    problem(fit(client, "ds_unknown"), 404, "not-found")
    problem(fit(client, "x' OR 1=1 --"), 404)
    for strange in ("mdl_1", "x", "%00", "%ff", "a b", "..%2f..", "é", "x" * 3000):
        for method, path in [("GET", ""), ("DELETE", ""), ("POST", "/cancel")]:
            problem(client.request(method, f"/models/{strange}{path}"), 404)
        problem(client.get(f"/datasets/{strange}"), 404)
    assert dataset_id


BAD_JSON = {
    "not JSON": ("{", [], "not JSON"),
    "nothing": ("", [], None),
    "a doubled key": ('{"dataset_id": "a", "target": "y", "target": "z"}', [("target", None)], "twice"),
    "NaN": ('{"dataset_id": "a", "target": "y", "holdout": NaN}', [("holdout", None)], "NaN"),
    "an overflowing number": (
        '{"dataset_id": "a", "target": "y", "prior": {"k": 1e999}}',
        [("prior.k", None)],
        "",
    ),
    "a number of many digits": ('{"dataset_id": "a", "seed": ' + "9" * 5000 + "}", [("seed", None)], "large"),
    "half a surrogate pair": ('{"dataset_id": "a", "target": "\\ud800"}', [("target", None)], "surrogate"),
    "a NUL": ('{"dataset_id": "a", "target": "x\\u0000"}', [("target", None)], "NUL"),
    "too deep": ("[" * 100_000, [], "deep|not JSON"),
    "an array": ("[]", [(None, None)], ""),
    "null": ("null", [(None, None)], ""),
}


@pytest.mark.parametrize("case", BAD_JSON)
@only("sqlite")
def test_json_is_read_strictly(client, case):
    """JSON that lenient parsers accept is a 422 that names the key."""
    text, where, message = BAD_JSON[case]

    body = problem(post_json(client, "/models", text), 422)

    if message is not None:
        assert where == places(body)
        assert re.search(message, str(body))


@only("sqlite")
def test_a_body_must_say_that_it_is_json(client, dataset_id):
    """A body without the JSON content type is a 415."""
    text = f'{{"dataset_id": "{dataset_id}", "target": "y"}}'.encode()
    for headers in (
        {"Content-Type": "text/plain"},
        {},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ):
        problem(client.post("/models", content=text, headers=headers), 415)
    typed = {"Content-Type": "application/json; charset=utf-8"}
    assert client.post("/models", content=text, headers=typed).status_code == 202


def test_lists_come_in_pages(client, dataset_id, database):
    """Lists are newest first, each model as GET shows it."""
    models = [fit(client, dataset_id, **SMALL).json() for _ in range(3)]

    first = client.get("/models", params={"limit": 2}).json()
    second = client.get("/models", params={"limit": 2, "cursor": first["next_cursor"]}).json()

    assert [*first["items"], *second["items"]] == models[::-1]
    assert second["next_cursor"] is None
    with session_scope(database.engine) as session:
        assert len(store.chains(session, [model["id"] for model in models])) == 3
