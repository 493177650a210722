"""Cancelled units end within two slices and free their process, whatever they compute."""

import os
import time

import pytest

from app.settings import Settings
from app.store import datasets, models, predictions, studies
from app.store.engine import session_scope
from app.store.queue import claims
from app.store.tables import CHAIN, FINISH, KINDS, LONG_KINDS, PREDICTION, STUDY, TOTALS, Dataset, Unit
from tests.support.friedman import friedman_table
from tests.support.processes.worker_service import LONG, OWNER, SHORT
from tests.support.store_factories import create_model
from worker.context import Context
from worker.heartbeat import Watch

MANY_DRAWS = SHORT | {"num_trees": 5, "num_draws": 1000, "thin": 1}
TUNING = {
    "candidates": [{"num_trees": 200}],
    "common": {"num_burnin": 20_000, "num_draws": 100},
    "folds": 3,
    "parsimony": False,
    "seed": 4,
}
OF_ROWS = {
    "levels": [0.9],
    "interval": "predictive",
    "quantiles": [],
    "draws": 1000,
    "mcse": True,
    "rhat": True,
    "verdict": None,
    "classes": None,
    "warnings": [],
}
MEDIANS = {"by": None, "of": "quantile", "q": 0.5, "level": 0.9, "interval": "predictive"}
OF_TOTALS = OF_ROWS | {
    predictions.AS_TEXT: [],
    predictions.AGGREGATE: MEDIANS
    | {"compare": None, "population": False, "weights": None, "observed": None},
    predictions.COLUMNS: ["x1", "x2", "x3", "x4", "x5", "town"],
    "mcse": False,
    "rhat": False,
}


def fitted(service, table=None, **settings):
    model = service.create_model(table, **MANY_DRAWS | settings)
    worker = service.start_worker()
    assert service.ended(model).state == "succeeded"
    os.killpg(worker.pid, 9)
    worker.wait()
    return model


def endless_chain(service):
    model = service.create_model(**LONG | {"num_draws": 5000})
    return lambda session: models.cancel(session, OWNER, model)


def endless_finish(service):
    model = service.create_model(friedman_table(60_000), **MANY_DRAWS | {"holdout": 0.9})
    return lambda session: models.cancel(session, OWNER, model)


def endless_study(service):
    model = fitted(service)
    with session_scope(service.engine) as session:
        asked = {"owner": OWNER, "model_id": model, "kind": "tuning", "request": TUNING, "fits": [4] * 3}
        study = studies.create(session, **asked)
    return lambda session: studies.cancel(session, OWNER, study.id)


def predicting(service, num_rows, request):
    model, table = fitted(service), friedman_table(num_rows, seed=9)
    encoded = datasets.encode(table)
    columns = [{"name": name, "kind": "number"} for name in table.column_names]
    with session_scope(service.engine) as session:
        dataset = datasets.save(session, encoded, owner=OWNER, name="new", columns=columns, warnings=[])
    with session_scope(service.engine) as session:
        dataset = session.get_one(Dataset, dataset.id)
        prediction = predictions.create(
            session, owner=OWNER, model_id=model, dataset=dataset, request=request, unit_rows=num_rows
        )
    return lambda session: predictions.cancel(session, OWNER, prediction.id)


LONG_WORK = {
    CHAIN: endless_chain,
    FINISH: endless_finish,
    PREDICTION: lambda service: predicting(service, 65_536, OF_ROWS),
    STUDY: endless_study,
    TOTALS: lambda service: predicting(service, 200_000, OF_TOTALS),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("service", ["embedded"], indirect=True)
def test_a_cancelled_unit_of_each_kind_frees_its_process(service, kind):
    """Cancelled in the midst of minutes of work, a unit of each kind soon gives its process back."""
    cancel = LONG_WORK[kind](service)
    service.start_worker(slots=1)

    def under_way():
        with session_scope(service.engine, read_only=True) as session:
            mine = session.query(Unit).where(Unit.kind == kind, Unit.state == "running")
            return mine.where(Unit.phase.is_distinct_from("compiling")).first()

    unit = service.eventually(under_way)
    time.sleep(2.0)  # into its long part
    with session_scope(service.engine) as session:
        cancel(session)

    def is_free():  # the end of the unit's work, or of its process
        told = [line for line in service.log.read_text().splitlines() if unit.id in line]
        return any("ended" in line for line in told)

    service.eventually(is_free, 30)
    with session_scope(service.engine, read_only=True) as session:
        assert session.get(Unit, unit.id).state == "cancelled"


@pytest.mark.parametrize("service", ["embedded"], indirect=True)
def test_work_that_looks_at_nothing_ends_with_its_process(service):
    """A process whose work doesn't notice the end of its unit ends by itself."""
    model = create_model(service.engine, num_chains=1)
    settings = Settings(database_url=service.environment["BARTSERVE_DATABASE_URL"], redis_url=None)
    with session_scope(service.engine) as session:
        claimed = claims.claim(session, "w", 0.4)
    child = os.fork()
    if child == 0:
        context = Context(settings, "w")
        context.after_fork(0)
        with Watch(context, claimed):
            time.sleep(600)
        os._exit(0)
    with session_scope(service.engine) as session:
        models.cancel(session, OWNER, model.id)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    with session_scope(service.engine, read_only=True) as session:
        assert session.get(Unit, claimed.unit_id).state == "cancelled"


def test_every_kind_is_asked():
    """Totals, which may take a quarter of an hour, take a slot as chains and studies do."""
    assert set(LONG_WORK) == set(KINDS)
    assert set(LONG_KINDS) == {CHAIN, STUDY, TOTALS}
