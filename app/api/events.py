"""The log of a model over HTTP: as a page, or as a stream of server-sent events."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from pydantic import BaseModel, Field

from app.services.access.keys import READ
from app.services.fits import events, models
from app.services.fits.event_stream import Feed, all_of
from app.web.dependencies import Owner, TheTransactions
from app.web.errors import responses
from app.web.paging import Limit
from app.web.scopes import GuardedRoute, needs

router = APIRouter(prefix="/models", tags=["models"], route_class=GuardedRoute)
STREAM = "text/event-stream"
DOCUMENTED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A page of the log; or, asked for with `Accept: text/event-stream`, what happens from "
        "now on, each event with its number as `id`, and `progress` without one. The stream ends with "
        "succeeded, failed, cancelled or deleted.",
        "content": {STREAM: {"schema": {"type": "string"}}},
    },
    204: {"description": "A stream was asked for, and its reader has seen the end already."},
}


class EventView(BaseModel):
    """Something that happened to a model."""

    sequence: int = Field(description="1, 2, 3, ... by model.")
    kind: str = Field(
        description="created, started, chain_recovered, chain_finished, cancel_requested, cancelled, failed, "
        "retried, extended, looked (stop rules were not met yet), stopped (what ended the fit), succeeded."
    )
    at: datetime
    detail: dict[str, Any]


class EventPage(BaseModel):
    """Some events, oldest first."""

    model_id: str
    items: list[EventView]
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.")


@router.get("/{model_id}/events", response_model=EventPage, responses=responses(503) | DOCUMENTED)
@needs(READ)
async def list_events(
    model_id: str,
    request: Request,
    transactions: TheTransactions,
    owner: Owner,
    limit: Limit = 50,
    cursor: Annotated[
        str | None, Query(max_length=500, description="`next_cursor` of the page before; none: the oldest.")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=500, description="Of a stream: the last `id` that was received.")
    ] = None,
) -> Any:
    """What happened to a model, and, as a stream, what happens.

    A browser's `EventSource` goes on by itself where it was cut off.
    """

    def look() -> dict[str, Any]:
        with transactions(read_only=True) as session:
            items, next_cursor = events.page(session, owner, model_id, limit, cursor)
            found = models.get(session, owner, model_id).id
            return {"model_id": found, "items": all_of(items), "next_cursor": next_cursor}

    def begin() -> tuple[str, int, bool]:
        seen = last_event_id if last_event_id is not None else cursor
        after = events.after(seen, "cursor" if last_event_id is None else "Last-Event-ID")
        with transactions(read_only=True) as session:
            found, over = events.seen_to_the_end(session, owner, model_id, after)
            return found, after, over

    if STREAM not in request.headers.get("accept", ""):
        return await to_thread.run_sync(look)
    followed, after, over = await to_thread.run_sync(begin)
    if over:
        return Response(status_code=204)  # tells an EventSource not to come back
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
            _, told = news
            number = None if told.sequence is None else str(told.sequence)
            yield format_sse_event(data_str=json.dumps(told.data), event=told.kind, id=number)
