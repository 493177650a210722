"""Webhooks: which events they are told of, and the deliveries, stored in the transactions of the events.

A webhook is locked before a delivery refers to it, and a fault in the telling undoes that alone, never the
event. A delivery is taken for a time, as work of workers is: one whose sender died is due again.
"""

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import delete as sql_delete
from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.errors import AWAY
from app.store.statements import After, page, rows_changed
from app.store.tables import (
    CANCELLED,
    FAILED,
    PROMOTED,
    QUEUED,
    REFUSED,
    SUCCEEDED,
    Json,
    Model,
    Webhook,
    WebhookDelivery,
    new_id,
)

log = logging.getLogger(__name__)
LEASE = timedelta(seconds=60)
KEPT = timedelta(days=30)  # of deliveries that have ended
MOST_WAITING = 1000  # deliveries of a webhook; beyond these, new ones are dead letters at once
# Pauses after failed attempts: over a day together, then a delivery is a dead letter.
PAUSES = tuple(timedelta(seconds=s) for s in (5, 30, 120, 600, 3600, 4 * 3600, 8 * 3600, 12 * 3600))


@dataclass(frozen=True)
class EventKind:
    """A kind of event: its meaning, and the entries of a model's log that are one."""

    meaning: str
    logged: Collection[str] = ()


EVENTS = {
    "fit.ended": EventKind("a fit has ended, with its state and verdict", (SUCCEEDED, FAILED, CANCELLED)),
    "prediction.ended": EventKind("a background prediction has ended"),
    "study.ended": EventKind("a study (selection, tuning, calibration) has ended"),
    "outcomes.alarm": EventKind(
        "reported outcomes say that intervals no longer hold", ("intervals_no_longer_hold",)
    ),
    "drift.alarm": EventKind(
        "rows that a model predicts for no longer resemble its training rows", ("rows_drifted",)
    ),
    "refit.promoted": EventKind("a name has moved to a refit", (PROMOTED,)),
    "refit.refused": EventKind("a name stays with the model before a refit", (REFUSED,)),
    "test": EventKind("you have asked for a test; sent whatever the webhook listens to"),
}
LOGGED = {logged: kind for kind, event in EVENTS.items() for logged in event.logged}


def note_logged(session: Session, model_id: str, entry: str, detail: Json) -> None:
    """Store deliveries for an entry of a model's log, if it is an event that webhooks are told of."""
    if (kind := LOGGED.get(entry)) is None:
        return
    row = session.execute(select(Model.owner, Model.name, Model.dataset_id).where(Model.id == model_id)).one()
    if kind == "fit.ended":
        if row.dataset_id is None:
            return  # an imported model, which wasn't fitted here
        detail = {
            "state": entry,
            "verdict": detail.get("verdict"),
            "error": detail if entry == FAILED else None,
        }
    note(session, row.owner, kind, model_id, row.name, detail)


def note_job(session: Session, kind: str, job: Any) -> None:
    """Store deliveries for a background prediction or a study that has ended."""
    name = session.scalar(select(Model.name).where(Model.id == job.model_id))
    told = {f"{kind.partition('.')[0]}_id": job.id, "state": job.state, "error": job.error}
    told |= {"kind": job.kind} if kind == "study.ended" else {}
    note(session, job.owner, kind, job.model_id, name, told)


def note(session: Session, owner: str, kind: str, model_id: str, name: str | None, detail: Json) -> None:
    """Store a delivery for each webhook of an owner that is told of such events of this model.

    If that fails the event stands even so, without deliveries; only a lost database ends its transaction.
    """
    if not count(session, owner):
        return
    of_model = [Webhook.model.is_(None), Webhook.model == model_id]
    of_model += [] if name is None else [Webhook.model == name]
    told = select(Webhook).where(Webhook.owner == owner, or_(*of_model)).order_by(Webhook.id)
    try:
        with session.begin_nested():
            for webhook in session.scalars(told.with_for_update(read=True, key_share=True)):
                if kind in webhook.events:
                    add(session, webhook, kind, {"model_id": model_id, "model_name": name, **detail})
    except AWAY:
        raise
    except Exception:
        log.exception("%s of model %s: its webhooks could not be told", kind, model_id)


def add(session: Session, webhook: Webhook, kind: str, told: Json) -> WebhookDelivery:
    """Store a delivery; the caller has locked the webhook."""
    now = utc_now()
    body = json.dumps({"type": kind, "timestamp": now.isoformat().replace("+00:00", "Z"), "data": told})
    delivery = WebhookDelivery(id=new_id("msg"), webhook_id=webhook.id, kind=kind, body=body, created_at=now)
    delivery.state, delivery.attempts, delivery.due_at = QUEUED, 0, now
    waiting = select(func.count()).where(
        WebhookDelivery.webhook_id == webhook.id, WebhookDelivery.state == QUEUED
    )
    if (session.scalar(waiting) or 0) >= MOST_WAITING:
        delivery.state, delivery.due_at = FAILED, None
        delivery.told = f"It was not sent: {MOST_WAITING} deliveries wait already."
    session.add(delivery)
    session.flush()
    return delivery


def get(session: Session, owner: str, webhook_id: str, *, hold: bool = False) -> Webhook | None:
    """Return an owner's webhook, or None; `hold` locks it until the transaction ends."""
    mine = select(Webhook).where(Webhook.id == webhook_id, Webhook.owner == owner)
    return session.scalar(mine.with_for_update(key_share=True) if hold else mine)


def list_page(session: Session, owner: str, limit: int, after: After | None = None) -> list[Webhook]:
    """Return a page of an owner's webhooks, newest first."""
    return list(session.scalars(page(select(Webhook).where(Webhook.owner == owner), Webhook, limit, after)))


def delete(session: Session, owner: str, webhook_id: str) -> None:
    """Delete an owner's webhook with its deliveries."""
    mine = sql_delete(Webhook).where(Webhook.id == webhook_id, Webhook.owner == owner)
    rows_changed(session, sql_delete(WebhookDelivery).where(WebhookDelivery.webhook_id == webhook_id))
    rows_changed(session, mine)


def count(session: Session, owner: str) -> int:
    """Return the number of an owner's webhooks."""
    return session.scalar(select(func.count()).where(Webhook.owner == owner)) or 0


def deliveries(
    session: Session, webhook_id: str, limit: int, after: After | None = None
) -> list[WebhookDelivery]:
    """Return a page of a webhook's deliveries, newest first."""
    mine = select(WebhookDelivery).where(WebhookDelivery.webhook_id == webhook_id)
    return list(session.scalars(page(mine, WebhookDelivery, limit, after)))


def again(session: Session, webhook_id: str, delivery_id: str) -> WebhookDelivery | None:
    """Let a dead letter be sent again, with all its attempts; None where there is no such one."""
    mine = (WebhookDelivery.id == delivery_id, WebhookDelivery.webhook_id == webhook_id)
    dead = update(WebhookDelivery).where(*mine, WebhookDelivery.state == FAILED)
    if not rows_changed(session, dead.values(state=QUEUED, attempts=0, due_at=utc_now())):
        return None
    return session.get_one(WebhookDelivery, delivery_id, populate_existing=True)


def any_due(session: Session) -> bool:
    """Tell whether a delivery is due."""
    due = select(WebhookDelivery.id).where(*_due())
    return session.scalar(due.limit(1)) is not None


@dataclass(frozen=True)
class Taken:
    """A delivery to be made, the number of this attempt, and the secrets that sign it."""

    id: str
    webhook_id: str
    owner: str
    url: str
    body: str
    attempt: int
    secrets: Sequence[str]


def owners_due(session: Session) -> list[str]:
    """Return the owners of deliveries that are due, the one that waits longest first."""
    waiting = select(Webhook.owner).join(WebhookDelivery).where(*_due()).group_by(Webhook.owner)
    return list(session.scalars(waiting.order_by(func.min(WebhookDelivery.due_at))))


def take(session: Session, owner: str) -> Taken | None:
    """Return a due delivery of an owner, then nobody else's for the time of a lease; None without one."""
    first = select(WebhookDelivery, Webhook).join(Webhook).where(*_due(), Webhook.owner == owner)
    first = first.order_by(WebhookDelivery.due_at).limit(1)
    while (row := session.execute(first, execution_options={"populate_existing": True}).first()) is not None:
        delivery, webhook = row
        still = (WebhookDelivery.id == delivery.id, WebhookDelivery.due_at == delivery.due_at)
        values = {"due_at": utc_now() + LEASE, "attempts": WebhookDelivery.attempts + 1}
        if rows_changed(session, update(WebhookDelivery).where(*still, *_due()).values(values)):
            secrets = [webhook.secret]
            old, until = webhook.old_secret, webhook.old_until
            if old is not None and until is not None and until > utc_now():
                secrets.append(old)
            return Taken(
                delivery.id,
                webhook.id,
                webhook.owner,
                webhook.url,
                delivery.body,
                delivery.attempts + 1,
                secrets,
            )
    return None


def made(session: Session, taken: Taken, fault: str | None, *, for_good: bool = False) -> None:
    """Store what came of an attempt: None or a fault, after which it is due again unless `for_good`."""
    now = utc_now()
    values: dict[str, Any] = {"last_at": now, "told": fault, "state": SUCCEEDED, "due_at": None}
    if fault is not None:
        dead = for_good or taken.attempt > len(PAUSES)
        pause = None if dead else PAUSES[taken.attempt - 1]
        values |= {"state": FAILED} if pause is None else {"state": QUEUED, "due_at": now + pause}
    mine = (WebhookDelivery.id == taken.id, WebhookDelivery.attempts == taken.attempt)
    rows_changed(
        session, update(WebhookDelivery).where(*mine, WebhookDelivery.state == QUEUED).values(**values)
    )


def forget_old(session: Session) -> None:
    """Delete deliveries that ended long ago."""
    old = WebhookDelivery.state != QUEUED, WebhookDelivery.created_at < utc_now() - KEPT
    rows_changed(session, sql_delete(WebhookDelivery).where(*old))


def _due() -> tuple[Any, Any]:
    return WebhookDelivery.state == QUEUED, WebhookDelivery.due_at <= utc_now()
