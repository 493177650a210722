"""Progress of several models in one stream: a browser keeps few connections open at once."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.responses import Response

from app.api.deps import Owner, Reading
from app.api.scopes import GuardedRoute, needs
from app.services import models
from app.services.feed import PROGRESS, Feed
from app.services.keys import READ

router = APIRouter(prefix="/ui", include_in_schema=False, route_class=GuardedRoute)
MOST = 50  # models followed at once: more than a page lists
END = "end"


@router.get("/events")
@needs(READ)
def follow(
    request: Request,
    session: Reading,
    owner: Owner,
    wanted: Annotated[str, Query(alias="models", max_length=5000, description="Their ids, with commas.")],
) -> Response:
    """Server-sent events: `progress` of each of your models, and `end` when one of them ends."""
    ids = list(dict.fromkeys(wanted.split(",")))[:MOST]
    for model_id in ids:
        models.get(session, owner, model_id)
    feed: Feed = request.app.state.feed
    feed.check_room()
    return EventSourceResponse(_merged(feed, ids), headers={"X-Accel-Buffering": "no"})


async def _merged(feed: Feed, ids: Sequence[str]) -> AsyncIterator[bytes]:
    told: asyncio.Queue[bytes] = asyncio.Queue(len(ids))
    followers = [asyncio.create_task(_one(feed, model_id, told)) for model_id in ids]
    try:
        while not (written := await told.get()).startswith(b"event: end"):
            yield written
        yield written
    finally:
        for follower in followers:
            follower.cancel()


async def _one(feed: Feed, model_id: str, to: asyncio.Queue[bytes]) -> None:
    async with aclosing(feed.follow(model_id, 0)) as followed:
        async for told in followed:
            if told is None:
                await to.put(KEEPALIVE_COMMENT)
            elif told.kind == PROGRESS:
                await to.put(_written(PROGRESS, {"model": model_id, **told.data}))
    await to.put(_written(END, {"model": model_id}))


def _written(kind: str, data: dict[str, object]) -> bytes:
    return format_sse_event(data_str=json.dumps(data), event=kind)
