"""Webhooks: the list with what each was told, and a form for a new one, whose secret is shown once."""

from fastapi import APIRouter, Request
from pydantic import ValidationError
from sqlalchemy.orm import Session
from starlette.responses import Response

from app.dashboard import render
from app.dashboard.forms.fields import SentForm, text
from app.services import webhooks
from app.services.access.keys import READ, TRAIN
from app.services.errors import InvalidRequestError
from app.services.webhooks import NewSecretView, WebhookBody
from app.web.dependencies import Deleting, Owner, Reading, TheSettings, Writing
from app.web.errors import faults_of
from app.web.scopes import GuardedRoute, needs

router = APIRouter(prefix="/ui/webhooks", include_in_schema=False, route_class=GuardedRoute)
SHOWN = 20  # deliveries of each


@router.get("")
@needs(READ)
def list_webhooks(request: Request, session: Reading, owner: Owner) -> Response:
    """Show the webhooks."""
    return _page(request, session, owner)


@router.post("")
@needs(TRAIN)
def create(
    request: Request, form: SentForm, session: Writing, owner: Owner, settings: TheSettings
) -> Response:
    """Create a webhook and show its secret once."""
    given = {"url": text(form, "url") or "", "model": text(form, "model")}
    try:
        asked = WebhookBody.model_validate(given | {"events": form.getlist("events")})
    except ValidationError as error:
        raise InvalidRequestError(errors=faults_of(error.errors())) from None
    return _page(request, session, owner, webhooks.create(session, owner, asked, settings))


@router.post("/{webhook_id}/rotate")
@needs(TRAIN)
def rotate(request: Request, _form: SentForm, session: Writing, owner: Owner, webhook_id: str) -> Response:
    """Give a webhook a new secret and show it once."""
    return _page(request, session, owner, webhooks.rotate(session, owner, webhook_id))


@router.post("/{webhook_id}/test")
@needs(TRAIN)
def send_test(_form: SentForm, session: Writing, owner: Owner, webhook_id: str) -> Response:
    """Send a test."""
    webhooks.test(session, owner, webhook_id)
    return render.see_other("/ui/webhooks")


@router.post("/{webhook_id}/delete")
@needs(TRAIN)
def delete(_form: SentForm, session: Deleting, owner: Owner, webhook_id: str) -> Response:
    """Delete a webhook."""
    webhooks.delete(session, owner, webhook_id)
    return render.see_other("/ui/webhooks")


@router.post("/{webhook_id}/deliveries/{delivery_id}/retry")
@needs(TRAIN)
def retry(_form: SentForm, session: Writing, owner: Owner, webhook_id: str, delivery_id: str) -> Response:
    """Send a dead letter again."""
    webhooks.retry(session, owner, webhook_id, delivery_id)
    return render.see_other("/ui/webhooks")


def _page(request: Request, session: Session, owner: str, new: NewSecretView | None = None) -> Response:
    page = webhooks.list_page(session, owner, webhooks.MOST, None)
    rows = [
        {"webhook": each, "deliveries": webhooks.deliveries(session, owner, each.id, SHOWN, None).items}
        for each in page.items
    ]
    return render.render(request.scope, "webhooks.html", rows=rows, made=new, events=webhooks.described())
