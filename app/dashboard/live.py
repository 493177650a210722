"""Progress of several models in one stream: a browser keeps few connections open at once."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.responses import Response

from app.api.deps import Owner, TheEngine
from app.api.scopes import GuardedRoute, needs
from app.services import models
from app.services.feed import NEWEST, PROGRESS, Feed
from app.services.keys import READ
from app.store.engine import session_scope

router = APIRouter(prefix="/ui", include_in_schema=False, route_class=GuardedRoute)
MOST = 50  # models followed at once: more than a page lists
END = "end"


@router.get("/events")
@needs(READ)
async def follow(
    request: Request,
    engine: TheEngine,
    owner: Owner,
    wanted: Annotated[str, Query(alias="models", max_length=5000, description="Their ids, with commas.")],
) -> Response:
    """Server-sent events: `progress` of each of your models, and `end` when one of them ends."""
    given = dict.fromkeys(wanted.split(","))

    def mine() -> list[str]:
        with session_scope(engine, read_only=True) as session:
            return [models.get(session, owner, model_id).id for model_id in list(given)[:MOST]]

    ids = list(dict.fromkeys(await to_thread.run_sync(mine)))
    feed: Feed = request.app.state.feed
    feed.check_room(ids)
    return EventSourceResponse(_merged(feed, ids), headers={"X-Accel-Buffering": "no"})


async def _merged(feed: Feed, ids: Sequence[str]) -> AsyncIterator[bytes]:
    async with aclosing(feed.follow(dict.fromkeys(ids, NEWEST))) as followed:
        async for news in followed:
            if news is None:
                yield KEEPALIVE_COMMENT
                continue
            model_id, told = news
            if told.ends:
                yield _written(END, {"model": model_id})
                return
            if told.kind == PROGRESS:
                yield _written(PROGRESS, {"model": model_id, **told.data})


def _written(kind: str, data: dict[str, object]) -> bytes:
    return format_sse_event(data_str=json.dumps(data), event=kind)
