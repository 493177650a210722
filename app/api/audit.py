"""GET /audit: the audit log, per owner or, for operators, of all owners."""

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
    who: str = Field(description="The actor: a key's id, `local` on loopback, or `command line`.")
    owner: str = Field(description="The owner of the object.")
    action: str = Field(description="The change, such as `model.created`.")
    subject: str = Field(description="The id of the object.")
    request_id: str | None = Field(description="The id of the request, as in the logs.")


class AuditPage(BaseModel):
    """A page of changes, newest first."""

    items: list[AuditView]
    next_cursor: str | None = Field(description="The cursor of the next page; null on the last page.")


@router.get("/audit", responses=responses())
@needs(ADMIN, OPERATOR)
def list_audit(request: Request, session: Reading, limit: Limit = 50, cursor: Cursor = None) -> AuditPage:
    """List the changes of your objects, newest first; kept for 400 days.

    With a key of scope `operator`, and on loopback, the changes of all owners are listed.
    """
    key: Key = request.scope[KEY]
    page = audit.list_page(session, None if key.may({OPERATOR}) else key.owner, limit, cursor)
    return AuditPage.model_validate(page, from_attributes=True)
