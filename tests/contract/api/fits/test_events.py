"""GET /models/{id}/events: a model's log, in pages and as a resumable stream."""

import json
import threading
import time

import httpx
import pytest

from app.server import STOP_SECONDS
from app.server import server as make_server
from app.services.fits.event_stream import Feed
from app.store.engine import session_scope
from app.store.queue import claims, units
from tests.support.api_calls import post_csv, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, run_units
from tests.support.models.partial_chains import give_back, take_chains
from tests.support.waiting import stretched

STREAM = {"Accept": "text/event-stream"}


@pytest.fixture
def model_id(client) -> str:
    dataset = post_csv(client, table(60)).json()["id"]
    return client.post("/models", json={"dataset_id": dataset, "target": "y"} | SMALL).json()["id"]


def log(client, model_id):
    page = client.get(f"/models/{model_id}/events").json()
    assert page["next_cursor"] is None
    assert [event["sequence"] for event in page["items"]] == [*range(1, len(page["items"]) + 1)]
    return [event["kind"] for event in page["items"]]


def follow(client, model_id, after=None, most=None):
    """Return the events of a stream as (id, kind, data), up to its end or a given number."""
    headers = STREAM if after is None else STREAM | {"Last-Event-ID": str(after)}
    events, fields = [], {}
    with client.stream("GET", f"/models/{model_id}/events", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif fields:
                events.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
                fields = {}
                if len(events) == most:
                    break
    return events


def logged(events):
    return [(number, kind) for number, kind, _ in events if number is not None]


def test_the_log_tells_what_happened(client, settings, database, model_id):
    """Every change of state is logged once, in order, with gapless numbers."""
    claims = take_chains(database.engine, 10, 20)
    with session_scope(database.engine) as session:
        units.fail(session, claims[0], {"type": "internal", "detail": "A cosmic ray."})
    client.post(f"/models/{model_id}/retry")
    give_back(database.engine, claims[1:])
    client.post(f"/models/{model_id}/cancel")
    client.post(f"/models/{model_id}/cancel")
    client.post(f"/models/{model_id}/retry")
    run_units(settings)
    client.post(f"/models/{model_id}/extend", json={"num_draws": 5})
    run_units(settings)

    chains = ["started", "chain_finished", "chain_finished", "succeeded"]
    assert log(client, model_id) == [
        *("created", "started", "failed", "retried", "cancel_requested", "cancelled", "retried"),
        *(*chains, "extended", *chains),
    ]
    page = client.get(f"/models/{model_id}/events").json()["items"]
    details = {event["kind"]: event["detail"] for event in page}
    assert details["failed"] == {"type": "internal", "detail": "A cosmic ray."}
    assert details["extended"] == {"num_draws": 5}
    assert details["chain_finished"] == {"chain": 1, "draws": 45}
    assert details["succeeded"]["verdict"] in {"converged", "approximate", "not_converged"}
    assert page[0]["at"] <= page[-1]["at"]


def test_a_recovered_chain_is_logged(client, database, model_id):
    """A chain taken over from a lost worker is logged as recovered."""
    with session_scope(database.engine) as session:
        claims.claim(session, "w1", -1.0)
    with session_scope(database.engine) as session:
        claims.claim(session, "w2", 60.0)
    page = client.get(f"/models/{model_id}/events").json()["items"]

    assert [event["kind"] for event in page] == ["created", "started", "chain_recovered"]
    assert page[-1]["detail"] == {"chain": 0, "attempt": 2}


def test_pages_of_the_log(client, settings, model_id):
    """Cursors lead through the whole log without a gap; an invalid cursor or unknown model is refused."""
    run_units(settings)
    seen, cursor = [], None
    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = client.get(f"/models/{model_id}/events", params=query).json()
        seen += [event["kind"] for event in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert seen == log(client, model_id)
    for strange in ("x", "-1", "9" * 40, "\u0661"):
        problem(client.get(f"/models/{model_id}/events", params={"cursor": strange}), 422)
    problem(client.get(f"/models/{model_id}/events", headers=STREAM | {"Last-Event-ID": "x"}), 422)
    problem(client.get("/models/mdl_none/events"), 404)
    problem(client.get("/models/mdl_none/events", headers=STREAM), 404)


def test_a_stream_tells_it_as_it_happens(client, settings, model_id):
    """A stream sends events and progress during the fit, then the final event, and ends."""
    events = []
    reader = threading.Thread(target=lambda: events.extend(follow(client, model_id)))
    reader.start()
    time.sleep(0.3)
    run_units(settings)
    reader.join(stretched(20))

    assert not reader.is_alive()
    kinds = [kind for _, kind in logged(events)]
    assert kinds == ["created", "started", "chain_finished", "chain_finished", "succeeded"]
    assert events[-1][1] == "succeeded"
    progress = [data for number, kind, data in events if kind == "progress" and number is None]
    assert progress[0]["state"] in {"queued", "running"}
    assert {"fraction", "chains", "draws", "eta_seconds"} <= set(progress[0])


def test_a_stream_goes_on_where_it_was_cut_off(client, settings, model_id):
    """With Last-Event-ID no event is repeated or lost, wherever the stream broke off."""
    run_units(settings)
    whole = follow(client, model_id)
    for cut in range(1, len(whole)):
        before = logged(follow(client, model_id, most=cut))
        rest = logged(follow(client, model_id, after=before[-1][0]))
        assert before + rest == logged(whole)
    last = logged(whole)[-1][0]
    again = client.get(f"/models/{model_id}/events", headers=STREAM | {"Last-Event-ID": last})
    assert (again.status_code, again.content) == (204, b"")


def test_a_stream_of_a_deleted_model_ends(client, database, model_id):
    """Deleting a followed model ends its stream with `deleted`."""
    events = []
    reader = threading.Thread(target=lambda: events.extend(follow(client, model_id)))
    reader.start()
    time.sleep(0.8)
    client.delete(f"/models/{model_id}")
    reader.join(stretched(10))

    assert not reader.is_alive()
    assert events[-1] == (None, "deleted", {})


def test_one_reader_feeds_all_streams(client, settings, model_id, monkeypatch):
    """Twelve streams cost as many database queries as one, and receive the same events."""
    looks, really = [], Feed._look
    monkeypatch.setattr(Feed, "_look", lambda self, after: (looks.append(after), really(self, after))[1])
    events = [[] for _ in range(12)]
    readers = [
        threading.Thread(target=lambda into=into: into.extend(follow(client, model_id))) for into in events
    ]
    began = time.monotonic()
    for reader in readers:
        reader.start()
    time.sleep(1.2)
    run_units(settings)
    for reader in readers:
        reader.join(stretched(20))
    seconds = time.monotonic() - began

    assert {tuple(logged(events[0]))} == {tuple(logged(one)) for one in events}
    assert 2 <= len(looks) <= seconds / 0.5 + 2
    time.sleep(1.2)
    count = len(looks)
    time.sleep(1.0)
    assert count == len(looks)  # no follower: no query


def test_a_follower_who_left_is_forgotten(client, model_id, monkeypatch):
    """A disconnected client's stream ends at its next event, and polling stops."""
    monkeypatch.setattr("app.services.fits.event_stream.IDLE_SECONDS", 0.2)
    looks, really = [], Feed._look
    monkeypatch.setattr(Feed, "_look", lambda self, after: (looks.append(after), really(self, after))[1])
    assert follow(client, model_id, most=1)
    deadline = time.monotonic() + stretched(10)
    while True:
        count = len(looks)
        time.sleep(1.2)
        if count == len(looks):
            break
        assert time.monotonic() < deadline
    assert looks


@only("sqlite")
def test_an_open_stream_does_not_hold_up_the_end(settings, client, model_id):
    """A server asked to stop ends its streams resumably and exits at once."""
    server = make_server(settings, port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    headers = {"Accept": "text/event-stream"}
    address = f"http://127.0.0.1:{port}/models/{model_id}/events"
    with httpx.stream("GET", address, headers=headers, timeout=60) as stream:
        lines = stream.iter_lines()
        next(lines)
        began = time.monotonic()
        server.should_exit = True
        events = list(lines)
    thread.join(60)

    assert not thread.is_alive()
    assert time.monotonic() - began < stretched(STOP_SECONDS)
    assert "event: succeeded" not in events
