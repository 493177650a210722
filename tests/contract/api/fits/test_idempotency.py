"""Idempotency-Key: a repeated request creates nothing twice."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from app.services.access import idempotency
from app.services.fits import creation
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.tables import IdempotentAnswer, Model, Unit
from tests.support.api_calls import post_csv, problem, table
from tests.support.models.fitted_models import fitted
from tests.support.waiting import stretched

SMALL = {"num_trees": 5, "num_chains": 2, "num_draws": 10, "num_burnin": 20, "thin": 2}


@pytest.fixture
def body(client) -> dict:
    return {"dataset_id": post_csv(client, table()).json()["id"], "target": "y", **SMALL}


def send(client, body, key):
    return client.post("/models", json=body, headers={"Idempotency-Key": key})


def count(database, kind=Model):
    with session_scope(database.engine, read_only=True) as session:
        return session.scalar(select(func.count()).select_from(kind))


def test_a_request_sent_again_is_answered_again(client, database, body):
    """A repeated request gets equal status, headers and bytes, marked as a replay; one model exists."""
    first = send(client, body, "a key")
    client.post(f"{first.headers['location']}/cancel")
    again = send(client, body, "a key")

    assert first.status_code == again.status_code == 202
    assert first.content == again.content
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    for name in ("location", "retry-after", "content-type"):
        assert first.headers[name] == again.headers[name]
    assert (count(database), count(database, Unit)) == (1, 2)


def test_a_key_stands_for_one_request(client, database, body):
    """A different body under a used key is a 422; without a key or with a new one an object is created."""
    send(client, body, "k")
    refused = send(client, body | {"seed": 9}, "k")

    problem(refused, 422, "idempotency-key-reused")
    assert count(database) == 1
    assert send(client, body, "other").status_code == 202
    assert client.post("/models", json=body).status_code == 202
    assert count(database) == 3


def test_a_refusal_is_not_kept(client, database, body):
    """A refused request isn't stored: corrected, it succeeds under the same key."""
    problem(send(client, body | {"num_trees": 0}, "k"), 422)

    assert count(database, IdempotentAnswer) == 0
    assert send(client, body, "k").status_code == 202


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9".encode()])
def test_a_strange_key_is_refused(client, database, body, key):
    """An empty, overlong or unprintable key is refused, and nothing is created."""
    places = [entry["column"] for entry in problem(send(client, body, key), 422)["errors"]]

    assert places == ["Idempotency-Key"]
    assert count(database) == 0


def test_a_request_in_flight_is_a_409(client, database, body, monkeypatch):
    """A repeated request gets a 409 while the first is processed, and its response afterwards."""
    begun, go_on = threading.Event(), threading.Event()
    really = creation.plan

    def slowly(*arguments, **more):
        begun.set()
        assert go_on.wait(stretched(20))
        return really(*arguments, **more)

    monkeypatch.setattr(creation, "plan", slowly)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(send, client, body, "k")
        assert begun.wait(stretched(20))
        second = send(client, body, "k")
        go_on.set()

        problem(second, 409, "request-in-flight")
        assert int(second.headers["retry-after"]) >= 1
        accepted = first.result()
    assert send(client, body, "k").content == accepted.content
    assert accepted.status_code == 202
    assert count(database) == 1


def test_many_at_once_make_one(client, database, body):
    """Exactly one of many equal concurrent requests creates the model."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: send(client, body, "k"), range(16)))

    assert {202, 409} >= {answer.status_code for answer in answers}
    assert len({answer.content for answer in answers if answer.status_code == 202}) == 1
    assert count(database) == 1


def test_two_processes_with_one_key_create_one_model(client, database, body, monkeypatch):
    """When two processes handle one key, the first commit wins and the second's model is dropped."""
    really, first_process = creation.plan, idempotency._in_flight

    def overtaken(*arguments, **more):
        plan = really(*arguments, **more)
        monkeypatch.setattr(creation, "plan", really)
        monkeypatch.setattr(idempotency, "_in_flight", set())  # another process doesn't know it
        assert send(client, body, "k").status_code == 202
        monkeypatch.setattr(idempotency, "_in_flight", first_process)
        return plan

    monkeypatch.setattr(creation, "plan", overtaken)
    problem(send(client, body, "k"), 409, "request-in-flight")

    assert (count(database), count(database, Unit)) == (1, 2)
    assert send(client, body, "k").headers["idempotent-replayed"] == "true"


def test_after_a_day_a_key_is_free(client, database, body):
    """A response is kept for 24 hours; then it is removed and its key can be reused."""
    send(client, body, "k")
    for hours, status in ((23.9, 422), (24.1, 202)):
        with session_scope(database.engine) as session:
            created_at = utc_now() - timedelta(hours=hours)
            session.execute(update(IdempotentAnswer).values(created_at=created_at))
        assert send(client, body | {"seed": 2}, "k").status_code == status
    assert count(database, IdempotentAnswer) == 1


def test_an_upload_honours_a_key(client, database):
    """A file repeated under its key, raw or multipart with new boundaries, makes one dataset."""
    key = {"Idempotency-Key": "k"}
    data = table(20).encode()
    raw = {"content": data, "headers": key | {"Content-Type": "text/csv"}}
    first, again = (client.post("/datasets", params={"name": "a"}, **raw) for _ in range(2))
    other = client.post("/datasets", params={"name": "a"}, **raw | {"content": data + b"1,7,red,n\n"})

    assert first.status_code == again.status_code == 201
    assert (first.content, first.headers["location"]) == (again.content, again.headers["location"])
    assert again.headers["idempotent-replayed"] == "true"
    problem(other, 422, "idempotency-key-reused")
    forms = [
        client.post(
            "/datasets", files={"file": ("b.csv", data, "text/csv")}, headers={"Idempotency-Key": "m"}
        )
        for _ in range(2)
    ]
    assert forms[0].content == forms[1].content
    assert len(client.get("/datasets").json()["items"]) == 2


def test_background_predictions_honour_a_key(client, settings):
    """A background prediction repeated under its key is created once."""
    model = fitted(client, settings)
    ask = {"json": {"dataset_id": model["dataset_id"]}, "headers": {"Idempotency-Key": "k"}}
    first, again = (client.post(f"/models/{model['id']}/predictions", **ask) for _ in range(2))

    assert first.status_code == again.status_code == 202
    assert first.content == again.content
    assert len(client.get("/predictions").json()["items"]) == 1
