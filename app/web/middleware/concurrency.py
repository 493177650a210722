"""Work that takes a core: in threads, a bounded wait for others, fair shares, an end when nobody listens."""

import os
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from anyio import to_thread
from starlette.requests import Request

from app.services.access.quotas import Turns
from app.services.errors import AbandonedError, BusyError
from app.services.metrics import predict_inflight
from app.services.request_context import actor
from sampler import interrupt

T = TypeVar("T")
WAIT_SECONDS = 5.0  # for a core; whoever would wait longer is told to come back
MAX_WAITING = 200  # in line at once: each keeps its request in memory
RETRY_SECONDS = 2


class Gate:
    """Lets some callers work at once, each owner in as many threads as there are cores; for the event loop.

    There is one place more than cores, so that one owner never has all: another one's work shares the cores
    with it at once. Of those who wait the owner with the fewest places is next, among equals the one who had
    a turn the longest ago.
    """

    def __init__(self, cores: int | None = None, wait_seconds: float = WAIT_SECONDS) -> None:
        self._cores = cores or len(os.sched_getaffinity(0))
        self._turns = Turns()
        self._line: deque[_Waiting] = deque()
        self._taken: Counter[str] = Counter()
        self._turned: dict[str, int] = {}  # the number of each owner's last turn, as long as there is one
        self._number = 0
        # Of our own: the shared pool may be full of other requests.
        self._threads = anyio.CapacityLimiter(self._cores + 1)
        self._wait_seconds = wait_seconds

    async def run(self, work: Callable[[], T], request: Request | None = None) -> T:
        """The result of `work`, run in a thread; of a `request` whose client goes away it is given up.

        Raises
        ------
        QuotaError, BusyError
            Of this owner too much runs; no place came free in time.
        AbandonedError
            Nobody waits for the answer any more.
        """
        with self._turns.turn(), predict_inflight.track_inprogress():
            if request is None:
                return await self._run(work, interrupt.Flag())
            return await self._while_wanted(work, request)

    async def _run(self, work: Callable[[], T], flag: interrupt.Flag) -> T:
        def flagged() -> T:
            with interrupt.by(flag):
                return work()

        async with self.place():
            return await to_thread.run_sync(flagged, limiter=self._threads)

    async def _while_wanted(self, work: Callable[[], T], request: Request) -> T:
        flag, answers, failures = interrupt.Flag(), list[T](), list[Exception]()

        async with anyio.create_task_group() as group:

            async def answer() -> None:
                try:
                    answers.append(await self._run(work, flag))
                except Exception as error:  # noqa: BLE001  raised below, not as a group
                    failures.append(error)
                group.cancel_scope.cancel()

            group.start_soon(answer)
            # The body has been read: what comes next is the end of the connection.
            while (await request.receive())["type"] != "http.disconnect":
                pass
            flag.set()
            group.cancel_scope.cancel()  # of one in line; a thread ends by its flag
        if failures and not flag.is_set():
            raise failures[0]
        if not answers:
            raise AbandonedError
        return answers[0]

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One of the places, for the length of a block.

        Raises
        ------
        BusyError
            None came free in time.
        """
        waiting = _Waiting(actor().owner)
        if len(self._line) >= MAX_WAITING:
            raise _busy()
        self._line.append(waiting)
        self._admit()
        try:
            with anyio.fail_after(self._wait_seconds):
                await waiting.turn.wait()
        except TimeoutError:
            if not waiting.turn.is_set():
                raise _busy() from None
        finally:
            if not waiting.turn.is_set():
                self._line.remove(waiting)
        try:
            yield
        finally:
            self._taken[waiting.owner] -= 1
            self._admit()
            if not self._taken[waiting.owner]:
                del self._taken[waiting.owner]  # an owner who went away leaves nothing
                if all(each.owner != waiting.owner for each in self._line):
                    del self._turned[waiting.owner]

    def _admit(self) -> None:
        """Give free places to those in line."""
        while self._taken.total() <= self._cores:
            may = [each for each in self._line if self._taken[each.owner] < self._cores]
            if not may:
                return
            chosen = min(may, key=lambda each: (self._taken[each.owner], self._turned.get(each.owner, 0)))
            self._line.remove(chosen)
            self._taken[chosen.owner] += 1
            self._number += 1
            self._turned[chosen.owner] = self._number
            chosen.turn.set()


@dataclass(eq=False)
class _Waiting:
    """Someone in line."""

    owner: str
    turn: anyio.Event = field(default_factory=anyio.Event)


@dataclass(frozen=True)
class GateOf:
    """The gate, for the work of one request."""

    gate: Gate
    request: Request

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`; raises as `Gate.run`."""
        return await self.gate.run(work, self.request)


def _busy() -> BusyError:
    return BusyError("Too much is asked for at once; try again.", retry_after=RETRY_SECONDS)
