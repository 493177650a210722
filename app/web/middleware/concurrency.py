"""Concurrency limit for CPU-bound work: threads, a bounded queue, fair shares, cancellation on disconnect."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio
from starlette.requests import Request
from starlette.types import Receive

from app.services.access.quotas import Turns
from app.services.errors import AbandonedError, BusyError
from app.services.fair_line import FairLine, Waiting
from app.services.metrics import predict_inflight
from app.services.request_context import actor
from sampler.host.cores import count_cores
from sampler.host.data import interrupt

log = logging.getLogger(__name__)
T = TypeVar("T")
WAIT_SECONDS = 5.0  # longest wait for a core before a 503
PAGE_SECONDS = 60.0  # the same of a page or chart, which a person waits for while the browser says so
MAX_WAITING = 100  # queued requests of an owner, each kept in memory
RETRY_SECONDS = 2
PAGES = "/ui/"
# Work that takes longer is watched for its client's disconnect. Most predictions end earlier, and the tasks
# that watch one would cost as much as its computation.
UNWATCHED_SECONDS = 0.03


class SharedPlaces:
    """Places that owners share, of which one alone never holds all (`FairLine`); for the event loop."""

    def __init__(self, places: int, most: int, wait_seconds: float = WAIT_SECONDS) -> None:
        self._line: FairLine[anyio.Event] = FairLine(places)
        self._most = most
        self._wait_seconds = wait_seconds

    @asynccontextmanager
    async def place(self, owner: str | None = None, *, of_page: bool = False) -> AsyncIterator[None]:
        """Hold one of the places during a block, for the actor's owner or another name.

        What a page shows waits longer, and before what its owner's earlier pages still wait for.

        Raises
        ------
        BusyError
            No place became free in time, or too many of the owner's requests wait for one.
        """
        owner = actor().owner if owner is None else owner
        waiting = Waiting(owner, self._most, anyio.Event(), of_page)
        if sum(each.owner == owner for each in self._line.waiting) >= MAX_WAITING:
            raise _busy()
        self._line.join(waiting)
        try:
            if not waiting.turn.is_set():
                try:
                    with anyio.fail_after(max(self._wait_seconds, PAGE_SECONDS * of_page)):
                        await waiting.turn.wait()
                except TimeoutError:
                    if not waiting.turn.is_set():
                        raise _busy() from None
            yield
        finally:
            # A request may be cancelled between its turn and the work: then too its place becomes free.
            self._line.leave(waiting)


class Gate(SharedPlaces):
    """Limits concurrent work, each owner to as many threads as there are cores; for the event loop.

    There is one place more than cores, so that one owner never holds all of them: another owner's work shares
    the cores at once.
    """

    def __init__(self, cores: int | None = None, wait_seconds: float = WAIT_SECONDS) -> None:
        self._cores = cores or count_cores()
        super().__init__(self._cores + 1, self._cores, wait_seconds)
        self._turns = Turns()
        # A pool of its own, since the shared one may be full of other requests.
        self._threads = ThreadPoolExecutor(self._cores + 1, "gate")
        # Lent to work that has the gate to itself, one at a time.
        self._spare = None if self._cores < 2 else ThreadPoolExecutor(1, "spare")
        self._is_lent = False

    async def run(self, work: Callable[[], T], request: Request | None = None, *, of_page: bool = False) -> T:
        """Run `work` in a thread and return its result; cancel it when the client of `request` disconnects.

        That of a page waits as `place` says.

        Raises
        ------
        QuotaError, BusyError
            The owner runs too much work; no place became free in time.
        AbandonedError
            The client has disconnected.
        """
        with self._turns.turn(), predict_inflight.track_inprogress():
            flag = interrupt.StopFlag()
            if request is None or self._is_free(actor().owner):
                return await self._run(work, flag, request, of_page=of_page)
            waits = partial(self._run, work, flag, of_page=of_page)
            return await while_wanted(waits, flag, request.receive)

    def run_here(self, work: Callable[[], T]) -> T:
        """Run `work` that takes about a millisecond at once, in the event loop; raise QuotaError as `run`."""
        with self._turns.turn(), predict_inflight.track_inprogress():
            return work()

    async def _run(
        self,
        work: Callable[[], T],
        flag: interrupt.StopFlag,
        request: Request | None = None,
        *,
        of_page: bool,
    ) -> T:
        """Run `work` at a place; `request`, if given, is watched once the work has taken a while."""
        async with self.place(of_page=of_page):
            spare = self._lend()

            def flagged() -> T:
                with interrupt.by(flag, spare):
                    return work()

            running = asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, flagged)

            if spare is not None:
                running.add_done_callback(self._take_back)

            async def end() -> T:
                await asyncio.wait({running})
                return running.result()

            try:
                if request is None:
                    return await end()
                await asyncio.wait({running}, timeout=UNWATCHED_SECONDS)
                return running.result() if running.done() else await while_wanted(end, flag, request.receive)
            finally:
                if not running.done():  # the request was cancelled: its place is free when its thread is
                    flag.set()
                    with anyio.CancelScope(shield=True):
                        await asyncio.wait({running})
                # Retrieved even when the work ended before its cancellation came: else asyncio logs it.
                failure = None if running.cancelled() else running.exception()
                is_unseen = failure is not None and flag.is_set()  # else its caller gets it
                if is_unseen and not isinstance(failure, interrupt.InterruptedWorkError):
                    log.error("Work failed whose client had gone.", exc_info=failure)

    def _lend(self) -> ThreadPoolExecutor | None:
        """Return the spare thread for work that has just got the only taken place; None if it is lent."""
        if self._is_lent or self._line.waiting or self._line.taken.total() > 1:
            return None
        self._is_lent = self._spare is not None
        return self._spare

    def _take_back(self, _ended: object) -> None:
        self._is_lent = False

    def _is_free(self, owner: str) -> bool:
        """Tell whether a place is free for an owner's work now."""
        taken = self._line.taken
        return not self._line.waiting and taken.total() <= self._cores and taken[owner] < self._cores


@dataclass(frozen=True)
class GateOf:
    """The gate for the work of one request."""

    gate: Gate
    request: Request

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` and return its result; raises as `Gate.run`."""
        of_page = self.request.url.path.startswith(PAGES)
        return await self.gate.run(work, self.request, of_page=of_page)

    def run_here(self, work: Callable[[], T]) -> T:
        """Run short work at once; see `Gate.run_here`."""
        return self.gate.run_here(work)


async def while_wanted(answer: Callable[[], Awaitable[T]], flag: interrupt.StopFlag, receive: Receive) -> T:
    """Await an answer; set the flag and raise AbandonedError when the client disconnects.

    `receive` gives the messages of a request whose body has been read.
    """
    answers, failures = list[T](), list[Exception]()

    async with anyio.create_task_group() as group:

        async def ask() -> None:
            try:
                answers.append(await answer())
            except Exception as error:  # noqa: BLE001  re-raised below outside the group
                failures.append(error)
            group.cancel_scope.cancel()

        group.start_soon(ask)
        # The body has been read: the next message is the disconnect.
        while (await receive())["type"] != "http.disconnect":
            pass
        flag.set()
        group.cancel_scope.cancel()  # ends a queued one; a thread ends by its flag
    if failures and not flag.is_set():
        raise failures[0]
    if not answers:
        raise AbandonedError
    return answers[0]


def _busy() -> BusyError:
    return BusyError("There are too many requests at once; try again.", retry_after=RETRY_SECONDS)
