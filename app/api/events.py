"""The event log of a model over HTTP, as a page or as a stream of server-sent events."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event

from app.services.access.keys import READ
from app.services.fits import events
from app.services.fits.event_stream import Feed
from app.services.fits.events import EventPage
from app.web.dependencies import Owner, TheTransactions
from app.web.errors import responses
from app.web.paging import Limit
from app.web.scopes import GuardedRoute, in_thread, needs

router = APIRouter(prefix="/models", tags=["models"], route_class=GuardedRoute)
STREAM = "text/event-stream"
DOCUMENTED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A page of the log; or, with `Accept: text/event-stream`, a stream of events as they "
        "happen, each with its number as `id`, and `progress` events without one. The stream ends with "
        "succeeded, failed, cancelled or deleted.",
        "content": {STREAM: {"schema": {"type": "string"}}},
    },
    204: {"description": "A stream was requested, and the client has already received its last event."},
}


@router.get("/{model_id}/events", response_model=EventPage, responses=responses(409, 503) | DOCUMENTED)
@needs(READ)
async def list_events(
    model_id: str,
    request: Request,
    transactions: TheTransactions,
    owner: Owner,
    limit: Limit = 50,
    cursor: Annotated[
        str | None,
        Query(max_length=500, description="`next_cursor` of the previous page; omit for the first."),
    ] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=500, description="For a stream: the last `id` received.")
    ] = None,
) -> Any:
    """List the events of a model, or stream them as they happen.

    A browser's `EventSource` resumes an interrupted stream by itself.
    """

    def look() -> EventPage:
        with transactions(read_only=True) as session:
            return events.page(session, owner, model_id, limit, cursor)

    def begin() -> tuple[str, int, bool]:
        seen = last_event_id if last_event_id is not None else cursor
        after = events.after(seen, "cursor" if last_event_id is None else "Last-Event-ID")
        with transactions(read_only=True) as session:
            followed, over = events.seen_to_the_end(session, owner, model_id, after)
            return followed, after, over

    if STREAM not in request.headers.get("accept", ""):
        return await in_thread(look)
    followed, after, over = await in_thread(begin)
    if over:
        return Response(status_code=204)  # keeps an EventSource from reconnecting
    feed: Feed = request.app.state.feed
    feed.check_room([followed])
    headers = {"X-Accel-Buffering": "no", "Bartserve-Model-Id": followed}
    return EventSourceResponse(_written(feed, followed, after), headers=headers)


async def _written(feed: Feed, model_id: str, after: int) -> AsyncIterator[bytes]:
    async with aclosing(feed.follow({model_id: after})) as followed:
        async for news in followed:
            if news is None:
                yield KEEPALIVE_COMMENT
                continue
            _, event = news
            number = None if event.sequence is None else str(event.sequence)
            yield format_sse_event(data_str=json.dumps(event.data), event=event.kind, id=number)
