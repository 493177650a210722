"""Content negotiation: the response format (Accept header) and the content type of the body."""

from typing import Literal

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import Scope

from app.services.errors import ServiceError
from app.services.predictions.options import FormName

MediaType = Literal[
    "application/json",
    "text/csv",
    "application/vnd.apache.arrow.stream",
    "application/vnd.apache.parquet",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
]
JSON: MediaType = "application/json"
CSV: MediaType = "text/csv"
ARROW: MediaType = "application/vnd.apache.arrow.stream"
PARQUET: MediaType = "application/vnd.apache.parquet"
XLSX: MediaType = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
# By their names in requests; the first is the default.
FORMS: dict[FormName, MediaType] = {
    "json": JSON,
    "csv": CSV,
    "arrow": ARROW,
    "parquet": PARQUET,
    "xlsx": XLSX,
}
MAX_RANGES = 50


class NotAcceptableError(ServiceError):
    """The client accepts none of the available formats."""

    status, slug, title = 406, "not-acceptable", "Not acceptable"


async def chosen_form(request: Request) -> MediaType:
    """Return the preferred response format; JSON by default.

    Raises
    ------
    NotAcceptableError
        None of the formats is accepted.
    """
    ranges = _ranges(",".join(request.headers.getlist("accept")) or "*/*")
    qualities = {form: _quality(form, ranges) for form in FORMS.values()}
    best = max(qualities, key=lambda form: qualities[form])  # the first of equals
    if qualities[best] <= 0:
        raise NotAcceptableError(f"Accept one of {', '.join(qualities)}.")
    return best


def content_type(scope: Scope) -> str:
    """Return the body's media type without parameters; empty when not given."""
    return Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()


def _ranges(accept: str) -> dict[str, float]:
    ranges = {}
    for entry in accept.split(",")[:MAX_RANGES]:
        kind, *parameters = (part.strip().lower() for part in entry.split(";"))
        quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        try:
            ranges[kind] = min(max(float(quality), 0.0), 1.0)
        except ValueError:
            ranges[kind] = 0.0
    return ranges


def _quality(form: MediaType, ranges: dict[str, float]) -> float:
    """Return the quality of the most specific range that matches the format (RFC 9110, 12.5.1)."""
    for kind in (form, f"{form.partition('/')[0]}/*", "*/*"):
        if kind in ranges:
            return ranges[kind]
    return 0.0
