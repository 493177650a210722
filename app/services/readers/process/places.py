"""Places for confined readers: few at once, shared among owners."""

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from app.services.errors import BusyError
from app.services.request_context import actor

RETRY_SECONDS = 5


@dataclass(eq=False)
class _Waiting:
    """A file that waits for a place."""

    owner: str
    most: int  # places that its owner may have
    turn: threading.Event = field(default_factory=threading.Event)


class ReaderPlaces:
    """Places for readers; a few more files wait. Thread-safe.

    Where owners have quotas, one owner never holds the last of several places, nor fills more than half of
    the line. A free place goes to the owner with the fewest, among equals to the one whose last turn is
    longest ago.

    Parameters
    ----------
    at_once
        Number of places.
    most_waiting
        Maximum of waiting files.
    """

    def __init__(self, at_once: int, most_waiting: int) -> None:
        self._at_once, self._most_waiting = at_once, most_waiting
        self._lock = threading.Lock()
        self._line: deque[_Waiting] = deque()
        self._taken: Counter[str] = Counter()
        self._turned: dict[str, int] = {}  # the number of each active owner's last turn
        self._number = 0

    @contextmanager
    def place(self, seconds: float) -> Iterator[None]:
        """Hold a place for the current actor during a block.

        Raises
        ------
        BusyError
            The line is full, or no place became free within that many seconds.
        """
        waiting = self._queue()
        try:
            if not waiting.turn.wait(seconds):
                raise _busy()
            yield
        finally:
            self._leave(waiting)

    def _queue(self) -> _Waiting:
        owner, limited = actor().owner, actor().limits.predictions is not None
        waiting = _Waiting(owner, max(self._at_once - 1, 1) if limited else self._at_once)
        with self._lock:
            self._line.append(waiting)
            self._admit()
            if waiting.turn.is_set():
                return waiting
            mine = sum(each.owner == owner for each in self._line)
            if len(self._line) > self._most_waiting or (limited and mine > self._most_waiting // 2):
                self._line.remove(waiting)
                raise _busy()
        return waiting

    def _leave(self, waiting: _Waiting) -> None:
        with self._lock:
            if waiting.turn.is_set():
                self._taken[waiting.owner] -= 1
            else:
                self._line.remove(waiting)
            self._admit()
            if not self._taken[waiting.owner]:
                del self._taken[waiting.owner]
                if all(each.owner != waiting.owner for each in self._line):
                    self._turned.pop(waiting.owner, None)

    def _admit(self) -> None:
        while self._taken.total() < self._at_once:
            may = [each for each in self._line if self._taken[each.owner] < each.most]
            if not may:
                return
            chosen = min(may, key=lambda each: (self._taken[each.owner], self._turned.get(each.owner, 0)))
            self._line.remove(chosen)
            self._taken[chosen.owner] += 1
            self._number += 1
            self._turned[chosen.owner] = self._number
            chosen.turn.set()


def _busy() -> BusyError:
    return BusyError("Too many files are being read; try again.", retry_after=RETRY_SECONDS)
