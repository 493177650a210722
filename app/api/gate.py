"""Work that takes a core: in threads, as many at once as there are cores, a bounded wait for others."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
from anyio import to_thread

from app.services.errors import BusyError
from app.services.metrics import predict_inflight
from app.services.quotas import Turns

T = TypeVar("T")
WAIT_SECONDS = 5.0  # for a core; whoever would wait longer is told to come back
MAX_WAITING = 200  # in line at once: each keeps its request in memory
RETRY_SECONDS = 2


class Gate:
    """Lets `cores` callers work at once, of each owner as many as may be; to be made in the event loop."""

    def __init__(self, cores: int | None = None, wait_seconds: float = WAIT_SECONDS) -> None:
        cores = cores or len(os.sched_getaffinity(0))
        self._turns = Turns()
        self._places = anyio.Semaphore(cores)
        self._threads = anyio.CapacityLimiter(
            cores
        )  # of our own: the shared pool may be full of other requests
        self._wait_seconds = wait_seconds

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, run in a thread; raises QuotaError for whom too much runs, and as `place`."""
        with self._turns.turn(), predict_inflight.track_inprogress():
            async with self.place():
                return await to_thread.run_sync(work, limiter=self._threads)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One of the places, for the length of a block.

        Raises
        ------
        BusyError
            None came free in time.
        """
        if self._places.statistics().tasks_waiting >= MAX_WAITING:
            raise _busy()
        try:
            with anyio.fail_after(self._wait_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise _busy() from None
        try:
            yield
        finally:
            self._places.release()


def _busy() -> BusyError:
    return BusyError("Too much is asked for at once; try again.", retry_after=RETRY_SECONDS)
