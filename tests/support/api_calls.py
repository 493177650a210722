"""Helpers for API tests."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np

from app.services.access import keys
from app.store.engine import session_scope
from sampler import Posterior, load
from tests.support.databases import Database

CSV = {"Content-Type": "text/csv"}


def problem(response: httpx.Response, status: int, slug: str | None = None) -> dict[str, Any]:
    """Return the problem document of an error response after checking its format."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    of_protocol = {"error"} if response.request.url.path.startswith("/v2") else set()
    assert set(body) == {"type", "title", "status", "detail", "request_id", "errors"} | of_protocol
    assert body.get("error", body["detail"]) == body["detail"]
    assert body["status"] == status
    assert body["detail"]
    assert body["request_id"] == response.headers["x-request-id"]
    assert all(set(entry) - {"code"} == {"column", "row", "detail"} for entry in body["errors"])
    if slug is not None:
        assert body["type"] == f"/problems/{slug}"
    return body


def places(body: dict[str, Any]) -> list[tuple[str | None, int | None]]:
    """Return column and row of each fault in a problem document."""
    return [(entry["column"], entry["row"]) for entry in body["errors"]]


def post_csv(client: httpx.Client, text: str | bytes, **query: str) -> httpx.Response:
    content = text.encode() if isinstance(text, str) else text
    return client.post("/datasets", content=content, headers=CSV, params=query)


def post_json(client: httpx.Client, path: str, text: str) -> httpx.Response:
    """Post a JSON text unchanged."""
    return client.post(path, content=text.encode(), headers={"Content-Type": "application/json"})


def post_model(client: httpx.Client, file: bytes, **query: str) -> httpx.Response:
    """Import a model file."""
    kind = {"Content-Type": "application/vnd.bartserve.model"}
    return client.post("/models", content=file, headers=kind, params=query)


def table(num_rows: int = 30) -> str:
    """Make a small table in which y depends on a number and a category."""
    lines = ["y,size,colour,note"]
    colours = ("red", "green", "blue")
    for row in range(num_rows):
        noise = (row * 37 % 11 - 5) / 20
        size, colour = row * 7 % 19, colours[row % 3]
        lines.append(f"{size / 2 + 3 * (colour == 'red') + noise:.3f},{size},{colour},n{row}")
    return "\n".join(lines) + "\n"


def as_json(value: Any) -> str:
    return json.dumps(value)


def of_file(client: httpx.Client, model: dict[str, Any]) -> Posterior:
    """Save a model's file and load it, as a notebook does."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.bart"
        file.write_bytes(client.get(f"/models/{model['id']}/file").content)
        return load(file)


def ask(client: httpx.Client, model: dict[str, Any] | str, what: str, **query: Any) -> Any:
    """Get a document about a model, by its id or name."""
    response = client.get(f"/models/{model if isinstance(model, str) else model['id']}/{what}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def dependence(client: httpx.Client, model: dict[str, Any], **body: Any) -> httpx.Response:
    """Request the partial dependence of a model."""
    return client.post(f"/models/{model['id']}/partial-dependence", json=body)


def make_key(database: Database, name: str, **settings: Any) -> keys.NewKey:
    """Create an API key as `bartserve keys create` does."""
    with session_scope(database.engine) as session:
        return keys.create(session, name=name, **settings)


def bearer(key: keys.NewKey) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.secret}"}


def two_classes(num_rows: int = 80) -> str:
    """Make a table whose outcome is `yes` where x is large."""
    rng = np.random.default_rng(3)
    x = rng.uniform(size=num_rows)
    outcome = np.where(x + 0.2 * rng.normal(size=num_rows) > 0.5, "yes", "no")
    return "x,y\n" + "".join(f"{a:.4f},{b}\n" for a, b in zip(x, outcome, strict=True))
