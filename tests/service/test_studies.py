"""Studies of a model by real workers: killed, cancelled, and equal to the library."""

import os
import signal
from dataclasses import asdict

import numpy as np
import pytest

from app.services.studies import inclusion_by_trees as inclusion
from app.services.studies import tuning
from app.store import models, studies
from app.store.engine import session_scope
from app.store.tables import Study, Unit
from sampler import fit, holdout_rows, inclusion_by_trees, select_features, tune
from sampler.data.splits.split_plan import FOLDS
from tests.support.friedman import friedman_table
from tests.support.processes.worker_service import OWNER, SHORT

PERMUTATIONS = 20
WANTED = {"num_chains": 3, "num_trees": 10, "num_burnin": 200, "num_draws": 100}
FITS = [3, 4, 4, 4, 4, 4]  # of each unit
SELECTION = WANTED | {"permutations": PERMUTATIONS, "seed": 4, "at_once": 4}
SIZES = [{"num_trees": 5}, {"num_trees": 20}]
TUNING = {
    "candidates": SIZES,
    "common": {"num_burnin": 800, "num_draws": 100},
    "folds": 3,
    "parsimony": False,
    "seed": 4,
}
NUMBERS = [5, 20, 60]
BY_TREES = {
    "num_trees": NUMBERS,
    "level": 0.8,
    "tuning": TUNING | {"candidates": [{"num_trees": number} for number in NUMBERS]},
}
SLOW = 50  # times as many iterations


def create(service, model_id, **more) -> str:
    return stored(service, model_id, "selection", SELECTION | more, FITS)


def stored(service, model_id, kind, request, fits) -> str:
    with session_scope(service.engine) as session:
        study = studies.create(session, owner=OWNER, model_id=model_id, kind=kind, request=request, fits=fits)
        return study.id


def state(service, study_id) -> Study:
    with session_scope(service.engine, read_only=True) as session:
        return studies.get(session, OWNER, study_id)


def done(service, study_id) -> int:
    with session_scope(service.engine, read_only=True) as session:
        return session.query(Unit).where(Unit.study_id == study_id, Unit.state == "done").count()


def ended(service, study_id, seconds=120.0) -> Study:
    service.eventually(lambda: state(service, study_id).finished_at is not None, seconds)
    return state(service, study_id)


@pytest.fixture
def model_id(service):
    """A model with held-out rows, whose own chains don't run."""
    model = service.create_model(table=friedman_table(200), columns={"town": "category"}, **SHORT)
    with session_scope(service.engine) as session:
        models.cancel(session, OWNER, model)
    return model


@pytest.mark.parametrize(
    ("kind", "options", "fits"),
    [
        ("selection", SELECTION, FITS),
        ("tuning", TUNING, [2] * 6),
        pytest.param("inclusion_by_trees", BY_TREES, [4] * 3 + [2] * 9, marks=pytest.mark.slow),
    ],
)
def test_a_killed_workers_unit_is_run_again(service, model_id, kind, options, fits):
    """After SIGKILL in mid-study the next worker completes it, and the result equals the library's."""
    study = stored(service, model_id, kind, options, fits)
    first = service.start_worker(slots=1)
    service.eventually(lambda: done(service, study) >= 1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert done(service, study) < len(fits)
    service.start_worker()
    assert (ended(service, study).state, state(service, study).error) == ("succeeded", None)

    with session_scope(service.engine, read_only=True) as session:
        assert studies.fits_done(session, study) == sum(fits)
        statistics = studies.statistics(session, study)
    rows = friedman_table(200)
    training = rows.take(np.setdiff1d(np.arange(200), holdout_rows(200, SHORT["holdout"], SHORT["seed"])))
    check = {"selection": is_the_selection, "tuning": is_the_tuning, "inclusion_by_trees": is_by_trees}[kind]
    check(statistics, training.drop_columns("y"), training.column("y"))


def is_the_selection(result, X, y):
    own, *permuted = result
    expected = select_features(
        X, y, columns={"town": "category"}, target_name="y", seed=4, num_permutations=PERMUTATIONS, **WANTED
    )
    assert own == {"names": expected.names, "share": expected.share.tolist()}
    assert [row for part in permuted for row in part["null"]] == expected.null.tolist()


def is_the_tuning(result, X, y):
    settings = TUNING["common"] | {"columns": {"town": "category"}, "target_name": "y"}
    expected = tune(X, y, candidates=SIZES, folds=3, seed=4, **settings)
    trials = tuning.result(TUNING, result).trials
    assert [asdict(trial) | {"seconds": None} for trial in trials] == [
        asdict(trial) | {"seconds": None} for trial in expected.trials
    ]


def is_by_trees(result, X, y):
    (found,) = inclusion.result(BY_TREES, result).values()
    chosen = {name: value for name, value in SHORT.items() if name not in ("holdout", "num_trees")}
    settings = chosen | {"columns": {"town": "category"}, "target_name": "y", "moves": "growprune"}
    expected = inclusion_by_trees(X, y, num_trees=NUMBERS, level=0.8, **settings)
    for name in ("mean", "lower", "upper", "between_chains"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert len(found.scores.trials) == len(NUMBERS)


def test_a_killed_calibration_is_the_librarys(service):
    """After SIGKILL in mid-study the next worker calibrates the model as the library does, bit for bit."""
    settings = SHORT | {"num_burnin": 1500, "transform": "none", "linear": False}
    model_id = service.create_model(table=friedman_table(200), columns={"town": "category"}, **settings)
    first = service.start_worker(slots=1)
    assert service.ended(model_id).state == "succeeded"
    request = {"draws": settings["num_draws"]}
    study = stored(service, model_id, "calibration", request, [settings["num_chains"]] * FOLDS)
    service.eventually(lambda: done(service, study) >= 1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert done(service, study) < FOLDS
    assert service.model(model_id).calibration is None
    service.start_worker()
    assert (ended(service, study).state, state(service, study).error) == ("succeeded", None)

    rows, left_out = friedman_table(200), holdout_rows(200, settings.pop("holdout"), settings["seed"])
    training = rows.take(np.setdiff1d(np.arange(200), left_out))
    expected = fit(
        training.drop_columns("y"),
        training.column("y"),
        target_name="y",
        columns={"town": "category"},
        moves="growprune",
        calibrate="folds",
        progress=False,
        **settings,
    ).conformal_table
    calibration = service.model(model_id).calibration
    assert (calibration["kind"], calibration["rows"], calibration["draws"]) == (
        "folds",
        160,
        settings["num_draws"],
    )
    assert calibration["checksum"] == expected.checksum


@pytest.mark.slow
def test_a_cancel_is_heard_within_a_fit(service, model_id):
    """A cancel ends long fits within seconds; so does SIGTERM, which gives the unit back."""
    study = create(service, model_id, num_burnin=WANTED["num_burnin"] * SLOW * SLOW)
    worker = service.start_worker(slots=1)
    service.eventually(lambda: state(service, study).state == "running")
    with session_scope(service.engine) as session:
        studies.cancel(session, OWNER, study)
    assert ended(service, study, 10).state == "cancelled"
    again = create(service, model_id, num_burnin=WANTED["num_burnin"] * SLOW * SLOW)
    service.eventually(lambda: state(service, again).state == "running")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(15) == 0
    with session_scope(service.engine, read_only=True) as session:
        states = {unit.state for unit in session.query(Unit).where(Unit.study_id == again)}
    assert states == {"queued"}
