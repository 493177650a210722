"""Webhooks over HTTP."""

from fastapi import APIRouter

from app.services import webhooks
from app.services.access.keys import READ, TRAIN
from app.services.webhooks import (
    DeliveryPage,
    DeliveryView,
    NewSecretView,
    WebhookBody,
    WebhookPage,
    WebhookView,
)
from app.web.dependencies import Deleting, Owner, Reading, TheSettings, Writing
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.paging import Cursor, Limit
from app.web.scopes import needs

router = APIRouter(prefix="/webhooks", tags=["webhooks"], route_class=StrictRoute)


@router.post("", status_code=201, responses=responses(409, 415))
@needs(TRAIN)
def create_webhook(body: WebhookBody, session: Writing, owner: Owner, settings: TheSettings) -> NewSecretView:
    """Let a URL be told of events of your models, signed by the secret in this response, which is shown once.

    Deliveries follow Standard Webhooks: `webhook-id`, `webhook-timestamp`, `webhook-signature`. An answer 2xx
    ends one; after others it is repeated for over a day, with the same id.
    """
    return webhooks.create(session, owner, body, settings)


@router.get("", responses=responses())
@needs(READ)
def list_webhooks(session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None) -> WebhookPage:
    """List your webhooks, newest first."""
    return webhooks.list_page(session, owner, limit, cursor)


@router.get("/{webhook_id}", responses=responses())
@needs(READ)
def get_webhook(webhook_id: str, session: Reading, owner: Owner) -> WebhookView:
    """Return a webhook, without its secret."""
    return webhooks.view(session, owner, webhook_id)


@router.delete("/{webhook_id}", status_code=204, responses=responses())
@needs(TRAIN)
def delete_webhook(webhook_id: str, session: Deleting, owner: Owner) -> None:
    """Delete a webhook with its deliveries; what is due isn't sent any more."""
    webhooks.delete(session, owner, webhook_id)


@router.post("/{webhook_id}/rotate", responses=responses())
@needs(TRAIN)
def rotate_webhook(webhook_id: str, session: Writing, owner: Owner) -> NewSecretView:
    """Give a webhook a new secret; for another day deliveries have a signature by the former one too."""
    return webhooks.rotate(session, owner, webhook_id)


@router.post("/{webhook_id}/test", status_code=202, responses=responses())
@needs(TRAIN)
def test_webhook(webhook_id: str, session: Writing, owner: Owner) -> DeliveryView:
    """Send the event `test`."""
    return webhooks.test(session, owner, webhook_id)


@router.get("/{webhook_id}/deliveries", responses=responses())
@needs(READ)
def list_deliveries(
    webhook_id: str, session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None
) -> DeliveryPage:
    """List what a webhook was told in the last 30 days, newest first; `failed` are dead letters."""
    return webhooks.deliveries(session, owner, webhook_id, limit, cursor)


@router.post("/{webhook_id}/deliveries/{delivery_id}/retry", status_code=202, responses=responses())
@needs(TRAIN)
def retry_delivery(webhook_id: str, delivery_id: str, session: Writing, owner: Owner) -> DeliveryView:
    """Send a dead letter again, with all its attempts."""
    return webhooks.retry(session, owner, webhook_id, delivery_id)
