"""What a form sent, once it is known that one of our own pages sent it."""

import hmac
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import FormData

from app.services.errors import ForbiddenError

MAX_FIELDS = 20_000  # a tick for each column of a wide table
OURS = {"same-origin", "none"}  # what a browser says of a request that no other site made


async def _checked(request: Request) -> FormData:
    """The form's fields.

    Raises
    ------
    ForbiddenError
        Another site's page sent it, or it lacks this session's token.
    """
    if request.headers.get("sec-fetch-site", "none") not in OURS:
        raise ForbiddenError("This form was sent by a page of another site.")
    form = await request.form(max_files=1, max_fields=MAX_FIELDS)
    wanted = request.scope.get("bartserve.csrf", "")
    given = form.get("csrf")
    if not hmac.compare_digest(wanted.encode(), given.encode() if isinstance(given, str) else b""):
        raise ForbiddenError("This form belongs to another session: load its page again, then send it.")
    return form


# Every form's route depends on it.
Form = Annotated[FormData, Depends(_checked)]


def text(form: FormData, name: str) -> str | None:
    """A field without blanks around it; None when it is absent or empty."""
    value = form.get(name)
    return (value.strip() or None) if isinstance(value, str) else None
