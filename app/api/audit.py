"""GET /audit: who changed what, for an owner, and for whoever runs the service."""

from datetime import datetime

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from app.services.access import audit
from app.services.access.keys import ADMIN, OPERATOR, Key
from app.web.dependencies import Reading
from app.web.errors import responses
from app.web.paging import Cursor, Limit
from app.web.scopes import KEY, GuardedRoute, needs

router = APIRouter(tags=["audit"], route_class=GuardedRoute)


class AuditView(BaseModel):
    """One change."""

    id: str
    at: datetime
    who: str = Field(description="The id of a key, `local` for this machine, or `command line`.")
    owner: str = Field(description="Whose thing it is.")
    action: str = Field(description="What was done, as `model.created`.")
    subject: str = Field(description="The id of what it was done to.")
    request_id: str | None = Field(description="Of the request that did it, as in the logs.")


class AuditPage(BaseModel):
    """Some changes, newest first."""

    items: list[AuditView]
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.")


@router.get("/audit", responses=responses())
@needs(ADMIN, OPERATOR)
def list_audit(request: Request, session: Reading, limit: Limit = 50, cursor: Cursor = None) -> AuditPage:
    """Every change of your owner's things, newest first; kept for 400 days.

    With a key of the scope `operator`, and on loopback, of every owner's.
    """
    key: Key = request.scope[KEY]
    page = audit.list_page(session, None if key.may({OPERATOR}) else key.owner, limit, cursor)
    items = [AuditView.model_validate(audit.shown(entry)) for entry in page.items]
    return AuditPage(items=items, next_cursor=page.next_cursor)
