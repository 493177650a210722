"""GET /audit: the audit log, per owner or, for operators, of all owners."""

from fastapi import APIRouter, Request

from app.services.access import audit
from app.services.access.audit import AuditPage
from app.services.access.keys import ADMIN, OPERATOR, Key
from app.web.dependencies import Reading
from app.web.errors import responses
from app.web.paging import Cursor, Limit
from app.web.scopes import KEY, GuardedRoute, needs

router = APIRouter(tags=["audit"], route_class=GuardedRoute)


@router.get("/audit", responses=responses())
@needs(ADMIN, OPERATOR)
def list_audit(request: Request, session: Reading, limit: Limit = 50, cursor: Cursor = None) -> AuditPage:
    """List the changes of your objects, newest first; kept for 400 days.

    With a key of scope `operator`, and on loopback, the changes of all owners are listed.
    """
    key: Key = request.scope[KEY]
    return audit.list_page(session, None if key.may({OPERATOR}) else key.owner, limit, cursor)
