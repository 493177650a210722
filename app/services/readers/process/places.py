"""Places for confined readers: few at once, shared among owners."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.services.errors import BusyError
from app.services.fair_line import FairLine, Waiting
from app.services.request_context import actor

RETRY_SECONDS = 5


class ReaderPlaces:
    """Places for readers; a few more files wait. Thread-safe.

    Where owners share the process, one owner never holds the last of several places, nor fills more than half
    of the line (`FairLine`).

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
        self._line: FairLine[threading.Event] = FairLine(at_once)

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

    def _queue(self) -> Waiting[threading.Event]:
        owner, shared = actor().owner, actor().limits.shared
        most = max(self._at_once - 1, 1) if shared else self._at_once
        waiting = Waiting(owner, most, threading.Event())
        with self._lock:
            self._line.join(waiting)
            if waiting.turn.is_set():
                return waiting
            mine = sum(each.owner == owner for each in self._line.waiting)
            full = len(self._line.waiting) > self._most_waiting
            if full or (shared and mine > self._most_waiting // 2):
                self._line.leave(waiting)
                raise _busy()
        return waiting

    def _leave(self, waiting: Waiting[threading.Event]) -> None:
        with self._lock:
            self._line.leave(waiting)


def _busy() -> BusyError:
    return BusyError("Too many files are being read; try again.", retry_after=RETRY_SECONDS)
