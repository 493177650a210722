"""What a process of the worker knows: the settings, the worker it belongs to, its own engine."""

from dataclasses import dataclass, field

from sqlalchemy import Engine

from app.settings import Settings
from app.store.engine import TRANSACTION_SECONDS, make_engine
from app.store.queue.counters import Counts
from worker.places import Places


@dataclass
class Context:
    """One per process; the engine is made at first use and never crosses a fork."""

    settings: Settings
    worker_id: str
    forks: bool = True  # true in the worker's main process, false in its children
    counts: Counts = field(init=False)
    places: Places = field(init=False)
    _engines: list[Engine] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Shared with the children, who are forked later: one for each slot, and one more.
        self.counts = Counts(self.settings.worker_slots + 2)
        self.places = Places(self.settings.worker_slots)

    @property
    def engine(self) -> Engine:
        """A small engine: units in a process come one after the other."""
        if not self._engines:
            made = make_engine(
                self.settings.database_url,
                pool_size=1,
                max_overflow=1,
                forks=self.forks,
                transaction_seconds=min(TRANSACTION_SECONDS, self.settings.lease_seconds),
            )
            self._engines.append(made)
        return self._engines[0]

    def after_fork(self, number: int) -> None:
        """In the child of that number: forget the parent's connections without closing them."""
        self.forks = False
        self.counts.part = self.places.own = 1 + number
        self.places.leave()  # where one that died was at something
        while self._engines:
            self._engines.pop().dispose(close=False)

    def close(self) -> None:
        """Close the connections."""
        while self._engines:
            self._engines.pop().dispose()


_current: list[Context] = []


def enter(context: Context) -> None:
    """Make it this process's context (and, by forking, its children's)."""
    _current[:] = [context]


def current() -> Context:
    """The context of this process."""
    return _current[0]
