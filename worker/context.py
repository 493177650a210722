"""Context of a worker process: the settings, its worker, and its own engine."""

from dataclasses import dataclass, field

from sqlalchemy import Engine

from app.settings import Settings
from app.store.engine import TRANSACTION_SECONDS, make_engine
from app.store.queue.counters import Counts
from worker.places import MORE_PROCESSES, WorkPlaces


@dataclass
class Context:
    """One per process; the engine is created at first use and never crosses a fork."""

    settings: Settings
    worker_id: str
    forks: bool = True  # true in the worker's main process, false in its children
    counts: Counts = field(init=False)
    places: WorkPlaces = field(init=False)
    _engines: list[Engine] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Shared with the children, which are forked later.
        self.counts = Counts(self.settings.worker_slots + MORE_PROCESSES + 1)
        self.places = WorkPlaces(self.settings.worker_slots)

    @property
    def engine(self) -> Engine:
        """A small engine, since a process runs one unit at a time."""
        if not self._engines:
            engine = make_engine(
                self.settings.database_url,
                pool_size=1,
                max_overflow=1,
                forks=self.forks,
                transaction_seconds=min(TRANSACTION_SECONDS, self.settings.lease_seconds),
            )
            self._engines.append(engine)
        return self._engines[0]

    def after_fork(self, number: int) -> None:
        """In child `number`, drop the parent's connections without closing them."""
        self.forks = False
        self.counts.part = self.places.own = 1 + number
        self.places.leave()  # clears the entry of a dead predecessor
        while self._engines:
            self._engines.pop().dispose(close=False)

    def close(self) -> None:
        """Close the connections."""
        while self._engines:
            self._engines.pop().dispose()


_current: list[Context] = []


def enter(context: Context) -> None:
    """Make this the context of the process (and, by forking, of its children)."""
    _current[:] = [context]


def current() -> Context:
    """Return the context of this process."""
    return _current[0]
