"""No part of a unit outlasts its lease, no worker claims its own unit, and lost leases are reported."""

import threading
from contextlib import ExitStack
from unittest.mock import patch

import pytest
from sqlalchemy import select, update

from app.settings import Settings
from app.store import datasets, models, predictions, studies
from app.store.engine import session_scope
from app.store.queue import claims, lifecycle
from app.store.tables import CHAIN, FINISH, PREDICTION, STUDY, Unit
from sampler.data.splits.split_plan import FOLDS
from tests.support.friedman import friedman_table
from tests.support.processes.worker_service import OWNER, SHORT, Service
from worker import kernels, prediction
from worker.context import Context
from worker.fits import chain, finish
from worker.studies import calibration
from worker.studies import unit as study_unit
from worker.units import run_one

LEASE, PATIENCE = 1.0, 120.0
QUICK = SHORT | {"num_burnin": 10, "num_draws": 8, "num_trees": 5, "num_chains": 1}
ONE_TREE = QUICK | {"num_trees": 1, "thin": 1}
FILTER = ONE_TREE | {"method": "smc", "moves": "default", "num_burnin": 0}
TOPOLOGIES = {"iterations": 1, "first": 2, "most": 2, "chains": 1, "draws": 20, "samples": 2}
SEARCH = ONE_TREE | {"method": "dcc-tree", "moves": "default", "search": TOPOLOGIES}
# The step to slow down for each kind of unit.
STRETCHES = {
    "chain-loads": (CHAIN, QUICK, (chain, "read_rows")),
    "chain-compiles": (CHAIN, QUICK, (kernels, "warm")),
    "chain-prepares": (CHAIN, QUICK, (chain, "prepare_problem")),
    "chain-steps": (CHAIN, QUICK, (chain._Pace, "run")),
    "single-tree-steps": (CHAIN, ONE_TREE | {"method": "bcart"}, (chain._Pace, "run")),
    "filter-steps": (CHAIN, FILTER, (chain._Pace, "run")),
    "search-steps": (CHAIN, SEARCH, (chain._Pace, "run")),
    "finish-reads": (FINISH, QUICK, (finish.draws, "read")),
    "finish-judges": (FINISH, QUICK, (finish.Posterior, "summary")),
    "finish-scores": (FINISH, QUICK, (finish, "score")),
    "finish-looks-at-rows": (FINISH, QUICK, (finish, "look_at")),
    "prediction-loads": (PREDICTION, QUICK, (prediction, "_posterior")),
    "prediction-predicts": (PREDICTION, QUICK, (prediction, "_predict")),
    "study-loads": (STUDY, QUICK, (study_unit, "_training")),
    "study-compiles": (STUDY, QUICK, (kernels, "warm")),
    "study-prepares": (STUDY, QUICK, (calibration, "prepare_problem")),
    "study-fits": (STUDY, QUICK, (calibration, "run_fit")),
    "study-scores": (STUDY, QUICK, (calibration, "conformity")),
}


@pytest.fixture
def dialect():
    """Use SQLite: threads of this process run here; `store/test_units.py` tests leases on both databases."""
    return "sqlite"


@pytest.fixture
def context(database):
    """Return the context of a worker process: this one."""
    result = Context(
        Settings(database_url=database.url, lease_seconds=LEASE, slice_seconds=0.05), "w", forks=False
    )
    chain._last_prepared.clear()
    prediction._last_loaded.clear()
    yield result
    result.close()


def slowed(stack, owner, name):
    """Block the first call: one event reports its start, another releases it."""
    began, go_on, original = threading.Event(), threading.Event(), getattr(owner, name)

    def slow(*args, **kwargs):
        if not began.is_set():
            began.set()
            assert go_on.wait(PATIENCE)
        return original(*args, **kwargs)

    stack.enter_context(patch.object(owner, name, slow))
    return began, go_on


FIRST = {"chain-prepares", "chain-steps", "finish-judges", "prediction-predicts", "study-prepares"}


@pytest.mark.parametrize(
    "stretch",
    [pytest.param(name, marks=[] if name in FIRST else [pytest.mark.slow]) for name in STRETCHES],
)
@pytest.mark.sampled(quick=2, slow=4)
def test_a_long_stretch_keeps_its_lease(database, context, stretch):
    """A step of twice the lease's second renews the lease and is done once."""
    kind, settings, place = STRETCHES[stretch]
    service = Service(database.engine, {}, context.settings.data_dir / "log", -1)
    model_id = service.create_model(friedman_table(60), **settings)
    if kind != CHAIN:
        assert run_one(context)
    if kind in (PREDICTION, STUDY):
        assert run_one(context)
        {PREDICTION: predicted, STUDY: studied}[kind](database.engine, model_id)

    def unit():
        with session_scope(database.engine, read_only=True) as session:
            return session.scalars(select(Unit).where(Unit.kind == kind, Unit.ordinal == 0)).one()

    with ExitStack() as stack:
        if stretch.endswith("compiles"):
            stack.enter_context(patch.object(kernels, "is_warm", lambda _what: False))
        began, go_on = slowed(stack, *place)
        work = threading.Thread(target=run_one, args=[context])
        work.start()
        assert began.wait(PATIENCE)
        first = unit().lease_until
        service.eventually(lambda: unit().lease_until > first + 2 * LEASE, PATIENCE)
        go_on.set()
        work.join(PATIENCE)
    done = unit()
    assert (done.state, done.attempts, done.error) == ("done", 1, None)


def predicted(engine, model_id):
    """Return a background prediction of the model's own dataset."""
    with session_scope(engine) as session:
        model = models.get(session, OWNER, model_id)
        dataset = datasets.get(session, OWNER, model.dataset_id)
        request = {"levels": [0.9], "interval": "credible", "quantiles": None, "draws": 8}
        predictions.create(
            session,
            owner=OWNER,
            model_id=model_id,
            dataset=dataset,
            request=request | {"mcse": False, "rhat": False},
        )


def studied(engine, model_id):
    """Queue a calibration of the model by folds."""
    with session_scope(engine) as session:
        studies.create(
            session,
            owner=OWNER,
            model_id=model_id,
            kind="calibration",
            request={"draws": 8},
            fits=[1] * FOLDS,
        )


def test_a_worker_never_claims_what_it_runs(database, context):
    """A worker's expired unit is not claimed by its own processes, only by another worker."""
    service = Service(database.engine, {}, context.settings.data_dir / "log", -1)
    service.create_model(friedman_table(60), **QUICK)
    with session_scope(database.engine) as session:
        claimed = claims.claim(session, "w", -1.0)
    context.places.take(claimed.unit_id, claimed.kind)
    context.places.own = 1  # another process of the same worker
    busy = context.places.busy()
    assert busy == [claimed.unit_id]
    assert not run_one(context)
    with session_scope(database.engine) as session:
        assert claims.count_claimable(session, 5, busy=busy) == 0
        session.execute(update(Unit).values(stalled_attempts=lifecycle.MAX_STALLED))
        assert lifecycle.sweep(session, busy) == 0
        session.execute(update(Unit).values(stalled_attempts=0))
        assert claims.claim(session, "other", LEASE).unit_id == claimed.unit_id


def test_a_lost_lease_is_called_one(database, context):
    """The error after a late but living worker speaks of leases, not of memory."""
    service = Service(database.engine, {}, context.settings.data_dir / "log", -1)
    model_id = service.create_model(friedman_table(60), **QUICK)

    split = chain.split

    def taken_over(*arguments):
        with session_scope(database.engine) as session:
            session.execute(update(Unit).values(token=Unit.token + 1, lease_until=0.0))
        return split(*arguments)

    with patch.object(chain, "split", taken_over):
        assert run_one(context)
    with session_scope(database.engine) as session:
        assert session.scalars(select(Unit)).one().error["type"] == "lease_lost"
        session.execute(update(Unit).values(stalled_attempts=lifecycle.MAX_STALLED))
        assert lifecycle.sweep(session) == 1
    error = service.model(model_id).error
    assert error["type"] == "lease_lost"
    assert "memory" not in error["detail"]
