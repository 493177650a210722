"""Webhooks of an owner: creation, secrets, deliveries. `app.services.webhook_sending` sends them."""

import base64
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from app.services import cursors
from app.services.access import audit, quotas
from app.services.cursors import Page
from app.services.errors import ConflictError, Fault, InvalidRequestError, NotFoundError
from app.services.resources import Resource
from app.services.views import filled
from app.settings import Settings
from app.store.clock import utc_now
from app.store.errors import is_id
from app.store.tables import Webhook, WebhookDelivery, new_id
from app.store.webhooks import outbox as store

MOST = 20  # webhooks of an owner
OVERLAP = timedelta(days=1)  # during which a former secret signs too
SECRET_BYTES = 32
MAX_URL = 2000
USUAL = [kind for kind in store.EVENTS if kind != "test"]
KINDS = "; ".join(f"`{kind}`: {event.meaning}" for kind, event in store.EVENTS.items() if kind != "test")


class WebhookBody(BaseModel):
    """A new webhook."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(
        max_length=MAX_URL,
        description="Where events are posted: https://, at an address outside the service's own network.",
    )
    events: list[str] = Field(
        default_factory=lambda: [*USUAL],
        min_length=1,
        max_length=len(store.EVENTS),
        description=f"The kinds of events; default: all. {KINDS}.",
    )
    model: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Only events of this model, by its id, or of all models of a name.",
    )


@dataclass(frozen=True, kw_only=True)
class WebhookView:
    """A webhook."""

    id: str
    url: str
    events: list[str]
    model: str | None
    created_at: datetime
    old_until: Annotated[
        datetime | None, Field(description="Until when the former secret signs too, after a rotation.")
    ]


@dataclass(frozen=True, kw_only=True)
class NewSecretView(WebhookView):
    """A webhook with its new secret, which is shown once."""

    secret: Annotated[str, Field(description="The secret that signs deliveries, `whsec_` and base64.")]


@dataclass(frozen=True)
class WebhookPage(Page[WebhookView]):
    """A page of webhooks, newest first."""

    items: list[WebhookView]


@dataclass(frozen=True, kw_only=True)
class DeliveryView:
    """A delivery: what a webhook is told, and what came of it."""

    id: Annotated[str, Field(description="The header `webhook-id`; the same at each attempt.")]
    kind: Annotated[str, Field(description="The kind of the event.")]
    state: Annotated[
        Literal["queued", "succeeded", "failed"], Field(description="failed: a dead letter, sent no more.")
    ]
    attempts: int
    told: Annotated[str | None, Field(description="Why the last attempt failed.")]
    created_at: datetime
    last_at: Annotated[datetime | None, Field(description="When the last attempt ended.")]
    due_at: Annotated[datetime | None, Field(description="When the next attempt is due.")]
    body: Annotated[str, Field(description="The body as it is sent.")]


@dataclass(frozen=True)
class DeliveryPage(Page[DeliveryView]):
    """A page of deliveries, newest first; kept for 30 days."""

    items: list[DeliveryView]


def create(session: Session, owner: str, asked: WebhookBody, settings: Settings) -> NewSecretView:
    """Store a webhook and return it with its secret.

    Raises
    ------
    InvalidRequestError
        The URL can't be told, or there is no such kind of event.
    ConflictError
        The owner has the most webhooks allowed.
    """
    _check_url(asked.url, plain=bool(settings.webhook_networks))
    if unknown := [kind for kind in asked.events if kind not in USUAL]:
        message = f"there is no event {unknown[0][:50]!r}: choose from {', '.join(USUAL)}"
        raise InvalidRequestError(errors=[Fault("events", None, message)])
    if store.count(session, owner) >= MOST:
        raise ConflictError(f"You have {MOST} webhooks, the most there may be: delete one first.")
    row = Webhook(id=new_id("wh"), owner=owner, url=asked.url, model=asked.model, secret=_new_secret())
    row.events, row.created_at = [kind for kind in USUAL if kind in asked.events], utc_now()
    session.add(row)
    session.flush()
    audit.record(session, owner, "webhook.created", row.id)
    return filled(NewSecretView, row)


def rotate(session: Session, owner: str, webhook_id: str) -> NewSecretView:
    """Give a webhook a new secret; the former one signs too for another day. Raises NotFoundError."""
    row = get(session, owner, webhook_id, hold=True)
    row.old_secret, row.old_until, row.secret = row.secret, utc_now() + OVERLAP, _new_secret()
    session.flush()
    audit.record(session, owner, "webhook.rotated", row.id)
    return filled(NewSecretView, row)


def test(session: Session, owner: str, webhook_id: str) -> DeliveryView:
    """Send a test; raises NotFoundError, and QuotaError where the owner has stored too much."""
    quotas.check_stored(session, owner, quotas.WEBHOOK_BYTES)
    row = get(session, owner, webhook_id, hold=True)
    return filled(DeliveryView, store.add(session, row, "test", {"webhook_id": row.id}))


def deliveries(session: Session, owner: str, webhook_id: str, limit: int, cursor: str | None) -> DeliveryPage:
    """Return a page of a webhook's deliveries, newest first; raises NotFoundError and InvalidRequestError."""
    row = get(session, owner, webhook_id)
    page: Page[WebhookDelivery]
    page = cursors.cut(store.deliveries(session, row.id, limit + 1, cursors.after(cursor)), limit)
    return DeliveryPage([filled(DeliveryView, each) for each in page.items], page.next_cursor)


def retry(session: Session, owner: str, webhook_id: str, delivery_id: str) -> DeliveryView:
    """Send a dead letter again; raises NotFoundError where the webhook has no such dead letter."""
    row = get(session, owner, webhook_id, hold=True)
    again = store.again(session, row.id, delivery_id) if is_id(delivery_id) else None
    if again is None:
        raise NotFoundError("The webhook has no dead letter with this id.")
    return filled(DeliveryView, again)


def _view(_: Session, row: Webhook) -> WebhookView:
    return filled(WebhookView, row)


WEBHOOKS = Resource("webhook", "/webhooks", store, _view, WebhookPage)
get, view, list_page, delete = WEBHOOKS.get, WEBHOOKS.view, WEBHOOKS.list_page, WEBHOOKS.delete


def _check_url(url: str, *, plain: bool) -> None:
    """Raise InvalidRequestError for a URL to which nothing can be sent."""
    try:
        parts = urlsplit(url)
        schemes = {"https", "http"} if plain else {"https"}
        fits = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fits = False
    is_plain = fits and url.isascii() and url.isprintable() and " " not in url
    if not is_plain or parts.username is not None or parts.fragment:
        detail = "write it as https://host/path, in ASCII, without a user and without a fragment"
        raise InvalidRequestError(errors=[Fault("url", None, detail)])


def _new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def described() -> list[tuple[str, str]]:
    """Return the kinds of events that can be chosen, with their meanings."""
    return [(kind, store.EVENTS[kind].meaning) for kind in USUAL]
