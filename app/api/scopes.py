"""What a key must be for, by method and path. A route that nobody thought of here is never the easier one."""

import re

from app.services.keys import ADMIN, METRICS, PREDICT, READ, TRAIN

LOOKING = frozenset({"GET", "HEAD", "OPTIONS"})
# Tell nothing of anybody, so any key will do: what the API is like.
FOR_ALL = re.compile(r"/(openapi\.json|docs(/.*)?|problems/[^/]+)")
ASKING = re.compile(r"/models/[^/]+/(predict|predictions|partial-dependence)")
ASKED = re.compile(r"/predictions(/.*)?")  # background predictions, for whoever may ask for them
NOTHING: frozenset[str] = frozenset()
# Pages are for whom their routes of the API are; what has none is said here.
OF_PAGES = (
    (re.compile(r"/ui/models/[^/]+/(predict|effects|density\.svg|dependence\.svg)"), frozenset({PREDICT})),
    (re.compile(r"/ui/keys(/.*)?"), frozenset({ADMIN})),
    (re.compile(r"/ui/sign-out"), NOTHING),
)


def scopes_for(method: str, path: str) -> frozenset[str]:
    """The scopes of which a key needs one; none at all: any key will do.

    >>> sorted(scopes_for("GET", "/models"))
    ['read']
    >>> sorted(scopes_for("DELETE", "/models/mdl_1"))
    ['train']
    """
    if path in {"/metrics", "/audit"}:
        return frozenset({METRICS if path == "/metrics" else ADMIN})
    if ASKED.fullmatch(path):
        return frozenset({READ, PREDICT}) if method in LOOKING else frozenset({PREDICT})
    for pattern, scopes in OF_PAGES:
        if pattern.fullmatch(path):
            return scopes
    if method in LOOKING:
        return NOTHING if FOR_ALL.fullmatch(path) else frozenset({READ})
    return frozenset({PREDICT if ASKING.fullmatch(path) else TRAIN})
