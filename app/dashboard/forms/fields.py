"""Submitted forms, verified to come from one of our own pages."""

import hmac
from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import ValidationError
from starlette.datastructures import FormData

from app.services.errors import ForbiddenError, InvalidRequestError
from app.services.readers.options import Options
from app.web.errors import check_storable, faults_of
from app.web.read_options import ReadingQuery, UploadQuery

MAX_FIELDS = 20_000  # a checkbox for each column of a wide table
OURS = {"same-origin", "none"}  # Sec-Fetch-Site of requests that no other site initiated


async def _checked(request: Request) -> FormData:
    """Return the form's fields.

    Raises
    ------
    ForbiddenError
        The form comes from another site's page, or lacks this session's token.
    InvalidRequestError
        A field has a character that can't be stored.
    """
    if request.headers.get("sec-fetch-site", "none") not in OURS:
        raise ForbiddenError("This form comes from a page of another site.")
    form = await request.form(max_files=1, max_fields=MAX_FIELDS)
    expected = request.scope.get("bartserve.csrf", "")
    token = form.get("csrf")
    if not hmac.compare_digest(expected.encode(), token.encode() if isinstance(token, str) else b""):
        raise ForbiddenError("This form belongs to another session: reload its page, then send it.")
    check_storable((name, value) for name, value in form.multi_items() if isinstance(value, str))
    return form


# A dependency of every route that accepts a form.
SentForm = Annotated[FormData, Depends(_checked)]


def text(form: FormData, name: str) -> str | None:
    """Return a field without surrounding white space; None when it is absent or empty."""
    value = form.get(name)
    return (value.strip() or None) if isinstance(value, str) else None


def reading_options(form: FormData) -> Options:
    """Return the reading options of a form with a file; raises InvalidRequestError."""
    texts: dict[str, Any] = {name: text(form, name) for name in ReadingQuery.model_fields}
    # Repeatable parameters of the API are one form field each.
    texts["wide"] = text(form, "wide")
    texts |= {"missing": parts(texts["missing"], ","), "kind": parts(text(form, "kind"), "\n") or []}
    try:
        return UploadQuery.model_validate(texts).options(None)
    except ValidationError as error:
        raise InvalidRequestError(errors=faults_of(error.errors())) from None


def parts(text: str | None, between: str) -> list[str] | None:
    """Split the text of a field at a character; None where it is empty."""
    return [part.strip() for part in text.split(between) if part.strip()] if text else None
