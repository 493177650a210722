"""Server-sent events as they are read from a line stream (the parts of the WHATWG format that are in use)."""

import json
from collections.abc import Iterable, Iterator

from app.client.views import Event, Json


def events_of(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a stream; what is cut off in the middle of one is left out."""
    kind, number, data = "message", None, ""
    for line in lines:
        if not line:
            if data:
                yield _event(number, kind, json.loads(data))
            kind, number, data = "message", None, ""
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "id":
            number = int(value) if value.isdecimal() else None
        elif name == "data":
            data += value


def _event(number: int | None, kind: str, document: Json) -> Event:
    """The log's events have a time and a detail; progress is its own detail."""
    return Event(number, kind, document.get("detail", document), document.get("at"))
