"""Rendering of templates: one environment, values common to all pages, and the headers of a page."""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.dashboard import event_words, formatting
from app.dashboard.forms.fit_fields import in_words
from app.services.explanations.diagnostics import converged_rhat
from app.services.studies.tuning import in_words as tried_in_words
from app.web.errors import PLAIN
from sampler.host.settings import FIELD_LABELS

FOLDER = Path(__file__).parent
STATIC = "/ui/static"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'",
    # With no-referrer a browser hides the origin of our own forms, which we check.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@cache
def environment() -> Environment:
    """Return the template environment with autoescaping; an undefined name is an error."""
    templates = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= formatting.FILTERS | {
        "settings": tried_in_words,
        "setting": in_words,
        "label": lambda name: FIELD_LABELS.get(name, name),
        "happened": event_words.sentence,
    }
    templates.globals |= {
        "static": static,
        "version": version("bartserve"),
        "state_word": formatting.state,
        "verdict_words": formatting.verdict,
        "ways_of_reading": formatting.READING,
        "phase_words": formatting.phase,
        "noise_of": formatting.noise_of,
        "converged_rhat": converged_rhat,
    }
    return templates


@cache
def static(name: str) -> str:
    """Return the URL of a static file; it changes with the content, so browsers may cache it forever."""
    digest = hashlib.sha256((FOLDER / "static" / name).read_bytes()).hexdigest()
    return f"{STATIC}/{name}?v={digest[:12]}"


def render(scope: Mapping[str, Any], template: str, *, status: int = 200, **known: Any) -> Response:
    """Render a page."""
    csrf = scope.get("bartserve.csrf", "")
    every: dict[str, Any] = {
        "here": scope["path"],
        "who": scope.get("bartserve.key"),
        "signed_in": scope.get("bartserve.signed_in", False),  # by the team's own proxy, which signs out too
        "asks_keys": scope.get("bartserve.asks_keys", False),
        "csrf": csrf,
        "csrf_field": lambda: Markup('<input type="hidden" name="csrf" value="{}">').format(csrf),
    }
    text = environment().get_template(template).render(every | known)
    # A name may contain half a surrogate pair, which UTF-8 can't encode.
    return HTMLResponse(text.encode("utf-8", "replace"), status, HEADERS)


def see_other(path: str) -> Response:
    """Redirect to a page after a form."""
    return RedirectResponse(path, 303, {"Referrer-Policy": "same-origin"})


NEXT_STEPS: dict[int | str, str] = {
    "scope-missing": "Sign out, then sign in with a key that has the scope. The operator of the service "
    "creates one: bartserve keys create --name you --scope SCOPE",
    401: "Sign in with a valid key.",
    403: "Use the service directly, from its own pages.",
    404: "It may have been deleted, or it belongs to another key. The lists show what is there.",
    409: "Check its page: its state shows when this will work.",
    413: "Send less at once: split the file, or leave out columns.",
    415: "Send an Excel or OpenDocument workbook, CSV, JSON, Parquet or Arrow.",
    422: "Correct the faults above and send it again; nothing was changed.",
    429: "Wait a moment, then try again; or cancel queued work, or delete stored objects.",
    503: "Wait a moment, then reload this page.",
}


# What a person reads in place of errors of HTTP itself, which are told to programs.
OF_HTTP = {
    400: "The browser sent something that isn't a request.",
    404: "There is no page at this address.",
    405: "This page takes no forms: open it by a link.",
    408: "The page's request came too slowly.",
    413: "What was sent is too large.",
    415: "A form was sent in a form of its own, which this page doesn't read.",
    431: "The browser sent too many or too long cookies: delete those of this site.",
    500: "Something went wrong in the service, and was logged.",
}


def is_for_person(scope: Mapping[str, Any]) -> bool:
    """Return whether a response is for a person: a browser that opens a page, or sends one of our forms."""
    accept = next((value for name, value in scope.get("headers", []) if name == b"accept"), b"")
    ours = scope["path"].startswith("/ui/")
    return b"text/html" in accept and (scope.get("method") == "GET" or ours)


def problem_page(
    scope: Mapping[str, Any], body: Mapping[str, Any], headers: Mapping[str, str]
) -> Response | None:
    """Render a problem document as a page for a browser; None for other clients."""
    return problem(scope, body, headers) if is_for_person(scope) else None


def problem(scope: Mapping[str, Any], body: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    """Render a problem document as a page with the next step; redirect to the sign-in page on 401."""
    if body["status"] == 401:
        ask = scope.get("query_string", b"").decode("latin-1")
        path = scope["path"] + (f"?{ask}" if ask else "")
        return see_other(f"/ui/sign-in?{urlencode({'next': path if scope['method'] == 'GET' else '/'})}")
    back, back_words = _way_back(scope, body["status"])
    if body["detail"] == PLAIN.get(body["status"], ("", "", ""))[2]:
        body = {**body, "detail": OF_HTTP.get(body["status"], body["detail"])}
    page = render(
        scope,
        "problem.html",
        status=body["status"],
        problem=body,
        next_step=_next_step(body),
        back=back,
        back_words=back_words,
    )
    page.headers.update(dict(headers))
    return page


def _next_step(body: Mapping[str, Any]) -> str:
    """Return the next step after a problem: by its type, else by its status."""
    kind = str(body["type"]).rpartition("/")[2]
    known = NEXT_STEPS.get(kind) or NEXT_STEPS.get(body["status"])
    return known or "Go back and try another way; the error was logged."


def _way_back(scope: Mapping[str, Any], status: int) -> tuple[str, str]:
    path = scope["path"]
    if status in {429, 503} and scope["method"] == "GET":
        return path, "Try again"
    if path.startswith("/ui/datasets"):
        return "/ui/datasets", "Your datasets"
    return "/ui/models", "Your models"
