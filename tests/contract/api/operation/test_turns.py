"""Turns by owner in every queue: a backlog delays another owner's first piece by what is at work, no more."""

from datetime import timedelta

import pytest
from sqlalchemy import select, update

from app import due
from app.services import webhook_sending
from app.services.model_sets import making
from app.store import predictions
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.tables import Dataset, Model, RefitSchedule, Webhook
from app.store.webhooks import outbox
from tests.support.api_calls import bearer, make_key
from tests.support.processes.receiver import receiving
from tests.support.store_factories import claim, create_model

ANN, BOB, EVE = "ann", "bob", "eve"  # two have a backlog, then one comes
LINES = "y,shop,x\n" + "".join(f"{row % 7},{row % 5},{row * 3 % 11}\n" for row in range(60))


def of_refits(database, settings, _team, _monkeypatch):
    """Schedules whose models have no new data."""
    for number, owner in enumerate([ANN] * 3 + [EVE] * 3 + [BOB]):
        create_model(database.engine, owner=owner, name=f"m{number}")
        at = utc_now() - timedelta(seconds=100 - number)
        schedule = RefitSchedule(owner=owner, name=f"m{number}", dataset_name="x", on_alarm=False, due_at=at)
        schedule.request = {"promote": "auto", "holdout": None}
        with session_scope(database.engine) as session:
            session.add(schedule)
            session.execute(update(Model).values(state="succeeded"))
    assert due.QUEUES["refits"](database.engine, settings, 60.0) == 7
    with session_scope(database.engine, read_only=True) as session:
        rows = session.scalars(select(RefitSchedule).order_by(RefitSchedule.last_at)).all()
    assert all("no new data" in row.told for row in rows)
    return [row.owner for row in rows], 1


def of_model_sets(database, settings, team, monkeypatch):
    """Sets of which few models are made in a turn."""
    monkeypatch.setattr(making, "MOST_MODELS", 2)
    for owner in (ANN, ANN, EVE, BOB):
        key = bearer(make_key(database, f"{owner} {utc_now()}", owner=owner, scopes=["read", "train"]))
        dataset = team.post("/datasets", content=LINES, headers=key | {"Content-Type": "text/csv"}).json()
        body = {"dataset_id": dataset["id"], "target": "y", "by": "shop", "num_trees": 5, "num_draws": 5}
        answer = team.post("/model-sets", json=body, headers=key)
        assert answer.status_code == 202, answer.text
    assert due.QUEUES["model_sets"](database.engine, settings, 60.0) == 20
    with session_scope(database.engine, read_only=True) as session:
        return session.scalars(select(Model.owner).order_by(Model.created_at)).all(), making.MOST_MODELS


def of_webhooks(database, settings, _team, monkeypatch):
    """Deliveries to receivers that take their time."""
    monkeypatch.setattr(webhook_sending, "LINGER", 0.0)
    hooks = {}
    with receiving() as receiver:
        receiver.seconds = 0.02
        for number, owner in enumerate([ANN] * 2 + [EVE] * 2 + [BOB]):
            hook = Webhook(id=f"wh_{number}", owner=owner, url=receiver.url, events=[*outbox.EVENTS])
            hook.secret = "whsec_AAAA"
            with session_scope(database.engine) as session:
                session.add(hook)
                session.flush()
                sent = [outbox.add(session, hook, "test", {}).id for _ in range(1 if owner == BOB else 8)]
            hooks |= dict.fromkeys(sent, owner)
        assert due.QUEUES["webhooks"](database.engine, settings, 60.0) == 33
    return [hooks[headers["webhook-id"]] for headers, _ in receiver.heard], webhook_sending.PLACES


def of_units(database, _settings, _team, _monkeypatch):
    """Totals, which don't yield."""
    for owner in [ANN] * 2 + [EVE] * 2 + [BOB]:
        model = create_model(database.engine, owner=owner)
        with session_scope(database.engine) as session:
            dataset = session.get_one(Dataset, model.dataset_id)
            asked = {"owner": owner, "model_id": model.id, "request": {predictions.AGGREGATE: {}}}
            predictions.create(session, dataset=dataset, **asked)
            session.execute(update(Model).values(state="succeeded"))
    with session_scope(database.engine, read_only=True) as session:
        owners = dict(session.execute(select(Model.id, Model.owner)).all())
    return [owners[claim(database.engine).model_id] for _ in range(5)], 2


CASES = {"refits": of_refits, "model_sets": of_model_sets, "webhooks": of_webhooks, "units": of_units}


@pytest.mark.both_databases
@pytest.mark.parametrize("queue", CASES)
@pytest.mark.sampled(quick=3)
def test_one_owners_backlog_delays_another_by_what_is_at_work(database, settings, team, queue, monkeypatch):
    """With two owners' backlogs before it, a third one's first piece comes once each of them had a turn."""
    settings = settings.model_copy(update={"webhook_networks": "127.0.0.0/8"})
    served, piece = CASES[queue](database, settings, team, monkeypatch)
    assert served.count(ANN) > 1
    assert served.index(BOB) <= 2 * piece, served


def test_every_queue_is_asked():
    """The dispatcher starts a process for each queue beside the units."""
    assert set(CASES) == {*due.QUEUES, "units"}
