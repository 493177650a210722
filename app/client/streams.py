"""Parser of server-sent events from a stream of lines (the parts of the WHATWG format in use)."""

import json
from collections.abc import Iterable, Iterator

from app.client.views import Event, Json


def events_of(lines: Iterable[str]) -> Iterator[Event]:
    """Yield the events of a stream; an incomplete last event is dropped."""
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
    """Make an event; events of the log have a time and a detail, progress is its own detail."""
    return Event(number, kind, document.get("detail", document), document.get("at"))
