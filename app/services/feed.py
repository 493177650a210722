"""What happens to models, told as it happens: one reader of the database feeds all of a process."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from typing import Any

from anyio import to_thread
from sqlalchemy import Engine, select
from sqlalchemy.exc import SQLAlchemyError

from app.services import models
from app.services.errors import BusyError
from app.store import events
from app.store import models as store
from app.store.engine import session_scope
from app.store.tables import NOBODY, OPEN_STATES, Model, ModelEvent

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.5
IDLE_SECONDS = 15.0  # after which an idle stream is told so, that it can show that it lives
MAX_STREAMS = 1000
AT_ONCE = 200  # events of one model in one look
PROGRESS, DELETED = "progress", "deleted"


@dataclass(frozen=True)
class Told:
    """One thing to tell; `sequence` is None for what is not in the log (progress)."""

    sequence: int | None
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class _News:
    state: str
    progress: dict[str, Any]
    events: list[Told]


@dataclass(eq=False)
class _Stream:
    model_id: str
    after: int
    waiting: list[Told] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    progress: dict[str, Any] | None = None
    newest: str | None = None  # kind of the last event
    ended: bool = False

    def feed(self, news: _News | None) -> None:
        """Take what is new; nothing while what was fed before has not been taken: the log keeps it."""
        if self.waiting or self.ended:
            return
        if news is None:
            self._tell([Told(None, DELETED, {})], ended=True)
            return
        fresh = [told for told in news.events if told.sequence is not None and told.sequence > self.after]
        if fresh:
            self.after, self.newest = fresh[-1].sequence or 0, fresh[-1].kind
        if news.state in OPEN_STATES:
            if news.progress != self.progress:
                self.progress = news.progress
                fresh.insert(0, Told(None, PROGRESS, news.progress))
            self._tell(fresh)
        elif len(fresh) < AT_ONCE:  # else there may be more of the log
            # A model older than the log has no event to end with.
            closing = [] if self.newest == news.state else [Told(None, news.state, {})]
            self._tell([*fresh, *closing], ended=True)
        else:
            self._tell(fresh)

    def _tell(self, told: list[Told], *, ended: bool = False) -> None:
        self.waiting, self.ended = told, ended
        if told or ended:
            self.wake.set()


class Feed:
    """Streams of what happens to models; all methods belong to one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._streams: set[_Stream] = set()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False

    def close(self) -> None:
        """End every stream without an end of its own: its reader goes on elsewhere, with `Last-Event-ID`."""
        self._closed = True
        for stream in self._streams:
            stream.ended = True
            stream.wake.set()

    def check_room(self) -> None:
        """Raises BusyError when too many follow already."""
        if self._closed:
            raise BusyError("This process of the service is ending; ask again.", retry_after=1)
        if len(self._streams) >= MAX_STREAMS:
            raise BusyError("Too many streams are open; ask for the page of events instead.", retry_after=5)

    async def follow(self, model_id: str, after: int) -> AsyncGenerator[Told | None, None]:
        """What happens to a model beyond that event of its log, and its progress, to its end.

        The last thing told is the model's end: `succeeded`, `failed`, `cancelled`, or `deleted`. None is told
        every 15 s in which nothing happens.
        """
        stream = _Stream(model_id, after)
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
                for told in stream.waiting:
                    yield told
                stream.waiting = []
                if stream.ended:
                    return
        finally:
            self._streams.discard(stream)

    async def _read(self) -> None:
        """Look for news as long as anybody follows."""
        while self._streams:
            after: dict[str, int] = {}
            for stream in self._streams:
                after[stream.model_id] = min(stream.after, after.get(stream.model_id, stream.after))
            try:
                found = await to_thread.run_sync(self._look, after)
            except SQLAlchemyError as error:
                log.warning("Streams of events wait for the database: %s", error)
            else:
                for stream in list(self._streams):
                    if stream.model_id in after:
                        stream.feed(found.get(stream.model_id))
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self, after: dict[str, int]) -> dict[str, _News]:
        with session_scope(self._engine, read_only=True) as session:
            # The states first: whoever sees an end will see its event too.
            rows = session.scalars(select(Model).where(Model.id.in_(after), Model.owner != NOBODY)).all()
            chains = store.chains(session, list(after))
            found = events.news(session, after, AT_ONCE)
            return {
                row.id: _News(
                    row.state,
                    {"state": row.state, "draws": models.draws_of(row, chains[row.id])}
                    | models.progress(row.state, row.settings, chains[row.id]),
                    [told_of(event) for event in found[row.id]],
                )
                for row in rows
            }


def told_of(event: ModelEvent) -> Told:
    """An event of the log as it is told."""
    at = event.at.isoformat().replace("+00:00", "Z")
    return Told(event.sequence, event.kind, {"at": at, "detail": event.detail})


def all_of(found: Iterable[ModelEvent]) -> list[dict[str, Any]]:
    """Events of the log as a page shows them."""
    return [{"sequence": t.sequence, "kind": t.kind, **t.data} for t in map(told_of, found)]
