"""What the tests of the API say again and again."""

import json
from typing import Any

import httpx
import numpy as np

from app.services.access import keys
from app.store.engine import session_scope
from tests.support.databases import Database

CSV = {"Content-Type": "text/csv"}


def problem(response: httpx.Response, status: int, slug: str | None = None) -> dict[str, Any]:
    """The problem document of a refusal, checked to be one."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert set(body) == {"type", "title", "status", "detail", "request_id", "errors"}
    assert body["status"] == status
    assert body["detail"]
    assert body["request_id"] == response.headers["x-request-id"]
    assert all(set(entry) - {"code"} == {"column", "row", "detail"} for entry in body["errors"])
    if slug is not None:
        assert body["type"] == f"/problems/{slug}"
    return body


def places(body: dict[str, Any]) -> list[tuple[str | None, int | None]]:
    """Column and row of each thing a problem document names."""
    return [(entry["column"], entry["row"]) for entry in body["errors"]]


def post_csv(client: httpx.Client, text: str | bytes, **query: str) -> httpx.Response:
    content = text.encode() if isinstance(text, str) else text
    return client.post("/datasets", content=content, headers=CSV, params=query)


def post_json(client: httpx.Client, path: str, text: str) -> httpx.Response:
    """A JSON text as it stands, whatever it holds."""
    return client.post(path, content=text.encode(), headers={"Content-Type": "application/json"})


def table(num_rows: int = 30) -> str:
    """A small data set: y depends on a number and on a category."""
    lines = ["y,size,colour,note"]
    colours = ("red", "green", "blue")
    for row in range(num_rows):
        noise = (row * 37 % 11 - 5) / 20
        size, colour = row * 7 % 19, colours[row % 3]
        lines.append(f"{size / 2 + 3 * (colour == 'red') + noise:.3f},{size},{colour},n{row}")
    return "\n".join(lines) + "\n"


def as_json(value: Any) -> str:
    return json.dumps(value)


def make_key(database: Database, name: str, **given: Any) -> keys.MadeKey:
    """A key as `bartserve keys create` makes it."""
    with session_scope(database.engine) as session:
        return keys.create(session, name=name, **given)


def bearer(key: keys.MadeKey) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.secret}"}


def two_classes(num_rows: int = 80) -> str:
    """A table whose outcome is `yes` where x is large."""
    rng = np.random.default_rng(3)
    x = rng.uniform(size=num_rows)
    outcome = np.where(x + 0.2 * rng.normal(size=num_rows) > 0.5, "yes", "no")
    return "x,y\n" + "".join(f"{a:.4f},{b}\n" for a, b in zip(x, outcome, strict=True))
