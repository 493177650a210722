"""Events of a model, from a stream of server-sent events."""

from collections.abc import Iterator

import httpx
from httpx_sse import EventSource, SSEError

from app.client.errors import ClientError
from app.client.views import Event


def events_of(answer: httpx.Response) -> Iterator[Event]:
    """Yield the events of a stream; an incomplete last event is dropped.

    Raises
    ------
    ClientError
        The answer is no stream of events, or an event is no JSON.
    """
    last = ""
    try:
        for message in EventSource(answer).iter_sse():
            if not message.data:
                continue  # a comment that keeps the connection open, after an event with an id
            document = message.json()
            # By the format an id holds until the next one: progress, which has none, shows the last event's.
            number = int(message.id) if message.id.isdecimal() and message.id != last else None
            last = message.id
            # Events of the log have a time and a detail; progress is its own detail.
            yield Event(number, message.event, document.get("detail", document), document.get("at"))
    except (SSEError, ValueError) as error:
        raise ClientError(f"The response to GET {answer.url.path} doesn't come from bartserve.") from error
