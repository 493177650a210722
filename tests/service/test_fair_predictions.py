"""Two owners at one API: large predictions of one and small work of the other."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx
import pytest

from app.services.access import keys
from app.settings import Settings
from app.store.engine import session_scope
from app.supervisor import LIFELINE
from tests.support.api_calls import post_csv, table
from tests.support.models.fitted_models import run_units
from tests.support.processes.embedded_service import free_port
from tests.support.reports.cpu_time import spent_by
from tests.support.waiting import eventually

WORK = 5e9  # the limit of one prediction, about half a second of a core
ROWS = 30_000  # times 1,000 draws of 20 trees with quantiles: 70% of that
LONG_ROWS = 100_000  # half the rows of the dataset that is predicted in the background
UNIT = 2048  # rows per unit
AT_ONCE = 6
TIMES = 5  # allowed slowdown of the other owner's work against running alone
FIT = {"linear": False, "num_trees": 10, "num_chains": 2, "num_draws": 40, "num_burnin": 60, "thin": 1}
# `bartserve api` as on a host that requires keys, but on loopback, limited to two cores.
API = """
import os, sys
from app import cpu_baseline
from app.settings import Settings
from app.supervisor import end_with_supervisor
end_with_supervisor()
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
settings = Settings()
cpu_baseline.choose(settings)
from app.server import server
server(settings, port=int(sys.argv[1])).run()
"""


@dataclass
class Api:
    """A running API, and a client for each of two owners."""

    process: subprocess.Popen[bytes]
    address: str
    ann: httpx.Client
    ben: httpx.Client

    def inflight(self) -> int:
        """Return the number of predictions running or queued."""
        text = self.ben.get("/metrics").text
        return int(float(text.partition("\nbart_predict_inflight ")[2].split()[0]))

    def begin_fit(self, client: httpx.Client, **settings: int) -> str:
        """Return the id of a queued model."""
        dataset = post_csv(client, table(60)).json()["id"]
        body = {"dataset_id": dataset, "target": "y"} | FIT | settings
        return client.post("/models", json=body).json()["id"]

    def succeeds(self, client: httpx.Client, path: str) -> None:
        """Wait for the end of a fit or of a background prediction."""
        eventually(lambda: client.get(path).json()["state"] == "succeeded")

    def predict(self, client: httpx.Client, model: str) -> None:
        """Predict one row."""
        rows = [{"size": 3, "colour": "red"}]
        answer = client.post(f"/models/{model}/predict", json={"rows": rows})
        assert answer.status_code == 200, answer.text


@contextmanager
def serving(service) -> Iterator[Api]:
    """Run the API of that service's database in a process; `ann` and `ben` are owners with all scopes."""
    with session_scope(service.engine) as session:
        secrets = [
            keys.create(session, name=owner, owner=owner, scopes=[*keys.ON_PAGES], lasts=None).secret
            for owner in ("ann", "ben")
        ]
    port = free_port()
    environment = service.environment | {
        "BARTSERVE_HOST": "0.0.0.0",  # for its settings only
        "BARTSERVE_MAX_PREDICT_WORK": str(WORK),
        LIFELINE: str(service.lifeline),
    }
    with service.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", API, str(port)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(service.lifeline,),
        )
    address = f"http://127.0.0.1:{port}"
    try:
        with ExitStack() as stack:
            clients = [
                stack.enter_context(
                    httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=120)
                )
                for key in secrets
            ]
            service.eventually(lambda: clients[0].get("/health/live").is_success)
            yield Api(process, address, *clients)
    finally:
        process.kill()
        process.wait()


def large(model: str, client: httpx.Client) -> bytes:
    """Return the raw request for a prediction of many rows."""
    columns = {"size": [row % 19 for row in range(ROWS)], "colour": ["red"] * ROWS}
    body = json.dumps({"columns": columns, "draws": 500, "interval": "credible"}).encode()
    head = (
        f"POST /models/{model}/predict HTTP/1.1\r\nHost: {client.base_url.netloc.decode()}\r\n"
        f"Authorization: {client.headers['Authorization']}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


@contextmanager
def asking(api: Api, request: bytes, times: int) -> Iterator[list[socket.socket]]:
    """Send that request on several connections at once; close them at the end, answered or not."""
    with ExitStack() as stack:
        address = ("127.0.0.1", api.ann.base_url.port)
        connections = [stack.enter_context(socket.create_connection(address, 120)) for _ in range(times)]
        for connection in connections:
            connection.sendall(request)
        yield connections


def status(connection: socket.socket) -> bytes:
    """Read a connection's response to its end and return its status."""
    answer = b"".join(iter(lambda: connection.recv(1 << 20), b""))
    assert answer.startswith(b"HTTP/1.1 200"), answer[:1000]
    return answer[:12]


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


@pytest.mark.slow
@pytest.mark.parametrize("service", ["team"], indirect=True)  # which alone has owners
def test_large_predictions_leave_room_and_end_with_their_client(service, tmp_path):
    """Large predictions beyond all places don't delay another owner's.

    When their client hangs up, in line or in mid-work, the rest of their work isn't done.
    """
    with serving(service) as api:
        models = [api.begin_fit(api.ann, num_trees=20, num_draws=500), api.begin_fit(api.ben)]
        run_units(Settings(database_url=service.environment["BARTSERVE_DATABASE_URL"], data_dir=tmp_path))
        request = large(models[0], api.ann)
        api.predict(api.ben, models[1])
        api.predict(api.ann, models[0])  # both are in memory now
        alone = max(timed(lambda: api.predict(api.ben, models[1])) for _ in range(3))
        before = spent_by(api.process.pid)
        with asking(api, request, 1) as (connection,):
            seconds_of_one = timed(lambda: status(connection))
        cost_of_one = spent_by(api.process.pid) - before

        with asking(api, request, AT_ONCE):
            eventually(lambda: api.inflight() == AT_ONCE)
            beside = sum(timed(lambda: api.predict(api.ben, models[1])) for _ in range(3))
            assert api.inflight()  # some are still running or queued
            before = spent_by(api.process.pid)
        eventually(lambda: api.inflight() == 0)
        spent = spent_by(api.process.pid) - before

        # If each ran in turn, two thirds of their work would come first, and most of it afterwards.
        assert beside < 3 * TIMES * alone + seconds_of_one
        assert spent < cost_of_one
        api.predict(api.ann, models[0])


@pytest.mark.slow
@pytest.mark.parametrize("service", ["team"], indirect=True)  # which alone has owners
def test_small_work_is_done_beside_large_predictions(service):
    """A small fit and background prediction finish beside another owner's large predictions.

    Only a few units of a long background prediction are done meanwhile, however busy the machine is.
    """
    service.start_worker(slots=1)
    with serving(service) as api:
        large_model = api.begin_fit(api.ann, num_trees=20, num_draws=500)
        api.succeeds(api.ann, f"/models/{large_model}")
        new = post_csv(api.ben, table(40)).json()["id"]

        def small_work() -> None:
            model = api.begin_fit(api.ben)
            api.succeeds(api.ben, f"/models/{model}")
            begun = api.ben.post(f"/models/{model}/predictions", json={"dataset_id": new}).json()
            api.succeeds(api.ben, f"/predictions/{begun['id']}")

        small_work()
        alone = timed(small_work)
        request = large(large_model, api.ann)
        with asking(api, request, 1) as (connection,):
            seconds_of_one = timed(lambda: status(connection))
        with asking(api, request, AT_ONCE):
            eventually(lambda: api.inflight() == AT_ONCE)
            beside = timed(small_work)
        assert beside < TIMES * alone + seconds_of_one

        many = post_csv(api.ann, "size,colour\n" + "3,red\n5,blue\n" * LONG_ROWS).json()["id"]
        body = {"dataset_id": many, "mcse": True, "rhat": True}
        path = "/predictions/" + api.ann.post(f"/models/{large_model}/predictions", json=body).json()["id"]

        def rows_done() -> int:
            return int(api.ann.get(path).json()["progress"]["rows_done"])

        eventually(lambda: rows_done() > 0)
        before = rows_done()
        small_work()
        assert rows_done() - before < 16 * UNIT
        assert api.ann.get(path).json()["state"] == "running"
        assert api.ann.post(f"{path}/cancel").is_success
