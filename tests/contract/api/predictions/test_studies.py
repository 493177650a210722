"""Studies of models over HTTP: selection of features by a permutation null, and tuning."""

import numpy as np
import pytest

from app.services.errors import InvalidRequestError, TooLargeError
from app.services.fits.costs import TooLongError
from app.services.request_context import Actor, OwnerLimits, acting
from app.services.studies import selection, tuning
from app.services.studies.plan import TrainingData
from app.services.studies.selection import SelectionRequest
from app.services.studies.tuning import TuningRequest
from app.store import studies as store
from app.store.engine import session_scope
from app.store.queue import claims, units
from app.store.queue.claims import Claim
from sampler import holdout_rows, select_features, tune
from tests.support.api_calls import places, post_csv, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import fitted, run_units

FEWEST = 20


@pytest.fixture
def model(client, settings) -> dict:
    return fitted(client, settings, name="mine", seed=3)


def start(client, model, **more):
    ref = model["id"] if isinstance(model, dict) else model
    return client.post(f"/models/{ref}/studies", json={"permutations": FEWEST} | more)


def claim(database) -> Claim:
    with session_scope(database.engine) as session:
        return claims.claim(session, "w", 60)


def test_features_are_selected_in_the_background(client, settings, model):
    """A study shows its progress, then the features with shares, thresholds and rules, as the library."""
    response = start(client, "mine", seed=2, level=0.1)
    assert response.status_code == 202, response.text
    made = response.json()
    path = f"/studies/{made['id']}"
    assert response.headers["location"] == path
    assert (made["kind"], made["state"], made["model_id"]) == ("selection", "queued", model["id"])
    assert (made["request"]["permutations"], made["request"]["seed"]) == (FEWEST, 2)
    assert made["progress"] == {"fraction": 0, "fits_done": 0, "fits": 10 + FEWEST}
    assert made["selection"] is None
    assert run_units(settings) == 3
    done = client.get(path).json()
    assert (done["state"], done["error"]) == ("succeeded", None)
    assert done["progress"] == {"fraction": 1, "fits_done": 10 + FEWEST, "fits": 10 + FEWEST}
    listed = client.get("/studies").json()["items"]
    assert listed == [done | {"selection": None}]
    assert client.get("/studies", params={"model_id": model["id"]}).json()["items"] == listed
    assert client.get("/studies", params={"model_id": "mdl_other"}).json()["items"] == []

    lines = [line.split(",") for line in table(60).splitlines()[1:]]
    X = {"size": [float(line[1]) for line in lines], "colour": [line[2] for line in lines]}
    y = [float(line[0]) for line in lines]
    expected = select_features(X, y, level=0.1, num_permutations=FEWEST, seed=2, target_name="y")
    found = done["selection"]
    assert found["level"] == 0.1
    assert {row["name"]: row["share"] for row in found["features"]} == dict(
        zip(expected.names, expected.share, strict=True)
    )
    for rule in ("local", "max", "se"):
        by = [row["name"] for row in found["features"] if rule in row["selected_by"]]
        assert by == expected.selected(rule)
        thresholds = {row["name"]: row["thresholds"][rule] for row in found["features"]}
        assert [thresholds[name] for name in expected.names] == expected.threshold(rule).tolist()


def rows(num_rows=90) -> dict[str, list]:
    """Columns of a table with every kind of outcome, two missing ones among them."""
    rng = np.random.default_rng(8)
    x, z, days = rng.uniform(size=num_rows), rng.uniform(size=num_rows), rng.integers(1, 9, num_rows)
    number = [float(value) for value in (3 * x + 0.3 * rng.normal(size=num_rows)).round(3)]
    return {
        "number": [None if row in {4, 50} else value for row, value in enumerate(number)],
        "answer": ["yes" if value > 0.5 else "no" for value in x],
        "count": rng.poisson(days * np.exp(x)).tolist(),
        "days": days.tolist(),
        "weight": rng.integers(1, 4, num_rows).tolist(),
        "x": x.round(4).tolist(),
        "z": z.round(4).tolist(),
        "unused": [row % 5 for row in range(num_rows)],
    }


@only("sqlite")
@pytest.mark.parametrize(
    ("target", "settings_of_fit", "roles"),
    [
        ("number", {"weights": "weight", "missing_target": "leave_out", "holdout": 0.2}, ["weights"]),
        ("answer", {"family": "probit"}, []),
        pytest.param(
            *("count", {"family": "negative-binomial", "exposure": "days"}, ["exposure"]),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_rows_and_roles_are_those_of_the_model(client, settings, target, settings_of_fit, roles):
    """A study takes the model's training rows, features, family, weights and exposures."""
    columns = rows()
    lines = zip(*columns.values(), strict=True)
    text = "\n".join(
        [",".join(columns), *(",".join("" if v is None else str(v) for v in row) for row in lines)]
    )
    features = ["x", "z"]
    model = fitted(client, settings, text=text, target=target, features=features, seed=5, **settings_of_fit)
    made = start(client, model, seed=7).json()
    run_units(settings)
    done = client.get(f"/studies/{made['id']}").json()
    assert done["state"] == "succeeded", done["error"]

    seen = np.ones(len(columns["x"]), bool)
    seen[holdout_rows(len(seen), settings_of_fit.get("holdout"), 5)] = False
    seen &= [value is not None for value in columns[target]]
    taken = {
        name: [value for value, is_seen in zip(v, seen, strict=True) if is_seen]
        for name, v in columns.items()
    }
    expected = select_features(
        {name: taken[name] for name in features},
        taken[target],
        family=model["settings"]["family"],
        num_permutations=FEWEST,
        seed=7,
        target_name=target,
        **{role: [float(v) for v in taken[settings_of_fit[role]]] for role in roles},
    )
    found = {row["name"]: row["share"] for row in done["selection"]["features"]}
    assert found == dict(zip(expected.names, expected.share, strict=True))


WRONG_SELECTIONS = [
    ({"permutations": 19}, "permutations"),
    ({"permutations": 10**400}, "permutations"),
    ({"permutations": 20.5}, "permutations"),
    ({"level": 0}, "level"),
    ({"level": 1}, "level"),
    ({"seed": -1}, "seed"),
    ({"kind": "guess"}, "kind"),
    ({"kind": 3}, "kind"),
    ({"trees": 5}, "trees"),
]


@only("sqlite")
def test_refused_by_field(client, model, subtests):
    """Fields out of range and unknown ones are refused by name, and nothing is queued."""
    for wrong, field in WRONG_SELECTIONS:
        with subtests.test(str(wrong)[:80]):
            body = problem(start(client, model, **wrong), 422, "invalid-request")
            assert places(body) == [(field, None)]
    assert client.get("/studies").json()["items"] == []


@only("sqlite")
def test_refused_models(client, settings, model):
    """A model must exist, have succeeded, and have its dataset."""
    problem(start(client, "nobody"), 404, "not-found")
    body = {"dataset_id": model["dataset_id"], "target": "y", "num_chains": 1}
    queued = client.post("/models", json=body).json()
    problem(start(client, queued), 409, "model-not-finished")
    file = client.get(f"/models/{model['id']}/file").content
    headers = {"Content-Type": "application/vnd.bartserve.model"}
    imported = client.post("/models", content=file, headers=headers)
    assert imported.status_code == 201, imported.text
    told = problem(start(client, imported.json()), 409, "conflict")["detail"]
    assert "imported" in told


def test_cancelled_and_deleted(client, settings, model, database):
    """A cancel ends a queued study at once; workers of a running one learn of cancel and deletion."""
    made = start(client, model).json()
    path = f"/studies/{made['id']}"
    first, again = client.post(f"{path}/cancel"), client.post(f"{path}/cancel")
    assert (first.status_code, first.json()["state"]) == (200, "cancelled")
    assert first.json() == again.json()
    assert run_units(settings) == 0
    assert client.delete(path).status_code == 204
    problem(client.get(path), 404, "not-found")
    problem(client.post(f"{path}/cancel"), 404, "not-found")

    other = start(client, model).json()
    claimed = claim(database)
    assert claimed.study_id == other["id"]
    assert client.get(f"/studies/{other['id']}").json()["state"] == "running"
    client.post(f"/studies/{other['id']}/cancel")
    with session_scope(database.engine) as session:
        assert units.heartbeat(session, claimed) is units.Directive.CANCEL
    assert client.delete(f"/studies/{other['id']}").status_code == 204
    with pytest.raises(units.LeaseLostError), session_scope(database.engine) as session:
        units.heartbeat(session, claimed)

    done = start(client, model).json()
    run_units(settings)
    problem(client.post(f"/studies/{done['id']}/cancel"), 409, "conflict")
    assert client.delete(f"/models/{model['id']}").status_code == 204
    problem(client.get(f"/studies/{done['id']}"), 404, "not-found")


@only("sqlite")
def test_repeated_with_a_key(client, model):
    """A repeated request with the same Idempotency-Key makes one study."""
    path, headers = f"/models/{model['id']}/studies", {"Idempotency-Key": "one"}
    first, again = (client.post(path, json={"permutations": FEWEST}, headers=headers) for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert len(client.get("/studies").json()["items"]) == 1


@only("sqlite")
def test_studies_of_other_owners_are_404(client, database, model):
    """Other owners' studies are 404 on every route and in no list."""
    with session_scope(database.engine) as session:
        theirs = store.create(
            session, owner="local", model_id=model["id"], kind="selection", request={}, fits=[1]
        )
        theirs.owner = "somebody else"
    for method, path in [("GET", ""), ("POST", "/cancel"), ("DELETE", "")]:
        problem(client.request(method, f"/studies/{theirs.id}{path}"), 404, "not-found")
    assert client.get("/studies").json()["items"] == []


@only("sqlite")
def test_a_study_that_fails_says_why(client, settings, database, model):
    """An error in a fit fails the study with a sentence; the model stays as it is."""
    made = start(client, model).json()
    with session_scope(database.engine) as session:
        study = store.get(session, "local", made["id"])
        study.request = study.request | {"num_trees": 0}
    run_units(settings)
    failed = client.get(f"/studies/{made['id']}").json()
    assert failed["state"] == "failed"
    assert "num_trees" in failed["error"]["detail"].replace(" ", "_")
    assert client.get(f"/models/{model['id']}").json()["state"] == "succeeded"


def data(num_rows, num_features=10) -> TrainingData:
    return TrainingData(num_rows, num_features, num_features, {"family": "gaussian"})


@pytest.mark.parametrize("num_rows", [50, 5_000, 100_000, 2_000_000])
def test_a_unit_takes_seconds(num_rows):
    """Units have as many permutations as take about two seconds, at most ten, and together all of them."""
    planned = selection.plan(SelectionRequest(permutations=57), data(num_rows), slots=4)
    own, *permuted = planned.fits
    at_once = planned.request["at_once"]
    assert (own, sum(permuted), permuted[0]) == (10, 57, at_once)
    assert set(permuted[:-1]) <= {at_once}
    each = planned.seconds * 4 / (own + 57)
    assert at_once == 1 or at_once * each < 3
    assert at_once == 10 or (at_once + 1) * each > 1


def test_what_would_take_too_long_is_refused():
    """The limit on the duration of a fit holds for a study; so does one on the size of its result."""
    with acting(Actor("ann", limits=OwnerLimits(fit_seconds=60.0))):
        selection.plan(SelectionRequest(), data(1000), slots=1)
        with pytest.raises(TooLongError, match="fewer permutations"):
            selection.plan(SelectionRequest(permutations=1000), data(100_000), slots=2)
    with pytest.raises(InvalidRequestError, match="shares"):
        selection.plan(SelectionRequest(permutations=1000), data(100, 600), slots=2)


@only("sqlite")
def test_datasets_of_studies_stay(client, settings, model):
    """A dataset stays while a model of it, and with it its study, exists."""
    start(client, model)
    problem(client.delete(f"/datasets/{model['dataset_id']}"), 409, "in-use")
    other = post_csv(client, table(20)).json()
    assert client.delete(f"/datasets/{other['id']}").status_code == 204


BRIEF = {"num_trees": 5, "num_chains": 1, "num_burnin": 20, "num_draws": 10, "thin": 1}


def start_tuning(client, model, **more):
    body = {"kind": "tuning", "candidates": [BRIEF], "folds": 2} | more
    return client.post(f"/models/{model['id']}/studies", json=body)


def without_seconds(trials) -> list[dict]:
    return [{name: value for name, value in trial.items() if name != "seconds"} for trial in trials]


@only("sqlite")
@pytest.mark.parametrize(
    ("target", "of_model"),
    [
        ("number", {"weights": "weight", "missing_target": "leave_out", "holdout": 0.2, "prior": {"k": 3.0}}),
        ("answer", {"family": "probit"}),
        ("count", {"family": "negative-binomial", "exposure": "days"}),
    ],
)
def test_settings_are_tuned_in_the_background(client, settings, target, of_model):
    """A tuning has the model's rows, roles and prior; trials and choice are those of `sampler.tune`."""
    columns = rows()
    lines = zip(*columns.values(), strict=True)
    text = "\n".join(
        [",".join(columns), *(",".join("" if v is None else str(v) for v in row) for row in lines)]
    )
    features = ["x", "z"]
    model = fitted(client, settings, text=text, target=target, features=features, seed=5, **of_model)
    candidates = [BRIEF, BRIEF | {"prior": {"alpha": 0.5}}]
    made = start_tuning(client, model, candidates=candidates, seed=7)
    assert made.status_code == 202, made.text
    made = made.json()
    assert (made["kind"], made["selection"], made["tuning"]) == ("tuning", None, None)
    assert made["progress"] == {"fraction": 0, "fits_done": 0, "fits": 4}
    assert made["request"]["candidates"] == candidates
    assert run_units(settings) == 4
    done = client.get(f"/studies/{made['id']}").json()
    assert done["state"] == "succeeded", done["error"]

    seen = np.ones(len(columns["x"]), bool)
    seen[holdout_rows(len(seen), of_model.get("holdout"), 5)] = False
    seen &= [value is not None for value in columns[target]]
    taken = {
        name: [value for value, is_seen in zip(v, seen, strict=True) if is_seen]
        for name, v in columns.items()
    }
    roles = {
        role: [float(v) for v in taken[of_model[role]]]
        for role in ("weights", "exposure")
        if role in of_model
    }
    prior = {"prior": of_model["prior"]} if "prior" in of_model else {}
    line = {"linear": False} if model["settings"]["family"] == "gaussian" else {}
    expected = tune(
        {name: taken[name] for name in features},
        taken[target],
        candidates=candidates,
        folds=2,
        seed=7,
        family=model["settings"]["family"],
        target_name=target,
        num_threads=1,
        num_trees=model["settings"]["num_trees"],
        **line,
        **prior,
        **roles,
    ).to_json()
    found = done["tuning"]
    assert without_seconds(found["trials"]) == without_seconds(expected["trials"])
    assert (found["chosen"], found["folds"]) == (expected["chosen"], 2)
    chosen = expected["trials"][found["chosen"]]["settings"]
    assert found["best"] == {"family": model["settings"]["family"], "method": "bart"} | line | chosen | (
        {"prior": prior["prior"] | chosen.get("prior", {})} if prior else {}
    )
    body = {"dataset_id": model["dataset_id"], "target": target, "missing_target": "leave_out"}
    again = client.post("/models/estimate", json=body | found["best"])
    assert again.status_code == 200, again.text


@only("sqlite")
def test_candidates_that_cannot_be_fitted_are_told(client, settings, model):
    """A candidate that the rows refuse is left out with the reason; a page keeps to studies of its kind."""
    wrong = BRIEF | {"transform": "log"}
    below = table(60).replace("\n", "\n-", 1)  # one outcome below zero
    other = fitted(client, settings, text=below, target="y", features=["size"])
    ids = [start_tuning(client, other, candidates=tried).json()["id"] for tried in ([BRIEF, wrong], [wrong])]
    run_units(settings)
    some, none = (client.get(f"/studies/{study_id}").json()["tuning"] for study_id in ids)
    assert [bool(trial["refused"]) for trial in some["trials"]] == [False, True]
    assert "positive" in some["trials"][1]["refused"]
    assert (some["trials"][1]["log_score"], some["chosen"]) == (None, 0)
    assert (none["chosen"], none["best"]) == (None, None)
    assert client.get(f"/ui/models/{other['id']}/features").status_code == 200


WRONG_TUNINGS = [
    ({"candidates": "all"}, "candidates"),
    ({"candidates": 3}, "candidates"),
    ({"candidates": []}, "candidates"),
    ({"candidates": [BRIEF] * 51}, "candidates"),
    ({"candidates": [{"num_trees": 0}]}, "candidates"),
    ({"candidates": [{"prior": {"kk": 1}}]}, "candidates"),
    ({"candidates": [{"prior": {"cuts": {"nothing": [1]}}}]}, "candidates"),
    ({"candidates": [{"noise": "t", "transform": "auto"}]}, "candidates"),
    ({"candidates": [BRIEF, {"family": "probit"}]}, "candidates.1.family"),
    ({"candidates": [{"num_tree": 3}]}, "candidates.0.num_tree"),
    ({"folds": 1}, "folds"),
    ({"folds": 31}, "folds"),
    ({"folds": 2.5}, "folds"),
    ({"seed": -1}, "seed"),
    ({"parsimony": 1}, "parsimony"),
    ({"permutations": 20}, "permutations"),
]


@only("sqlite")
def test_tunings_refused_by_field(client, model, subtests):
    """Fields out of range and unknown settings are refused by name, and nothing is queued."""
    for wrong, field in WRONG_TUNINGS:
        with subtests.test(str(wrong)[:80]):
            body = problem(start_tuning(client, model, **wrong), 422, "invalid-request")
            assert places(body) == [(field, None)]
    assert client.get("/studies").json()["items"] == []


def test_large_tunings_are_refused():
    """The limits on the duration of a fit and on stored scores hold for a tuning."""
    with acting(Actor("ann", limits=OwnerLimits(fit_seconds=600.0))):
        planned = tuning.plan(TuningRequest(folds=3), data(200), slots=1)
        assert planned.fits == [2] * 30
        with pytest.raises(TooLongError, match="fewer candidates"):
            tuning.plan(TuningRequest(folds=20), data(50_000), slots=2)
    with pytest.raises(TooLargeError, match=r"1,000,000 scores.*fewer candidates"):
        tuning.plan(TuningRequest(), data(100_000), slots=2)
