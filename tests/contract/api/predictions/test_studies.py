"""Studies of models over HTTP, and the selection of features by a permutation null."""

import pytest

from app.services.errors import InvalidRequestError
from app.services.fits.costs import TooLongError
from app.services.request_context import Actor, OwnerLimits, acting
from app.services.studies import selection
from app.services.studies.selection import SelectionBody
from app.store import studies as store
from app.store.engine import session_scope
from app.store.queue import claims, units
from app.store.queue.claims import Claim
from app.store.tables import Study
from sampler import select_features
from tests.support.api_calls import places, post_csv, post_model, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import fitted, run_units
from tests.support.study_tables import as_csv, outcomes_of_every_kind, training_rows, training_size

FEWEST = 20


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
    study = response.json()
    path = f"/studies/{study['id']}"
    assert response.headers["location"] == path
    assert (study["kind"], study["state"], study["model_id"]) == ("selection", "queued", model["id"])
    assert (study["request"]["permutations"], study["request"]["seed"]) == (FEWEST, 2)
    assert study["progress"] == {"fraction": 0, "fits_done": 0, "fits": 10 + FEWEST}
    assert study["selection"] is None
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
    selection = done["selection"]
    assert selection["level"] == 0.1
    assert {row["name"]: row["share"] for row in selection["features"]} == dict(
        zip(expected.names, expected.share, strict=True)
    )
    for rule in ("local", "max", "se"):
        by = [row["name"] for row in selection["features"] if rule in row["selected_by"]]
        assert by == expected.selected(rule)
        thresholds = {row["name"]: row["thresholds"][rule] for row in selection["features"]}
        assert [thresholds[name] for name in expected.names] == expected.threshold(rule).tolist()


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
@pytest.mark.sampled(quick=1)
def test_rows_and_roles_are_those_of_the_model(client, settings, target, settings_of_fit, roles):
    """A study takes the model's training rows, features, family, weights and exposures."""
    columns = outcomes_of_every_kind()
    text = as_csv(columns)
    features = ["x", "z"]
    model = fitted(client, settings, text=text, target=target, features=features, seed=5, **settings_of_fit)
    study = start(client, model, seed=7).json()
    run_units(settings)
    done = client.get(f"/studies/{study['id']}").json()
    assert done["state"] == "succeeded", done["error"]

    training = training_rows(columns, target, settings_of_fit.get("holdout"), 5)
    expected = select_features(
        {name: training[name] for name in features},
        training[target],
        family=model["settings"]["family"],
        num_permutations=FEWEST,
        seed=7,
        target_name=target,
        **{role: [float(v) for v in training[settings_of_fit[role]]] for role in roles},
    )
    shares = {row["name"]: row["share"] for row in done["selection"]["features"]}
    assert shares == dict(zip(expected.names, expected.share, strict=True))


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
    imported = post_model(client, file)
    assert imported.status_code == 201, imported.text
    detail = problem(start(client, imported.json()), 409, "conflict")["detail"]
    assert "imported" in detail


def test_cancelled_and_deleted(client, settings, model, database):
    """A cancel ends a queued study at once; workers of a running one learn of cancel and deletion."""
    study = start(client, model).json()
    path = f"/studies/{study['id']}"
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
    with session_scope(database.engine) as session:
        session.get_one(Study, theirs.id).owner = "somebody else"
    for method, path in [("GET", ""), ("POST", "/cancel"), ("DELETE", "")]:
        problem(client.request(method, f"/studies/{theirs.id}{path}"), 404, "not-found")
    assert client.get("/studies").json()["items"] == []


@only("sqlite")
def test_a_study_that_fails_says_why(client, settings, database, model):
    """An error in a fit fails the study with a sentence; the model stays as it is."""
    created = start(client, model).json()
    with session_scope(database.engine) as session:
        study = store.get(session, "local", created["id"])
        study.request = study.request | {"num_trees": 0}
    run_units(settings)
    failed = client.get(f"/studies/{created['id']}").json()
    assert failed["state"] == "failed"
    assert "num_trees" in failed["error"]["detail"].replace(" ", "_")
    assert client.get(f"/models/{model['id']}").json()["state"] == "succeeded"


@pytest.mark.parametrize("num_rows", [50, 5_000, 100_000, 2_000_000])
def test_a_unit_takes_seconds(num_rows):
    """Units have as many permutations as take about two seconds, at most ten, and together all of them."""
    planned = selection.plan(SelectionBody(permutations=57), training_size(num_rows), slots=4)
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
        selection.plan(SelectionBody(), training_size(1000), slots=1)
        with pytest.raises(TooLongError, match="fewer permutations"):
            selection.plan(SelectionBody(permutations=1000), training_size(100_000), slots=2)
    with pytest.raises(InvalidRequestError, match="shares"):
        selection.plan(SelectionBody(permutations=1000), training_size(100, 600), slots=2)


@only("sqlite")
def test_datasets_of_studies_stay(client, settings, model):
    """A dataset stays while a model of it, and with it its study, exists."""
    start(client, model)
    problem(client.delete(f"/datasets/{model['dataset_id']}"), 409, "in-use")
    other = post_csv(client, table(20)).json()
    assert client.delete(f"/datasets/{other['id']}").status_code == 204
