"""Live events of models: one reader of the database feeds all streams of a process."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from anyio import to_thread
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.services.errors import BusyError, QuotaError, ServiceError
from app.services.fits import models
from app.services.request_context import Actor, actor
from app.store import events
from app.store import models as store
from app.store.engine import session_scope
from app.store.tables import OPEN_STATES, ModelEvent

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.5
IDLE_SECONDS = 15.0  # after which an idle stream gets a keep-alive
CHECK_SECONDS = 2.0  # between checks that the readers' keys are valid
MAX_MODELS = 1000  # followed at once by all streams
MODELS_PER_STREAM = 4  # models an owner may follow for each stream of its quota
AT_ONCE = 200  # events of one model read in one query
NEWEST = 2**31 - 1  # larger than any event number: a stream from here gets only progress and the end
PROGRESS, DELETED = "progress", "deleted"


@dataclass(frozen=True)
class StreamEvent:
    """One message of a stream; `sequence` is None for progress (not in the log), `ends` marks the last."""

    sequence: int | None
    kind: str
    data: dict[str, Any]
    ends: bool = False


@dataclass(frozen=True)
class _News:
    state: str
    progress: dict[str, Any]
    events: list[StreamEvent]


@dataclass(eq=False)
class _Cursor:
    """Position of a stream in the log of one model."""

    after: int
    progress: dict[str, Any] | None = None
    ended: bool = False

    def take(self, news: _News | None) -> list[StreamEvent]:
        """Return the messages of the news that have not been sent."""
        if news is None:
            self.ended = True
            return [StreamEvent(None, DELETED, {}, ends=True)]
        fresh = [event for event in news.events if (event.sequence or 0) > self.after]
        if fresh:
            self.after = fresh[-1].sequence or 0
        if news.state in OPEN_STATES:
            if news.progress != self.progress:
                self.progress = news.progress
                fresh.insert(0, StreamEvent(None, PROGRESS, news.progress))
        elif len(fresh) < AT_ONCE:  # otherwise the log may have more
            self.ended = True
            if fresh and fresh[-1].kind == news.state:
                fresh[-1] = replace(fresh[-1], ends=True)
            else:  # a model older than the log has no final event
                fresh.append(StreamEvent(None, news.state, {}, ends=True))
        return fresh


@dataclass(eq=False)
class _Stream:
    """One connection: its reader, and its position in the log of each model."""

    reader: Actor
    models: dict[str, _Cursor]
    waiting: list[tuple[str, StreamEvent]] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    over: bool = False

    def feed(self, news: Mapping[str, _News], since: Mapping[str, int]) -> None:
        """Queue new messages; do nothing while earlier ones are pending, since the log keeps them."""
        if self.waiting:
            return
        for model_id, cursor in self.models.items():
            # A stream that joined after the query began, from an earlier event, waits for the next.
            if not cursor.ended and cursor.after >= since.get(model_id, NEWEST + 1):
                self.waiting += [(model_id, event) for event in cursor.take(news.get(model_id))]
        self.over = self.over or all(cursor.ended for cursor in self.models.values())
        if self.waiting or self.over:
            self.wake.set()

    def end(self) -> None:
        """End the stream without further messages."""
        self.over = True
        self.wake.set()


class Feed:
    """Streams of model events; all methods belong to one event loop.

    Parameters
    ----------
    most
        Maximum of open streams of all owners; `OwnerLimits.streams` limits those of one owner.
    """

    def __init__(self, engine: Engine, most: int) -> None:
        self._engine = engine
        self._most = most
        self._streams: set[_Stream] = set()
        self._reader: asyncio.Task[None] | None = None
        self._checked = 0.0
        self._closed = False

    def close(self) -> None:
        """End every stream without a final message; clients resume elsewhere with `Last-Event-ID`."""
        self._closed = True
        for stream in self._streams:
            stream.end()

    def check_room(self, model_ids: Iterable[str]) -> None:
        """Refuse one more stream of the current actor for these models when too many are open.

        Raises
        ------
        QuotaError
            The owner has as many streams, or follows as many models, as one owner may.
        BusyError
            All owners together do.
        """
        if self._closed:
            raise BusyError("This process of the service is shutting down; retry.", retry_after=1)
        mine = [stream for stream in self._streams if stream.reader.owner == actor().owner]
        most = actor().limits.streams
        if most is not None:
            if len(mine) >= most:
                raise QuotaError(
                    f"You have {len(mine)} event streams open; at most {most} are allowed: close one, or "
                    "request the page of events instead.",
                    retry_after=5,
                )
            followed = _followed(mine).union(model_ids)
            if len(followed) > most * MODELS_PER_STREAM:
                raise QuotaError(
                    f"You would follow {len(followed)} models at once; at most {most * MODELS_PER_STREAM} "
                    "are allowed: close a stream, or request the page of events instead.",
                    retry_after=5,
                )
        if len(self._streams) >= self._most or len(_followed(self._streams).union(model_ids)) > MAX_MODELS:
            raise BusyError("Too many streams are open; request the page of events instead.", retry_after=5)

    async def follow(self, after: Mapping[str, int]) -> AsyncGenerator[tuple[str, StreamEvent] | None, None]:
        """Yield events of models after the given event numbers, and their progress, until each model ends.

        The last message of a model is its end: `succeeded`, `failed`, `cancelled` or `deleted`. None is
        yielded after every 15 s without a message. When the actor's key is no longer valid, the stream ends
        without another message.
        """
        try:
            self.check_room(after)  # more streams may have opened since the request was admitted
        except ServiceError:
            return
        stream = _Stream(actor(), {model_id: _Cursor(number) for model_id, number in after.items()})
        self._streams.add(stream)
        try:
            if self._reader is None or self._reader.done():
                self._reader = asyncio.create_task(self._read())
            while True:
                try:
                    await asyncio.wait_for(stream.wake.wait(), IDLE_SECONDS)
                except TimeoutError:
                    yield None
                    continue
                stream.wake.clear()
                for event in stream.waiting:
                    yield event
                stream.waiting = []
                if stream.over:
                    return
        finally:
            self._streams.discard(stream)

    async def _read(self) -> None:
        """Query for news while there are streams."""
        while self._streams:
            after: dict[str, int] = {}
            for stream in self._streams:
                for model_id, cursor in stream.models.items():
                    if not cursor.ended:
                        after[model_id] = min(cursor.after, after.get(model_id, cursor.after))
            try:
                if time.monotonic() - self._checked >= CHECK_SECONDS:
                    for stream in await to_thread.run_sync(_not_in_force, list(self._streams)):
                        stream.end()
                    self._checked = time.monotonic()
                news = await to_thread.run_sync(self._look, after)
            except SQLAlchemyError as error:
                log.warning("Event streams are waiting for the database: %s", error)
            else:
                for stream in list(self._streams):
                    stream.feed(news, after)
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self, after: dict[str, int]) -> dict[str, _News]:
        with session_scope(self._engine, read_only=True) as session:
            # States first: then the event of every visible end is visible too.
            rows = store.still_there(session, list(after))
            chains, steps = store.chains(session, list(after)), store.steps(session, rows)
            logged = events.news(session, after, AT_ONCE)
            return {
                row.id: _News(
                    row.state,
                    {"state": row.state, "draws": models.draws_of(row, chains[row.id])}
                    | asdict(models.progress(row.state, row.settings, chains[row.id], steps.get(row.id))),
                    [_message(event) for event in logged[row.id]],
                )
                for row in rows
            }


def _followed(streams: Iterable[_Stream]) -> set[str]:
    """Return the models that the streams follow, each once."""
    return {model_id for stream in streams for model_id in stream.models}


def _not_in_force(streams: Iterable[_Stream]) -> list[_Stream]:
    """Return the streams whose reader's key or browser session is no longer valid. May block."""
    return [stream for stream in streams if not stream.reader.in_force()]


def _message(event: ModelEvent) -> StreamEvent:
    at = event.at.isoformat().replace("+00:00", "Z")
    return StreamEvent(event.sequence, event.kind, {"at": at, "detail": event.detail})
