"""Webhooks: stored with their events, signed, sent again until they arrive or are dead letters."""

import asyncio
import ipaddress
import json

import pytest

from app.services import webhook_sending
from app.services.webhooks import USUAL
from app.store import events
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.tables import Webhook, WebhookDelivery
from app.store.webhooks import outbox as webhooks
from tests.support.api_calls import bearer, make_key, post_csv, problem, table
from tests.support.databases import only
from tests.support.html_page import browsing, page_of
from tests.support.models.fitted_models import fitted, run_units
from tests.support.processes.receiver import is_signed, receiving

LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]


@pytest.fixture
def receiver(monkeypatch):
    monkeypatch.setattr(webhook_sending, "LINGER", 0.0)
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"webhook_networks": "127.0.0.0/8"})


@pytest.fixture
def browser(client):
    with browsing(client) as session:
        yield session


def send(database, networks=LOOPBACK):
    """Send what is due, as the process beside a worker does."""
    return asyncio.run(webhook_sending.run(database.engine, networks, 20.0))


def due_now(database):
    """Let the pauses pass."""
    with session_scope(database.engine) as session:
        session.query(WebhookDelivery).where(WebhookDelivery.state == "queued").update({"due_at": utc_now()})


def log_of(client, webhook):
    return client.get(f"/webhooks/{webhook['id']}/deliveries").json()["items"]


def add(client, receiver, **more):
    response = client.post("/webhooks", json={"url": receiver.url} | more)
    assert response.status_code == 201, response.text
    return response.json()


@only("sqlite")
def test_a_fit_a_prediction_and_a_study_are_told_with_their_ends(client, settings, database, receiver):
    """Each end arrives once, signed, with state and verdict; a webhook of another model hears nothing."""
    webhook = add(client, receiver)
    add(client, receiver, model="another", events=["fit.ended"])
    model = fitted(client, settings, name="mine")
    job = client.post(f"/models/{model['id']}/predictions", json={"dataset_id": model["dataset_id"]}).json()
    study = client.post(f"/models/{model['id']}/studies", json={"kind": "calibration"}).json()
    client.post(f"/studies/{study['id']}/cancel")
    run_units(settings)
    assert send(database) == 3
    told = {}
    for headers, body in receiver.heard:
        assert is_signed(headers, body, webhook["secret"])
        assert not is_signed(headers, body + b" ", webhook["secret"])
        assert headers["content-type"] == "application/json"
        event = json.loads(body)
        assert set(event) == {"type", "timestamp", "data"}
        assert (event["data"]["model_id"], event["data"]["model_name"]) == (model["id"], "mine")
        told[event["type"]] = event["data"]
    fit = told["fit.ended"]
    assert (fit["state"], fit["verdict"], fit["error"]) == ("succeeded", model["verdict"], None)
    assert (told["prediction.ended"]["prediction_id"], told["prediction.ended"]["state"]) == (
        job["id"],
        "succeeded",
    )
    assert (told["study.ended"]["study_id"], told["study.ended"]["kind"]) == (study["id"], "calibration")
    assert told["study.ended"]["state"] == "cancelled"
    assert {each["state"] for each in log_of(client, webhook)} == {"succeeded"}
    assert send(database) == 0


@only("sqlite")
def test_the_alarm_and_refits_are_told(client, settings, database, receiver):
    """Entries of a model's log that are events are told; others and imported models are not."""
    webhook = add(client, receiver, model="mine")
    model = fitted(client, settings, name="mine")
    with session_scope(database.engine) as session:
        for entry in ("intervals_no_longer_hold", "rows_drifted", "promoted", "refused", "kept", "looked"):
            events.append(session, model["id"], entry, {"text": entry})
    file = client.get(f"/models/{model['id']}/file").content
    client.post("/model-files", content=file, params={"name": "mine"})
    kinds = [each["kind"] for each in log_of(client, webhook)]
    assert sorted(kinds) == ["drift.alarm", "fit.ended", "outcomes.alarm", "refit.promoted", "refit.refused"]
    with session_scope(database.engine) as session:
        assert {kind for kind in webhooks.EVENTS if webhooks.EVENTS[kind].logged} == {*kinds}


@pytest.mark.both_databases
def test_a_rolled_back_change_tells_nothing(client, database, receiver):
    """A delivery is stored in the transaction of its event, or not at all."""
    webhook = add(client, receiver)
    dataset = post_csv(client, table()).json()
    model = client.post("/models", json={"dataset_id": dataset["id"], "target": "y"}).json()
    with session_scope(database.engine) as session:
        events.append(session, model["id"], "failed", {"type": "x", "detail": "It failed."})
        session.rollback()
    assert log_of(client, webhook) == []
    assert client.post(f"/models/{model['id']}/cancel").status_code == 200
    (only_one,) = log_of(client, webhook)
    assert (only_one["kind"], json.loads(only_one["body"])["data"]["state"]) == ("fit.ended", "cancelled")
    assert send(database) == 1
    assert only_one["id"] == receiver.heard[0][0]["webhook-id"]


@only("sqlite")
def test_what_does_not_arrive_is_sent_again_with_the_same_id_and_ends_as_a_dead_letter(
    client, database, receiver
):
    """Each attempt has the same id and body; after the last the letter is dead, and can be sent again."""
    webhook = add(client, receiver)
    delivery = client.post(f"/webhooks/{webhook['id']}/test").json()
    receiver.status = 500
    for attempt in range(1, len(webhooks.PAUSES) + 2):
        assert send(database) == 1
        assert send(database) == 0, "it isn't due before its pause has passed"
        (entry,) = log_of(client, webhook)
        assert (entry["attempts"], entry["told"]) == (attempt, "It answered 500.")
        due_now(database)
    assert (entry["state"], entry["due_at"]) == ("failed", None)
    assert send(database) == 0
    assert {headers["webhook-id"] for headers, _ in receiver.heard} == {delivery["id"]}
    assert len({body for _, body in receiver.heard}) == 1

    receiver.status = 200
    again = f"/webhooks/{webhook['id']}/deliveries/{delivery['id']}/retry"
    assert client.post(again).status_code == 202
    assert send(database) == 1
    assert log_of(client, webhook)[0]["state"] == "succeeded"
    problem(client.post(again), 404)


@only("sqlite")
def test_redirects_are_not_followed_and_gone_is_for_good(client, database, receiver):
    """A redirect is a failed attempt; after 410 nothing is sent again."""
    webhook = add(client, receiver)
    client.post(f"/webhooks/{webhook['id']}/test")
    receiver.status = 307
    assert send(database) == 1
    assert len(receiver.heard) == 1
    due_now(database)
    receiver.status = 410
    assert send(database) == 1
    assert log_of(client, webhook)[0]["state"] == "failed"


@only("sqlite")
def test_interim_answers_are_read_for_a_while(client, database, receiver):
    """A few are no answer, and an attempt ends as failed when there are too many."""
    webhook = add(client, receiver)
    told = []
    for receiver.interim in (3, 100_000):
        client.post(f"/webhooks/{webhook['id']}/test")
        assert send(database) == 1
        told.append(log_of(client, webhook)[0]["told"])
    assert told == [None, "The connection failed (ConnectionError)."]


@only("sqlite")
def test_after_a_rotation_two_secrets_sign_for_a_day(client, database, receiver):
    """New and former secret sign each delivery, until the day is over."""
    webhook = add(client, receiver)
    new = client.post(f"/webhooks/{webhook['id']}/rotate").json()
    assert new["secret"] != webhook["secret"]
    assert "secret" not in client.get(f"/webhooks/{webhook['id']}").json()
    client.post(f"/webhooks/{webhook['id']}/test")
    send(database)
    with session_scope(database.engine) as session:
        session.query(Webhook).update({"old_until": utc_now()})
    client.post(f"/webhooks/{webhook['id']}/test")
    send(database)
    signers = [[is_signed(*each, made["secret"]) for made in (webhook, new)] for each in receiver.heard]
    assert signers == [[True, True], [False, True]]


@only("sqlite")
def test_nothing_is_sent_into_the_services_own_network(client, database, receiver):
    """Without the setting an address of this machine is refused at the connection, however it is written."""
    webhook = add(client, receiver)
    client.post(f"/webhooks/{webhook['id']}/test")
    assert send(database, networks=[]) == 1
    assert receiver.heard == []
    assert "private network" in log_of(client, webhook)[0]["told"]


@only("sqlite")
def test_a_sender_that_died_leaves_its_delivery_to_another(client, database, receiver):
    """A delivery that was taken is nobody else's for a minute, then due again; a late end counts not."""
    webhook = add(client, receiver)
    client.post(f"/webhooks/{webhook['id']}/test")
    with session_scope(database.engine) as session:
        first = webhooks.take(session, "local")
        assert first is not None
        assert webhooks.take(session, "local") is None
    due_now(database)
    assert send(database) == 1
    with session_scope(database.engine) as session:
        webhooks.made(session, first, "It failed.")
    assert log_of(client, webhook)[0]["state"] == "succeeded"


@only("sqlite")
def test_slow_receivers_of_one_owner_leave_places_for_others(team, database, receiver, monkeypatch):
    """One owner's slow receiver takes half of the places: another owner's delivery arrives meanwhile."""
    monkeypatch.setattr(webhook_sending, "PLACES", 2)
    monkeypatch.setattr(webhook_sending, "OF_OWNER", 1)
    with receiving() as slow:
        slow.seconds = 0.5
        for name, to, times in (("ann", slow, 3), ("bob", receiver, 1)):
            key = bearer(make_key(database, name))
            webhook = team.post("/webhooks", json={"url": to.url}, headers=key).json()
            for _ in range(times):
                team.post(f"/webhooks/{webhook['id']}/test", headers=key)
        assert send(database) == 4
        at = [int(headers["webhook-timestamp"]) for headers, _ in [*receiver.heard, *slow.heard]]
        assert at[0] <= min(at[1:]) + 1


@only("sqlite")
def test_a_webhook_is_of_its_owner_alone(team, database, receiver):
    """Other owners neither see a webhook nor change it, and their events don't reach it."""
    ann, bob = (bearer(make_key(database, name)) for name in ("ann", "bob"))
    webhook = team.post("/webhooks", json={"url": receiver.url}, headers=ann).json()
    address = f"/webhooks/{webhook['id']}"
    delivery = team.post(f"{address}/test", headers=ann).json()
    calls = [("GET", ""), ("DELETE", ""), ("POST", "/rotate"), ("POST", "/test"), ("GET", "/deliveries")]
    for method, end in [*calls, ("POST", f"/deliveries/{delivery['id']}/retry")]:
        problem(team.request(method, address + end, headers=bob), 404)
    dataset = team.post(
        "/datasets", content=table().encode(), headers=bob | {"Content-Type": "text/csv"}
    ).json()
    model = team.post("/models", json={"dataset_id": dataset["id"], "target": "y"}, headers=bob).json()
    team.post(f"/models/{model['id']}/cancel", headers=bob)
    assert len(team.get(f"{address}/deliveries", headers=ann).json()["items"]) == 1
    assert team.delete(address, headers=ann).status_code == 204
    assert send(database) == 0


@only("sqlite")
def test_bounds_and_refusals(client, receiver, database):
    """URLs with users or other schemes, unknown events and a 21st webhook are refused in words."""
    for url in ("ftp://x.example", "https://", "https://a:b@x.example", "https://x.example/#a", "x", ""):
        body = problem(client.post("/webhooks", json={"url": url}), 422)
        assert body["errors"][0]["column"] == "url"
    wrong = {"url": receiver.url, "events": ["fit.started"]}
    assert "fit.ended" in problem(client.post("/webhooks", json=wrong), 422)["detail"]
    problem(client.post("/webhooks", json={"url": receiver.url, "events": []}), 422)
    made = [add(client, receiver) for _ in range(20)]
    assert made[0]["events"] == USUAL
    problem(client.post("/webhooks", json={"url": receiver.url}), 409)
    assert len(client.get("/webhooks", params={"limit": 5}).json()["items"]) == 5
    with session_scope(database.engine) as session:
        webhook = session.get(Webhook, made[0]["id"])
        for _ in range(webhooks.MOST_WAITING):
            session.add(WebhookDelivery(id=f"msg_{_}", webhook_id=webhook.id, kind="test", body="{}"))
        session.flush()
        assert webhooks.add(session, webhook, "test", {}).state == "failed"


@only("sqlite")
def test_the_page_shows_each_webhook_with_its_log(browser, client, database, receiver):
    """The form creates a webhook and shows its secret once; buttons test, rotate, send again and delete."""
    empty = page_of(browser.get("/ui/webhooks"))
    form = empty.hidden | {"url": receiver.url, "events": ["fit.ended", "outcomes.alarm"]}
    made = page_of(browser.post("/ui/webhooks", data=form))
    assert "whsec_" in made.words
    (webhook,) = client.get("/webhooks").json()["items"]
    assert webhook["events"] == ["fit.ended", "outcomes.alarm"]
    at = f"/ui/webhooks/{webhook['id']}"
    browser.post(f"{at}/test", data=made.hidden)
    receiver.status = 410
    send(database)
    shown = page_of(browser.get("/ui/webhooks"))
    assert "whsec_" not in shown.words
    assert all(words in shown.words for words in (receiver.url, "dead letter", "It answered 410."))
    (delivery,) = log_of(client, webhook)
    assert (
        "waiting" in page_of(browser.post(f"{at}/deliveries/{delivery['id']}/retry", data=made.hidden)).words
    )
    assert "whsec_" in page_of(browser.post(f"{at}/rotate", data=made.hidden)).words
    assert "There are no webhooks" in page_of(browser.post(f"{at}/delete", data=made.hidden)).words
    problem_page = browser.post("/ui/webhooks", data=form | {"url": "ftp://x"})
    assert "https://host/path" in page_of(problem_page, 422).words
