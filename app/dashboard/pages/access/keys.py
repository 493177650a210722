"""API keys: the list, with owners and scopes, and the creation of keys, shown once."""

from collections.abc import Collection
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from app.dashboard import formatting, render
from app.dashboard.forms.fields import SentForm, text
from app.services.access import keys
from app.services.access.keys import ADMIN, LOCAL, OPERATOR, Key, NewKey
from app.services.errors import Fault, ForbiddenError, InvalidRequestError, NotFoundError
from app.web.dependencies import Reading, Writing
from app.web.scopes import KEY, GuardedRoute, needs

router = APIRouter(prefix="/ui/keys", include_in_schema=False, route_class=GuardedRoute)
OVERLAP = timedelta(days=1)  # during which a rotated key stays valid
MAX_DAYS = 3650


async def _who(request: Request) -> Key:
    who: Key = request.scope[KEY]
    return who


Who = Annotated[Key, Depends(_who)]


@router.get("")
@needs(ADMIN)
def list_keys(request: Request, session: Reading, who: Who) -> Response:
    """Show your owner's keys; on loopback, all keys."""
    return _page(request, session, who)


@router.post("")
@needs(ADMIN)
def create(request: Request, form: SentForm, session: Writing, who: Who) -> Response:
    """Create a key and show it once."""
    days = text(form, "days")
    if days is not None and not (days.isascii() and days.isdigit() and 1 <= int(days[:9]) <= MAX_DAYS):
        message = f"a whole number of days, up to {MAX_DAYS}"
        raise InvalidRequestError(errors=[Fault("days", None, message)])
    scopes = [scope for scope in form.getlist("scopes") if isinstance(scope, str)]
    _check_scopes(scopes)
    new = keys.create(
        session,
        name=text(form, "name") or "",
        owner=text(form, "owner") if who.id == LOCAL else who.owner,
        scopes=scopes,
        lasts=None if days is None else timedelta(days=int(days)),
    )
    return _page(request, session, who, new)


@router.post("/{key_id}/rotate")
@needs(ADMIN)
def rotate(request: Request, _form: SentForm, session: Writing, who: Who, key_id: str) -> Response:
    """Create a replacement for a key, which stays valid for another day."""
    _check_scopes(_mine_of(session, who, key_id).scopes)
    return _page(request, session, who, keys.rotate(session, key_id, OVERLAP, by_id=True))


@router.post("/{key_id}/revoke")
@needs(ADMIN)
def revoke(_form: SentForm, session: Writing, who: Who, key_id: str) -> Response:
    """Revoke a key at once."""
    _mine_of(session, who, key_id)
    keys.revoke(session, key_id, by_id=True)
    return render.see_other("/ui/keys")


def _mine(session: Session, who: Key) -> list[Any]:
    return [key for key in keys.list_keys(session) if who.id == LOCAL or key.owner == who.owner]


def _mine_of(session: Session, who: Key, key_id: str) -> Any:
    mine = next((key for key in _mine(session, who) if key.id == key_id), None)
    if mine is None:
        raise NotFoundError("You have no key with this id.")
    return mine


def _check_scopes(scopes: Collection[str]) -> None:
    """Raise ForbiddenError for a request that would reveal the secret of an operator's key."""
    if OPERATOR in scopes:
        raise ForbiddenError(
            "Operator keys are created on the command line: bartserve keys create, or rotate."
        )


def _page(request: Request, session: Session, who: Key, new: NewKey | None = None) -> Response:
    rows = [
        {
            "id": key.id,
            "name": key.name,
            "owner": key.owner,
            "scopes": key.scopes,
            "state": keys.state_of(key),
            "expires": "never" if key.expires_at is None else formatting.moment(key.expires_at),
            "used": formatting.ago(key.last_used_at),
        }
        for key in _mine(session, who)
    ]
    offered = {scope: keys.SCOPES[scope] for scope in keys.ON_PAGES}
    return render.render(
        request.scope, "keys.html", keys=rows, made=new, scopes=offered, usual=keys.USUAL, who_id=who.id
    )
