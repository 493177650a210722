"""Alternative spellings of a path never widen a key's access: scopes belong to the route."""

import http.client
import json
import re
from collections.abc import Iterator
from typing import Self

import pytest
from fastapi import APIRouter, FastAPI

from app.application import create_app
from app.services.access import keys
from app.settings import Settings
from app.web.scopes import GuardedRoute, list_needs
from tests.support.api_calls import CSV, bearer, make_key, table
from tests.support.databases import only
from tests.support.routes import address, body_for

SUFFIXES = (
    "%0A",
    "%0D",
    "%00",
    "%09",
    "%20",
    "%2F",
    "%2E",
    "%3B",
    "%23",
    "%0A%0A",
    "/",
    "%C2%85",
    "%7F",
    ";x",
)
REFUSED = {400, 401, 403, 404, 405}


def spellings(path: str) -> Iterator[str]:
    """Return other spellings of a path that a client can send."""
    yield from (path + suffix for suffix in SUFFIXES)
    yield from (f"/{path}", f"/.{path}", f"/x/..{path}", f"/%2E%2E{path}", f"{path}/.", f"{path}/../x/..")
    yield path.replace("/", "//")
    yield path.replace("/", "%2F").replace("%2F", "/", 1)
    yield re.sub(r"[a-z]", lambda letter: letter[0].upper(), path)
    yield path[:-1] + f"%{ord(path[-1]):02X}%0A"


class Raw:
    """A connection that sends addresses unchanged and returns statuses."""

    def __init__(self, host: str, port: int) -> None:
        self.connection = http.client.HTTPConnection(host, port, timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.connection.close()

    def status(self, method: str, target: str, headers: dict[str, str], body: bytes | None) -> int:
        self.connection.request(method, target, body, headers)
        response = self.connection.getresponse()
        response.read()
        return response.status


@pytest.fixture
def things(team, database):
    """Return a dataset and a model of the requesting keys' owner."""
    mine = bearer(make_key(database, "mine", owner="ann"))
    dataset = team.post("/datasets", content=table().encode(), headers=CSV | mine).json()
    fit = {"dataset_id": dataset["id"], "target": "y", "name": "cars"}
    model = team.post("/models", json=fit, headers=mine).json()
    return {"dataset_id": dataset["id"], "model_id": model["id"]}


@only("sqlite")
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_spelling_of_a_path_gives_a_key_more(team, database, things, every):
    """Every route (quick: a third) under some thirty spellings refuses keys without its scope, and no key."""
    held = {scope: bearer(make_key(database, scope, owner="ann", scopes=[scope])) for scope in keys.SCOPES}
    requests = 0
    with Raw(team.base_url.host, team.base_url.port) as raw:
        needs = list_needs(create_app(Settings(database_url="sqlite:///never-opened")).routes)
        for number, (method, path, asked_for) in enumerate([*needs][:: 1 if every else 3]):
            if asked_for.keyless:
                continue
            target = address(path, **things)
            sent = body_for(path, things["dataset_id"]).get("json") if method in {"POST", "PUT"} else None
            body = None if sent is None else json.dumps(sent).encode()
            kind = {} if body is None else {"Content-Type": "application/json"}
            may = asked_for.any_of | {keys.ADMIN} if asked_for.any_of else set(held)
            may = may - {keys.PREDICT} if asked_for.of_kept_rows else may
            without = [{}, *(headers for scope, headers in held.items() if scope not in may)]
            for index, headers in enumerate(without):
                assert raw.status(method, target, headers | kind, body) in {401, 403}
                # A route matches a spelling whatever the key. So one key tries all of them, or for speed a
                # third, other ones on the next route, and each of the others one of them.
                some = [*spellings(target)]
                if index != 1:
                    some = [some[(number + index) % 3]]
                elif not every:
                    some = some[number % 3 :: 3]
                for spelling in some:
                    status = raw.status(method, spelling, headers | kind, body)
                    assert status in REFUSED, (method, spelling, status)
                    requests += 1
    assert requests > (1500 if every else 100)
    everyone = bearer(make_key(database, "boss", owner="ann", scopes=[keys.ADMIN]))
    assert team.get(f"/models/{things['model_id']}", headers=everyone).status_code == 200


@only("sqlite")
def test_no_path_with_a_control_character_reaches_a_router(client):
    """Control characters in a path are a 404 before any route is tried, even with every scope."""
    with Raw(client.base_url.host, client.base_url.port) as raw:
        for code in (*range(0x20), 0x7F):
            assert raw.status("GET", f"/models%{code:02X}", {}, None) == 404
        assert raw.status("GET", "/models", {}, None) == 200


def test_a_route_without_a_scope_is_an_error():
    """An endpoint without a declared scope keeps the application from starting, guarded class or not."""

    def endpoint() -> None:
        """Do nothing."""

    with pytest.raises(TypeError, match="with @needs"):
        APIRouter(route_class=GuardedRoute).get("/x")(endpoint)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.get("/x")(endpoint)
    with pytest.raises(TypeError, match="/x is not guarded"):
        list(list_needs(app.routes))
