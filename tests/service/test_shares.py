"""Two owners on one worker: an endless fit or study of one, a small fit and a prediction of the other."""

import time

import pytest
from sqlalchemy import func, select, update

from app.settings import Settings
from app.store import datasets, models, predictions, studies
from app.store.engine import session_scope
from app.store.tables import BatchPrediction, Dataset, Model, Study, Unit
from tests.support.processes.worker_service import LONG, OWNER, SHORT
from worker.context import Context
from worker.fits import chain
from worker.units import run_one

OTHER = "other"
TIMES = 8  # allowed slowdown against running alone: two owners on a slot, and a chain's turn before


def give(service, model_id, owner):
    """Transfer a model and its dataset to another owner."""
    with session_scope(service.engine) as session:
        dataset = session.get_one(Model, model_id).dataset_id
        session.execute(update(Model).where(Model.id == model_id).values(owner=owner))
        session.execute(update(Dataset).where(Dataset.id == dataset).values(owner=owner))
        session.execute(update(Unit).where(Unit.model_id == model_id).values(owner=owner))


def fit_and_predict(service) -> tuple[str, float]:
    """Run the other owner's small fit and background prediction; return the model and the seconds."""
    began = time.monotonic()
    model_id = service.create_model(**SHORT)
    give(service, model_id, OTHER)

    def state(table, prediction):
        with session_scope(service.engine, read_only=True) as session:
            return session.get_one(table, prediction).state

    service.eventually(lambda: state(Model, model_id) == "succeeded")
    with session_scope(service.engine) as session:
        dataset = datasets.get(session, OTHER, models.get(session, OTHER, model_id).dataset_id)
        request = {"levels": [0.9], "interval": "credible", "quantiles": None, "draws": 50}
        request |= {"mcse": False, "rhat": False}
        predicted = predictions.create(
            session, owner=OTHER, model_id=model_id, dataset=dataset, request=request
        ).id
    service.eventually(lambda: state(BatchPrediction, predicted) == "succeeded")
    return model_id, time.monotonic() - began


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 2])
def test_a_long_fit_does_not_stop_another_owner(service, slots):
    """With every slot held by endless chains another owner's work takes a few times its usual time."""
    service.start_worker(slots=slots)
    fit_and_predict(service)
    usual, alone = fit_and_predict(service)
    endless = service.create_model(**LONG | {"num_chains": 6, "num_draws": 4000})
    service.sampling(endless)
    model_id, beside = fit_and_predict(service)

    assert beside < TIMES * alone + 1.0
    assert service.digest(model_id) == service.digest(usual) == service.undisturbed_digest(model_id)
    assert service.model(endless).owner == OWNER
    assert service.model(endless).state == "running"


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 2])
def test_a_long_study_does_not_stop_another_owner(service, slots):
    """With every slot held by a study's endless units, another owner's fit, prediction and study are done."""
    service.start_worker(slots=slots)
    fit_and_predict(service)
    _, alone = fit_and_predict(service)
    studied = service.create_model(**LONG)
    with session_scope(service.engine) as session:
        models.cancel(session, OWNER, studied)
        settings = {"num_chains": 1, "num_trees": 200, "num_burnin": 10**6, "num_draws": 1}
        request = settings | {"permutations": 3, "seed": 1, "at_once": 1}
        study_id = studies.create(
            session, owner=OWNER, model_id=studied, kind="selection", request=request, fits=[1] * 4
        ).id
        units = select(func.count()).where(Unit.study_id == study_id, Unit.state == "running")

    def running() -> int:
        with session_scope(service.engine, read_only=True) as session:
            return session.scalar(units)

    def study(study_id) -> Study:
        with session_scope(service.engine, read_only=True) as session:
            return session.get_one(Study, study_id)

    service.eventually(lambda: running() == slots)
    other_model, beside = fit_and_predict(service)
    assert beside < TIMES * alone + 1.0

    with session_scope(service.engine) as session:
        small = settings | {"num_trees": 10, "num_burnin": 20, "permutations": 1, "seed": 1, "at_once": 1}
        others = studies.create(
            session, owner=OTHER, model_id=other_model, kind="selection", request=small, fits=[1] * 2
        ).id
    service.eventually(lambda: study(others).state == "succeeded", TIMES * alone + 1.0)
    assert running() == slots
    with session_scope(service.engine) as session:
        assert session.get_one(Study, study_id).state == "running"
        studies.cancel(session, OWNER, study_id)


@pytest.mark.slow
def test_a_chain_that_gave_way_has_the_same_draws(service, monkeypatch):
    """Chains of two owners alternating on one slot have the draws of undisturbed ones."""
    settings = SHORT | {"num_chains": 1, "num_burnin": 10, "num_draws": 10, "thin": 1}
    first, second = (service.create_model(**settings | {"seed": seed}) for seed in (1, 2))
    give(service, second, OTHER)
    monkeypatch.setattr(chain, "PATIENCE", 0)
    monkeypatch.setattr(chain, "PREPARATIONS", 0.0)
    database = service.engine.url.render_as_string(hide_password=False)
    context = Context(
        Settings(database_url=database, worker_slots=1, lease_seconds=600.0, slice_seconds=1e-6),
        "w",
        forks=False,
    )
    while run_one(context):
        pass
    context.close()

    for each in (first, second):
        assert service.digest(each) == service.undisturbed_digest(each)
        assert service.chains(each)[0].attempts > 5
