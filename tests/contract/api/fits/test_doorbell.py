"""The API sends doorbells after the commit; without a responding broker everything else works."""

import socket
import time

from app.services.doorbell import Bell
from app.settings import BELL_QUEUE
from tests.support.api_calls import post_csv, table
from tests.support.databases import only
from tests.support.processes import plain_http, servers
from tests.support.processes.api_server import serving
from tests.support.waiting import stretched


@only("sqlite")
def test_an_accepted_fit_rings_once_per_chain(settings, valkey_url):
    """An accepted fit sends one doorbell per chain, containing only the task's name."""
    broker = servers.redis_client(valkey_url)
    prefix = f"test-{time.monotonic_ns()}:"
    with_broker = settings.model_copy(update={"redis_url": valkey_url, "key_prefix": prefix})
    with serving(with_broker) as address, plain_http.Client(base_url=address, timeout=30) as client:
        dataset_id = post_csv(client, table()).json()["id"]
        assert broker.llen(f"{prefix}{BELL_QUEUE}") == 0

        response = client.post("/models", json={"dataset_id": dataset_id, "target": "y", "num_chains": 3})

        assert response.status_code == 202
        deadline = time.monotonic() + stretched(10)
        while broker.llen(f"{prefix}{BELL_QUEUE}") < 3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert broker.llen(f"{prefix}{BELL_QUEUE}") == 3
    broker.delete(f"{prefix}{BELL_QUEUE}")


@only("sqlite")
def test_a_broker_that_is_away_costs_nothing(settings):
    """Without a broker a fit is accepted, and the response isn't delayed."""
    away = settings.model_copy(update={"redis_url": "redis://127.0.0.1:9/0"})
    with serving(away) as address, plain_http.Client(base_url=address, timeout=30) as client:
        dataset_id = post_csv(client, table()).json()["id"]
        started = time.monotonic()

        response = client.post("/models", json={"dataset_id": dataset_id, "target": "y"})

        assert response.status_code == 202
        assert time.monotonic() - started < stretched(5)
        assert client.get(response.headers["location"]).json()["state"] == "queued"


@only("sqlite")
def test_a_mute_broker_holds_a_ring_for_a_moment_only(settings, tmp_path):
    """Sending to a broker that accepts connections and never answers ends by its time limit."""
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "mute.sock"))
        mute.listen()
        url = f"redis+socket://{tmp_path / 'mute.sock'}"
        bell = Bell(settings.model_copy(update={"redis_url": url}))
        started = time.monotonic()

        bell.ring(4)

        assert time.monotonic() - started < stretched(15)
        bell.close()
