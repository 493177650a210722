"""Live progress of several models in one stream, since a browser keeps few connections open."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.responses import Response

from app.services.access.keys import READ
from app.services.fits import models
from app.services.fits.event_stream import NEWEST, PROGRESS, Feed
from app.web.dependencies import Owner, Reading
from app.web.scopes import GuardedRoute, needs

router = APIRouter(prefix="/ui", include_in_schema=False, route_class=GuardedRoute)
MOST = 50  # models per stream: more than a page lists
END = "end"


def _followed(
    session: Reading,
    owner: Owner,
    ids: Annotated[str, Query(alias="models", max_length=5000, description="Ids separated by commas.")],
) -> list[str]:
    names = list(dict.fromkeys(ids.split(",")))[:MOST]
    return list(dict.fromkeys(models.get(session, owner, model_id).id for model_id in names))


@router.get("/events")
@needs(READ)
async def follow(request: Request, ids: Annotated[list[str], Depends(_followed)]) -> Response:
    """Stream server-sent events: `progress` of each of your models, and `end` when one of them ends."""
    feed: Feed = request.app.state.feed
    feed.check_room(ids)
    return EventSourceResponse(_merged(feed, ids), headers={"X-Accel-Buffering": "no"})


async def _merged(feed: Feed, ids: Sequence[str]) -> AsyncIterator[bytes]:
    async with aclosing(feed.follow(dict.fromkeys(ids, NEWEST))) as followed:
        async for news in followed:
            if news is None:
                yield KEEPALIVE_COMMENT
                continue
            model_id, event = news
            if event.ends:
                yield _written(END, {"model": model_id})
                return
            if event.kind == PROGRESS:
                yield _written(PROGRESS, {"model": model_id, **event.data})


def _written(kind: str, data: dict[str, object]) -> bytes:
    return format_sse_event(data_str=json.dumps(data), event=kind)
