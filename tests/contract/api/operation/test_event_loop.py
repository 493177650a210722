"""The event loop, which answers everybody, does no work in proportion to a request's body, on any route."""

import asyncio
import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi._compat import ModelField
from pydantic import BaseModel

from app.application import create_app
from app.web import json_body
from tests.support.databases import only
from tests.support.routes import address, body_for, every_route

pytestmark = only("sqlite")
FEW, MANY = 7_000, 25_000  # values or rows of two bodies, both beyond what is small
FORMS = "/ui/"  # their fields are few, and are read as they come


def bodies(path: str, count: int) -> Iterator[bytes]:
    """Yield large bodies: with as many rows, in every shape, where the route takes rows, and of no use."""
    example = body_for(path, "ds_1").get("json", {})
    yield json.dumps(example | {"no_such_field": [1] * 4 * count}).encode()
    if path.endswith("infer"):
        inputs = [each | {"shape": [count], "data": each["data"] * count} for each in example["inputs"]]
        yield json.dumps({"inputs": inputs}).encode()
    if rows := example.get("rows") or example.get("dataframe_records"):
        columns = {name: [value] * count for name, value in rows[0].items()}
        split = {"columns": [*rows[0]], "data": [[*rows[0].values()]] * count}
        rest = {name: value for name, value in example.items() if name not in ("rows", "dataframe_records")}
        shapes: dict[str, Any] = {"rows": rows * count, "columns": columns}
        if path.endswith("invocations"):
            shapes = {"inputs": columns, "instances": rows * count, "dataframe_split": split}
        yield from (json.dumps(rest | {name: value}).encode() for name, value in shapes.items())


async def steps(app, method: str, path: str, body: bytes, kind: str) -> int:
    """Answer a request and return how many instructions of Python that took in the event loop's thread."""
    headers = {"host": "localhost", "content-type": kind, "idempotency-key": f"{path} {len(body)}"}
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method}
    scope |= {"path": path, "raw_path": path.encode(), "root_path": "", "scheme": "http", "query_string": b""}
    scope |= {"headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    sent: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]
    count, statuses = 0, []

    async def receive():
        return sent.pop() if sent else await asyncio.Event().wait()

    async def send(message):
        statuses.append(message.get("status"))

    def step(frame, event, _):
        nonlocal count
        count += event == "opcode"
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    sys.settrace(step)
    try:
        await app(scope | {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}, receive, send)
    finally:
        sys.settrace(None)
    assert statuses[0] < 500, (path, statuses)
    return count


@pytest.mark.slow
def test_no_large_body_is_handled_in_the_event_loop(settings, monkeypatch):
    """Many more values take few more steps there; its thread doesn't parse, validate or hash them."""
    loop_thread, there = threading.get_ident(), []
    parse, validate, sha256 = json_body.parse, ModelField.validate, hashlib.sha256

    def seen(what: str, is_large: bool) -> None:
        if is_large and threading.get_ident() == loop_thread:
            there.append(what)

    def parsed(body, *rest):
        seen("parse", len(body) >= json_body.SMALL_BYTES)
        return parse(body, *rest)

    def validated(field, value, *rest, loc):
        seen("validate", loc == ("body",) and value != {} and not isinstance(value, BaseModel))
        return validate(field, value, *rest, loc=loc)

    def hashed(data=b"", **options):
        seen("hash", len(data) >= json_body.SMALL_BYTES)
        return sha256(data, **options)

    monkeypatch.setattr(json_body, "parse", parsed)
    monkeypatch.setattr(ModelField, "validate", validated)
    monkeypatch.setattr(hashlib, "sha256", hashed)
    generous = settings.model_copy(
        update={"max_predict_rows": MANY, "max_body_bytes": 1 << 24, "embedded": True}
    )
    routes = [(method, path) for method, path in every_route() if method != "GET" and FORMS not in path]

    async def more_steps() -> dict[str, int]:
        more, app = dict[str, int](), create_app(generous)
        app.openapi()  # made once, for the first refusal
        async with app.router.lifespan_context(app):
            for method, path in routes:
                sent = [
                    (one, "application/json")
                    for one in zip(bodies(path, FEW), bodies(path, MANY), strict=True)
                ]
                table = [b"size,colour\n" + b"1,red\n" * 4 * count for count in (FEW, MANY)]
                for number, (pair, kind) in enumerate([*sent, (table, "text/csv")]):
                    asked = (app, method, address(path))
                    if number == 0:
                        await steps(*asked, pair[0], kind)  # imports and caches
                    few, many = [await steps(*asked, body, kind) for body in pair]
                    more[f"{method} {path} {number}"] = many - few
        return more

    more = asyncio.run(more_steps())
    assert len(more) > 100
    assert {what: count for what, count in more.items() if count > MANY - FEW} == {}
    assert there == []
