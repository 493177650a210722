"""Event streams end with their access, and one owner's streams leave room for others."""

import contextlib
import time
from datetime import timedelta

import pytest

from app.services.access import keys
from app.store.access import keys as store
from app.store.clock import utc_now
from app.store.engine import session_scope
from tests.support.api_calls import CSV, bearer, make_key, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving
from tests.support.waiting import stretched

pytestmark = only("sqlite")
STREAM = {"Accept": "text/event-stream"}
SOON = 10.0  # seconds within which a stream must end, with frequent checks


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch):
    monkeypatch.setattr("app.services.fits.event_stream.IDLE_SECONDS", 0.2)
    monkeypatch.setattr("app.services.fits.event_stream.CHECK_SECONDS", 0.2)


@pytest.fixture
def person(team):
    """Return a browser client of a team service."""
    with plain_http.Client(base_url=team.base_url, headers={"Accept": "text/html"}, timeout=60) as session:
        yield session


def queued(client, headers, count):
    """Return ids of queued models that no worker fits."""
    dataset = client.post("/datasets", content=table(60).encode(), headers=CSV | headers).json()["id"]
    body = {"dataset_id": dataset, "target": "y"} | SMALL
    return [client.post("/models", json=body, headers=headers).json()["id"] for _ in range(count)]


@contextlib.contextmanager
def following(client, path, headers=None):
    """Return the lines of a stream that has started."""
    with client.stream("GET", path, headers=STREAM | (headers or {})) as stream:
        assert stream.status_code == 200, stream.read()
        lines = stream.iter_lines()
        next(lines)
        yield lines


def paths(model_id):
    return [f"/models/{model_id}/events", f"/ui/events?models={model_id}"]


@pytest.mark.parametrize("way", ["revoked", "expired"])
def test_streams_end_with_their_key(team, database, way):
    """A revoked or expired key ends its own open streams only."""
    ann, again = make_key(database, "ann"), make_key(database, "again", owner="ann")
    (model_id,) = queued(team, bearer(ann), 1)
    end = make_key(database, "end", owner="ann")
    one, several = paths(model_id)
    with (
        following(team, one, bearer(end)) as ending,
        following(team, several, bearer(end)) as ending_too,
        following(team, one, bearer(again)) as going_on,
    ):
        with session_scope(database.engine) as session:
            if way == "revoked":
                keys.revoke(session, end.id)
            else:
                store.get(session, end.id).expires_at = utc_now() - timedelta(seconds=1)
        began = time.monotonic()
        reasons = [*ending, *ending_too]
        assert time.monotonic() - began < stretched(SOON)
        assert not {"event: cancelled", "event: end"} & set(reasons)
        team.post(f"/models/{model_id}/cancel", headers=bearer(ann))
        assert "event: cancelled" in going_on


def test_a_browsers_streams_end_when_it_signs_out(team, person, database):
    """Signing out ends the session's streams only; the key stays valid."""
    ann = make_key(database, "ann")
    one, several = paths(queued(team, bearer(ann), 1)[0])
    person.post("/ui/sign-in", data={"key": ann.secret})
    csrf = person.get("/ui/datasets").text.split('name="csrf" value="')[1].split('"')[0]
    with following(person, one) as lines, following(person, several) as more:
        assert person.post("/ui/sign-out", data={"csrf": csrf}).status_code == 303
        began = time.monotonic()
        assert [*lines, *more]
        assert time.monotonic() - began < stretched(SOON)
    assert team.get("/models", headers=bearer(ann)).status_code == 200


def test_streams_of_one_owner_leave_room_for_others(settings, database):
    """Streams and followed models per owner are limited; a model followed twice counts once."""
    ann, bob = (bearer(make_key(database, name)) for name in ("ann", "bob"))
    limits = {"host": "0.0.0.0", "quota_streams": 2, "max_connections": 8}
    with (
        serving(settings.model_copy(update=limits)) as address,
        plain_http.Client(base_url=address, timeout=30) as client,
    ):
        ids, bobs = queued(client, ann, 9), queued(client, bob, 1)
        eight = f"/ui/events?models={','.join(ids[:8])}"
        refused = problem(client.get(f"/ui/events?models={','.join(ids)}", headers=ann), 429, "quota")
        assert "9 models" in refused["detail"]
        with following(client, eight, ann), following(client, eight, ann):
            refusal = problem(client.get(f"/models/{ids[0]}/events", headers=ann | STREAM), 429, "quota")
            assert "2 event streams" in refusal["detail"]
            problem(client.get(eight, headers=ann), 429, "quota")
            with following(client, f"/models/{bobs[0]}/events", bob):
                assert client.get(f"/models/{ids[0]}/events", headers=ann).status_code == 200
        with following(client, eight, ann):
            problem(client.get(f"/models/{ids[8]}/events", headers=ann | STREAM), 429, "quota")
            assert client.get("/models", headers=bob).status_code == 200
        deadline = time.monotonic() + stretched(SOON)
        while True:  # ended streams free their places once their end is detected
            with client.stream("GET", f"/models/{ids[8]}/events", headers=ann | STREAM) as stream:
                if stream.status_code == 200:
                    break
            assert time.monotonic() < deadline
