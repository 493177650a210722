"""Promised times, measured by the clock, where measuring takes long."""

import os
import signal
import time
from datetime import timedelta

import pytest

from app.store.clock import utc_now
from tests.support.processes.service_fixtures import dialect, service  # noqa: F401  fixtures
from tests.support.processes.worker_service import LONG, SHORT

# Below the promise (15 s, 75 s): the lease, a query, a doorbell, and seconds to spare.
BOUNDS = {"embedded": 14.5, "team": 70.0}
LOST_SECONDS = 10.0  # seconds of sampling, at most


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_lost_worker_is_replaced_in_time(service, request):  # noqa: F811
    """After SIGKILL of a whole worker, an idle one claims and continues its chain in time."""
    kind = request.node.callspec.params["service"]
    for name in ("LEASE_SECONDS", "SLICE_SECONDS", "DISPATCH_SECONDS"):
        del service.environment[f"BARTSERVE_{name}"]  # use the default times
    model_id = service.create_model(**LONG | {"num_chains": 1, "num_draws": 4000})
    worker = service.start_worker(slots=1)
    service.sampling(model_id)
    service.start_worker(slots=1)
    time.sleep(3.0)
    os.killpg(worker.pid, signal.SIGKILL)
    killed, killed_at = time.monotonic(), utc_now()
    (before,) = service.chains(model_id)

    def goes_on():
        (chain,) = service.chains(model_id)
        return chain.attempts == before.attempts + 1 and chain.iteration > before.iteration

    service.eventually(goes_on, 120)
    resumed = time.monotonic() - killed
    lost = killed_at - before.updated_at
    print(f"\n{kind}: {lost.total_seconds():.1f} s of sampling lost, resumed {resumed:.1f} s after the kill")
    assert resumed < BOUNDS[kind]
    assert lost < timedelta(seconds=LOST_SECONDS)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("service", ["embedded"], indirect=True)
def test_a_worker_stopped_while_it_compiles(service, tmp_path):  # noqa: F811
    """SIGTERM during compilation ends a worker within 30 s, its chains released without an attempt."""
    model_id = service.create_model(**SHORT)
    worker = service.start_worker(XDG_CACHE_HOME=str(tmp_path / "cold"))
    service.eventually(lambda: any(chain.phase == "compiling" for chain in service.chains(model_id)))
    worker.send_signal(signal.SIGTERM)
    began = time.monotonic()
    worker.wait(30)
    print(f"\nout after {time.monotonic() - began:.1f} s")

    given_back = service.chains(model_id)
    assert {"queued"} == {chain.state for chain in given_back}
    assert {0} == {chain.stalled_attempts for chain in given_back}
    service.start_worker()
    assert service.ended(model_id, 400).state == "succeeded"
