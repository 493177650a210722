"""The memory with which a fit is compared is that of the workers, not of the API's machine."""

from app.store.engine import session_scope
from app.store.queue import workers
from app.store.tables import Worker
from sampler.costs.memory import MIB
from tests.support.api_calls import post_csv, problem, table
from tests.support.processes.api_server import serving
from tests.support.waiting import eventually


def test_the_memory_is_that_of_the_workers(client, database, settings):
    """An API with little memory accepts what all live workers have room for, and refuses what one has not."""
    body = {"dataset_id": post_csv(client, table()).json()["id"], "target": "y"}
    large = body | {"num_draws": 5000}  # 1.2 GiB
    with serving(settings.model_copy(update={"fit_memory_bytes": 368 * MIB})) as address:
        refused = problem(client.post(f"{address}/models", json=body), 422, "fit-too-large")
        assert "of a worker that has 368 MiB" in refused["detail"]
    with serving(settings.model_copy(update={"fit_memory_bytes": 369 * MIB})) as address:
        for name, gib in (("large", 4), ("gone", 0), ("silent", None)):
            memory = None if gib is None else gib * 1024 * MIB
            worker = Worker(id=name, host="h", pid=1, slots=1, fit_memory=memory, beat_at=0.0, phase="ready")
            with session_scope(database.engine) as session:
                workers.register(session, worker)
                if name == "gone":
                    workers.drain(session, name)
        assert client.post(f"{address}/models", json=large).status_code == 202
        estimated = client.post(f"{address}/models/estimate", json=large).json()
        assert (estimated["fits"], estimated["memory_limit_bytes"]) == (True, 4096 * MIB)
        with session_scope(database.engine) as session:
            small = Worker(id="s", host="h", pid=1, slots=1, fit_memory=MIB, beat_at=0.0, phase="ready")
            workers.register(session, small)
        eventually(
            lambda: client.post(f"{address}/models", json=body).status_code == 422,
            30,
            "the small worker counts",
        )
