"""Forecasters whose workers are killed end with the same bits; cancelled ones are continued."""

import os
import signal
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from app.services.fits import creation
from app.services.fits import restarts as extension
from app.services.fits.requests import FitRequest
from app.services.predictions import stored as background
from app.services.predictions.predict_rows import Predictor
from app.store import datasets, draws, models, predictions
from app.store.engine import session_scope
from app.store.queue import restarts
from sampler import Forecaster, fit
from sampler.host.forecasts import with_models
from tests.support.forecasts import shops
from tests.support.processes.worker_service import OWNER

ASKED = {"time": "month", "series": "shop", "horizon": 4, "known": ["promo"]}
SHORT = {"num_trees": 50, "num_chains": 2, "num_burnin": 400, "num_draws": 50, "thin": 8}


def start(service) -> tuple[str, dict, np.ndarray]:
    columns, y = shops(2)
    days = [f"{month}-01" for month in columns["month"]]
    table = pa.table(columns | {"month": pa.array(days).cast(pa.timestamp("us")), "sales": y})
    with session_scope(service.engine) as session:
        names = [{"name": name} for name in table.column_names]
        dataset = datasets.save(
            session, datasets.encode(table), owner=OWNER, name="sales", columns=names, warnings=[]
        )
    request = FitRequest(dataset.id, "sales", forecast=ASKED, settings=SHORT)
    plan = creation.plan(service.engine, OWNER, request)
    with session_scope(service.engine) as session:
        model = creation.accept(session, OWNER, plan)
    return model.id, columns | {"month": np.array(days, "datetime64[D]")}, y


def stored(service, model_id: str) -> bytes:
    with session_scope(service.engine, read_only=True) as session:
        blocks = [block for (block,) in draws.read(session, model_id)]
        return with_models(models.header(session, model_id), blocks)


def forecast_in_the_background(service, model_id: str, own: Forecaster, **more) -> tuple[str, dict]:
    """Ask for each series in a unit of its own, or for totals; return the prediction's id, and the plan."""
    plan = own.plan_template() | {"promo": [step % 4 == 1 for step in range(8)]}
    times = pa.array(plan["month"]).cast(pa.timestamp("us"))
    table = pa.table(plan | {"month": times})
    with session_scope(service.engine) as session:
        names = [{"name": name} for name in table.column_names]
        dataset = datasets.save(
            session, datasets.encode(table), owner=OWNER, name="plan", columns=names, warnings=[]
        )
    body = background.BatchBody.model_validate({"forecast": {"known": dataset.id} | more})
    planned = background.plan(Predictor(service.engine, 1 << 28, 100), OWNER, model_id, body)
    with session_scope(service.engine) as session:
        planned = planned if more else replace(planned, unit_rows=4)
        return background.accept(session, OWNER, planned).id, plan


@pytest.mark.slow
def test_a_killed_worker_costs_a_forecaster_time_only(service):
    """After SIGKILL, and after a cancel and retry, the members and rehearsals are the library's."""
    model_id, columns, y = start(service)
    worker = service.start_worker()
    service.eventually(lambda: any(chain.num_draws for chain in service.chains(model_id)))
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    assert service.model(model_id).state == "running"
    service.cancel(model_id)
    service.start_worker()
    assert service.ended(model_id).state == "cancelled"
    with session_scope(service.engine) as session:
        restarts.retry(session, restarts.locked(session, OWNER, model_id))
    model = service.eventually(
        lambda: service.model(model_id).state == "succeeded" and service.model(model_id)
    )
    assert model.diagnostics["rehearsals"] == 10

    own = fit(columns, y, **ASKED, **SHORT, target_name="sales", progress=False)
    assert stored(service, model_id) == own.to_bytes()
    assert Forecaster.from_bytes(stored(service, model_id)).members == own.members

    with session_scope(service.engine) as session:
        extension.extend(session, OWNER, model_id, 150)
    service.eventually(lambda: any("extended_to" in each.statistics for each in service.chains(model_id)))
    os.killpg(service.workers[-1].pid, signal.SIGKILL)
    service.workers[-1].wait()
    assert service.model(model_id).state == "running"
    assert stored(service, model_id) == own.to_bytes(), "until all of it changes at once"
    service.start_worker()
    service.eventually(lambda: service.model(model_id).state == "succeeded")
    own = own.extend(150)
    assert stored(service, model_id) == own.to_bytes()

    prediction_id, plan = forecast_in_the_background(service, model_id, own)

    def done() -> int:
        with session_scope(service.engine, read_only=True) as session:
            return predictions.num_blocks(session, prediction_id)

    service.eventually(done)
    os.killpg(service.workers[-1].pid, signal.SIGKILL)
    service.workers[-1].wait()
    service.start_worker()
    service.eventually(lambda: done() == 2)
    with session_scope(service.engine, read_only=True) as session:
        blocks = [predictions.read_block(session, prediction_id, seq) for seq in range(2)]
    lines = pa.concat_tables(blocks).to_pydict()
    expected = own.forecast(plan).columns()
    assert lines["shop"] == expected["shop"]
    assert lines["upper"] == expected["upper"].tolist()

    sums = [{"steps": [1, 1 + number % 4], "by": ["shop"]} for number in range(20)]
    prediction_id, plan = forecast_in_the_background(service, model_id, own, totals=sums)

    def state() -> str:
        with session_scope(service.engine, read_only=True) as session:
            return predictions.get(session, OWNER, prediction_id).state

    service.eventually(lambda: state() == "running")
    os.killpg(service.workers[-1].pid, signal.SIGKILL)
    service.workers[-1].wait()
    assert (state(), done()) == ("running", 0), "killed in the middle of its one unit"
    service.start_worker()
    service.eventually(done)
    with session_scope(service.engine, read_only=True) as session:
        lines = predictions.read_block(session, prediction_id, 0).to_pydict()
    whole = own.forecast(plan)
    expected = [whole.total(tuple(each["steps"]), "shop").upper.tolist() for each in sums]
    assert lines["upper"] == [upper for each in expected for upper in each]
