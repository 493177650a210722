"""Tuning of settings in the background over HTTP."""

import pytest

from app.services.errors import TooLargeError
from app.services.fits.costs import TooLongError
from app.services.request_context import Actor, OwnerLimits, acting
from app.services.studies import tuning
from app.services.studies.tuning import TuningBody
from sampler import tune
from tests.support.api_calls import places, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import fitted, run_units
from tests.support.study_tables import as_csv, outcomes_of_every_kind, training_rows, training_size

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
@pytest.mark.sampled(quick=1)
def test_settings_are_tuned_in_the_background(client, settings, target, of_model):
    """A tuning has the model's rows, roles and prior; trials and choice are those of `sampler.tune`."""
    columns = outcomes_of_every_kind()
    text = as_csv(columns)
    features = ["x", "z"]
    model = fitted(client, settings, text=text, target=target, features=features, seed=5, **of_model)
    candidates = [BRIEF, BRIEF | {"prior": {"alpha": 0.5}}]
    score = "rmse" if target == "count" else "log_score"
    study = start_tuning(client, model, candidates=candidates, seed=7, score=score)
    assert study.status_code == 202, study.text
    study = study.json()
    assert (study["kind"], study["selection"], study["tuning"]) == ("tuning", None, None)
    assert study["progress"] == {"fraction": 0, "fits_done": 0, "fits": 4}
    assert study["request"]["candidates"] == candidates
    assert run_units(settings) == 4
    done = client.get(f"/studies/{study['id']}").json()
    assert done["state"] == "succeeded", done["error"]

    training = training_rows(columns, target, of_model.get("holdout"), 5)
    roles = {
        role: [float(v) for v in training[of_model[role]]]
        for role in ("weights", "exposure")
        if role in of_model
    }
    prior = {"prior": of_model["prior"]} if "prior" in of_model else {}
    line = {"linear": False} if model["settings"]["family"] == "gaussian" else {}
    expected = tune(
        {name: training[name] for name in features},
        training[target],
        candidates=candidates,
        folds=2,
        seed=7,
        score=score,
        family=model["settings"]["family"],
        target_name=target,
        num_threads=1,
        num_trees=model["settings"]["num_trees"],
        **line,
        **prior,
        **roles,
    ).to_json()
    tuning = done["tuning"]
    assert without_seconds(tuning["trials"]) == without_seconds(expected["trials"])
    assert (tuning["chosen"], tuning["folds"], tuning["score"]) == (expected["chosen"], 2, score)
    if target == "answer":
        refused = problem(start_tuning(client, model, score="rmse"), 422, "invalid-request")
        assert places(refused) == [("score", None)]
    chosen = expected["trials"][tuning["chosen"]]["settings"]
    assert tuning["best"] == {"family": model["settings"]["family"], "method": "bart"} | line | chosen | (
        {"prior": prior["prior"] | chosen.get("prior", {})} if prior else {}
    )
    body = {"dataset_id": model["dataset_id"], "target": target, "missing_target": "leave_out"}
    again = client.post("/models/estimate", json=body | tuning["best"])
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
    ({"candidates": [{"prior": {"cuts": {"size": ["a"]}}}]}, "candidates"),
    ({"candidates": [{"noise": "t", "transform": "auto"}]}, "candidates"),
    ({"candidates": [BRIEF, {"family": "probit"}]}, "candidates.1.family"),
    ({"candidates": [{"num_tree": 3}]}, "candidates.0.num_tree"),
    ({"folds": 1}, "folds"),
    ({"folds": 31}, "folds"),
    ({"folds": 2.5}, "folds"),
    ({"seed": -1}, "seed"),
    ({"parsimony": 1}, "parsimony"),
    ({"score": "mae"}, "score"),
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
        planned = tuning.plan(TuningBody(kind="tuning", folds=3), training_size(200), slots=1)
        assert planned.fits == [2] * 33
        with pytest.raises(TooLongError, match="fewer candidates"):
            tuning.plan(TuningBody(kind="tuning", folds=20), training_size(45_000), slots=2)
    with pytest.raises(TooLargeError, match=r"1,100,000 scores.*fewer candidates"):
        tuning.plan(TuningBody(kind="tuning"), training_size(100_000), slots=2)
