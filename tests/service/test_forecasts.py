"""Forecasters whose workers are killed end with the same bits; cancelled ones are continued."""

import os
import signal

import numpy as np
import pyarrow as pa
import pytest

from app.services.fits import creation
from app.services.fits.requests import FitRequest
from app.store import datasets, draws, models
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
