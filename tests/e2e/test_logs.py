"""Logs of a running service: JSON in files, with ids and without data."""

import json
import re

import pytest

from tests.support.processes import plain_http
from tests.support.processes.embedded_service import Up
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SECRET = "bart_0123456789_0123456789abcdef0123456789abcdef012345"


def lines(service: Up) -> list[dict]:
    """Return every JSON line written so far."""
    records = [line for line in service.log.read_text().splitlines() if line.startswith("{")]
    return [json.loads(line) for line in records]


def test_a_request_is_followed_from_the_api_to_the_worker_and_tells_no_data(service):
    """A request's id is in its response and log line, a model's id in its units' lines.

    No line contains cells, names, keys or query strings.
    """
    rows = "".join(f"{k},{k % 7}.8125091702,town of {k}\n" for k in range(40))
    with plain_http.Client(base_url=service.address, timeout=30) as client:
        headers = {"Authorization": f"Bearer {SECRET}", "X-Request-ID": "a-request.of_mine"}
        headers |= {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        uploaded = client.post(
            "/datasets?name=secret-name",
            content="x,y,z\n" + rows,
            headers=headers | {"Content-Type": "text/csv"},
        )
        settings = {"num_trees": 5, "num_chains": 1, "num_burnin": 5, "num_draws": 5, "thin": 1}
        body = {"dataset_id": uploaded.json()["id"], "target": "y", "name": "named by somebody"} | settings
        model = client.post("/models", json=body).json()["id"]
        eventually(lambda: client.get(f"/models/{model}").json()["state"] == "succeeded", 300, "it is fitted")
        strange = {"X-Request-ID": "not\tallowed", "traceparent": f"00-{TRACE[:-1]}g-00f067aa0ba902b7-01"}
        bad = client.get("/models", headers=strange)

    assert uploaded.headers["x-request-id"] == "a-request.of_mine"
    assert re.fullmatch(r"[0-9a-f]{16}", bad.headers["x-request-id"])

    def ended() -> bool:
        return (
            sum(line["event"] == "unit_ended" and line["model_id"] == model for line in lines(service)) == 2
        )

    eventually(ended, 60, "both units have ended")
    written = lines(service)
    of_mine = [line for line in written if line.get("request_id") == "a-request.of_mine"]
    (mine,) = [line for line in of_mine if "route" in line]
    (change,) = [line for line in of_mine if line["logger"] == "bartserve.audit"]
    assert json.loads(change["message"])["action"] == "dataset.created"
    assert (mine["route"], mine["method"], mine["status"], mine["level"]) == (
        "/datasets",
        "POST",
        201,
        "info",
    )
    assert mine["duration_ms"] > 0
    assert {line["trace_id"] for line in of_mine} == {TRACE}
    assert not [line for line in written if line.get("trace_id") not in {None, TRACE}]
    units = [line for line in written if line.get("model_id") == model and line["event"].startswith("unit_")]
    assert {line["kind"] for line in units} == {"chain", "finish"}
    assert all(line["worker_id"] and line["token"] >= 1 and line["unit_id"] for line in units)
    assert {line["chain"] for line in units if line["kind"] == "chain"} == {0}
    looked = [line for line in written if line.get("route") == "/models/{model_id}"]
    assert {line.get("model_id") for line in looked} >= {model}

    whole = service.log.read_text()
    for secret in (SECRET, "town of", "secret-name", "named by somebody", "6.8125091702"):
        assert secret not in whole
    assert "Traceback" not in whole
