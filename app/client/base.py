"""Shared parts of the client: JSON calls, pages, waiting."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from app.client.bodies import open_body
from app.client.errors import ClientError, WaitedTooLongError
from app.client.transport import Call, Transport
from app.client.views import Json, without_none

ARROW = "application/vnd.apache.arrow.stream"
LOOK_FIRST, LOOK_LAST = 0.1, 2.0  # growing polling interval in seconds
LOOK_GROWTH = 1.2


class _Open(Protocol):
    """An object whose state may still change by itself."""

    @property
    def is_open(self) -> bool: ...


T = TypeVar("T", bound=_Open)


class Calls:
    """Calls whose responses are JSON documents, pages of them, or tables."""

    _transport: Transport

    def _json(self, call: Call) -> Json:
        document = self._transport.send(call).json()
        if not isinstance(document, dict):
            raise ClientError(f"The response to {call.method} {call.path} doesn't come from bartserve.")
        return document

    def _get(self, path: str, **query: Any) -> Json:
        return self._json(Call("GET", path, query=without_none(query), repeatable=True))

    def _pages(self, path: str, **query: Any) -> Iterator[Json]:
        """Yield the items of all pages, requesting each page when it is needed."""
        cursor: str | None = None
        while True:
            page = self._get(path, limit=200, cursor=cursor, **query)
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _text(self, path: str, **query: Any) -> str:
        return self._transport.send(
            Call("GET", path, query=without_none(query), accept="text/*", repeatable=True)
        ).text

    def _arrow(self, path: str, **query: Any) -> Any:
        return self._table(Call("GET", path, query=without_none(query), repeatable=True))

    def _bytes(self, call: Call) -> bytes:
        """Return the content of the response to a call."""
        return self._transport.send(replace(call, accept="*/*")).content

    @contextmanager
    def _file_call(self, path: str, rows: Any, query: Json) -> Iterator[Call]:
        """Make the request that sends rows as a file; the file is open in the block."""
        with open_body(rows) as body:
            yield Call(
                "POST",
                path,
                query=without_none(query),
                content=body.content,
                content_type=body.content_type,
                repeatable=True,
            )

    def _table(self, call: Call) -> Any:
        """Return the response to a call as a pyarrow table."""
        import pyarrow as pa

        call = replace(call, accept=ARROW)
        with pa.ipc.open_stream(self._transport.send(call).content) as reader:
            return reader.read_all()

    @staticmethod
    def _look(look: Callable[[], T], progress: Callable[[T], None] | None, seconds: float | None) -> T:
        """Poll until the object is no longer open, and return it."""
        deadline = None if seconds is None else time.monotonic() + seconds
        pause = LOOK_FIRST
        while True:
            job = look()
            if progress is not None:
                progress(job)
            if not job.is_open:
                return job
            if deadline is not None and time.monotonic() + pause > deadline:
                raise WaitedTooLongError(f"It did not end within {seconds:g} seconds; it continues.")
            time.sleep(pause)
            pause = min(LOOK_LAST, pause * LOOK_GROWTH)


def id_of(entity: Any) -> str:
    """Return the id of an object that has one, or the given id or name."""
    return str(getattr(entity, "id", entity))


def is_dataset_id(rows: Any) -> bool:
    """Tell whether rows are given as the id of a dataset, not as the path of a file."""
    return isinstance(rows, str) and rows.startswith("ds_") and not Path(rows).exists()


def address(*steps: Any) -> str:
    """Build a path from fixed words and quoted ids or names."""
    return "".join(f"/{quote(id_of(step), safe='')}" for step in steps)
