"""Which form of answer a request wants (its Accept header), and which form of body it has."""

from typing import Literal

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import Scope

from app.services.errors import ServiceError

Form = Literal["application/json", "text/csv", "application/vnd.apache.arrow.stream"]
JSON: Form = "application/json"
CSV: Form = "text/csv"
ARROW: Form = "application/vnd.apache.arrow.stream"
FORMS: tuple[Form, ...] = (JSON, CSV, ARROW)  # the first is given where all are welcome
MAX_RANGES = 50


class NotAcceptableError(ServiceError):
    """None of the forms this service writes is wanted."""

    status, slug, title = 406, "not-acceptable", "No form of answer that is wanted can be given"


async def chosen_form(request: Request) -> Form:
    """The most wanted of the forms an answer can have; JSON where nothing is said.

    Raises
    ------
    NotAcceptableError
        None of them is wanted.
    """
    ranges = _ranges(",".join(request.headers.getlist("accept")) or "*/*")
    wanted = {form: _quality(form, ranges) for form in FORMS}
    best = max(FORMS, key=lambda form: wanted[form])  # of equals the first
    if wanted[best] <= 0:
        raise NotAcceptableError(f"Accept one of {', '.join(FORMS)}.")
    return best


def content_type(scope: Scope) -> str:
    """The body's media type, without parameters; empty when it isn't said."""
    return Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()


def _ranges(accept: str) -> dict[str, float]:
    found = {}
    for entry in accept.split(",")[:MAX_RANGES]:
        kind, *parameters = (part.strip().lower() for part in entry.split(";"))
        quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        try:
            found[kind] = min(max(float(quality), 0.0), 1.0)
        except ValueError:
            found[kind] = 0.0
    return found


def _quality(form: Form, ranges: dict[str, float]) -> float:
    """Of the most specific range that meets the form (RFC 9110, 12.5.1)."""
    for kind in (form, f"{form.partition('/')[0]}/*", "*/*"):
        if kind in ranges:
            return ranges[kind]
    return 0.0
