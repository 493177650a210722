"""`app.web.middleware.concurrency`: at most one piece of work per core; others wait for a limited time."""

import asyncio
import gc
import threading
import time
from functools import partial

import anyio
import pytest
from anyio.to_thread import current_default_thread_limiter

from app.services.errors import AbandonedError, BusyError, QuotaError
from app.services.request_context import Actor, OwnerLimits, acting
from app.web.middleware.auth import MAX_WAITING as MAX_IN_LINE
from app.web.middleware.auth import check_line
from app.web.middleware.concurrency import MAX_WAITING, Gate
from sampler import interrupt


def test_no_more_at_once_than_cores():
    """At most two of six pieces of work run at a time on two cores; all finish, off the event loop."""
    busy, most, threads = 0, 0, set()
    lock, two = threading.Lock(), threading.Barrier(2)

    def work() -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        threads.add(threading.get_ident())
        two.wait(60)
        time.sleep(0.02)
        with lock:
            busy -= 1

    async def main() -> None:
        gate = Gate(2)
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(gate.run, work)

    anyio.run(main)

    assert most == 2
    assert threading.get_ident() not in threads


def test_short_work_runs_in_the_event_loop_and_counts():
    """In the caller's thread, refused beyond the owner's number of predictions at once."""
    gate = Gate(2)
    assert gate.run_here(threading.get_ident) == threading.get_ident()
    with acting(Actor("someone", "owner", limits=OwnerLimits(predictions=1))):
        assert gate.run_here(lambda: 5) == 5
        with pytest.raises(QuotaError):
            gate.run_here(lambda: gate.run_here(lambda: 5))
        assert gate.run_here(lambda: 6) == 6


def test_work_that_would_wait_too_long_is_refused():
    """Work that would wait too long gets BusyError with a retry time; afterwards work is admitted again."""

    async def main() -> None:
        gate, go_on = Gate(1, wait_seconds=0.05), threading.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(gate.run, partial(go_on.wait, 20))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(BusyError) as caught:
                await gate.run(lambda: None)
            assert caught.value.retry_after is not None
            go_on.set()
        with pytest.raises(ZeroDivisionError):
            await gate.run(lambda: 1 // 0)
        assert await gate.run(lambda: 5) == 5

    anyio.run(main)


def test_one_owner_never_has_every_place():
    """One owner's long work never takes every place: another owner's short work runs at once."""
    go_on = threading.Event()
    most, busy, lock = 0, 0, threading.Lock()

    def long() -> None:
        nonlocal most, busy
        with lock:
            busy += 1
            most = max(most, busy)
        go_on.wait(60)
        with lock:
            busy -= 1

    async def main() -> None:
        gate = Gate(2)

        async def ask(owner: str, work) -> None:
            with acting(Actor(owner, owner)):
                await gate.run(work)

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(ask, "ann", long)
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(60):
                await ask("bob", lambda: None)
                while busy < 2:  # noqa: ASYNC110  its threads may start later
                    await anyio.sleep(0.01)
            go_on.set()

    anyio.run(main)

    assert most == 2


def test_the_owner_with_fewest_places_is_next():
    """The owner with the fewest running pieces is served next, whatever the order of arrival."""
    order: list[str] = []

    async def main() -> None:
        gate, go_on = Gate(1), anyio.Event()

        async def ask(owner: str) -> None:
            with acting(Actor(owner, owner)):
                async with gate.place():
                    order.append(owner)
                    await go_on.wait()

        async with anyio.create_task_group() as group:
            for owner in ["ann"] * 4 + ["bob", "bob", "eve"]:
                group.start_soon(ask, owner)
                await anyio.wait_all_tasks_blocked()
            assert order == ["ann", "bob"]
            go_on.set()

    anyio.run(main)

    assert order[2] == "eve"
    assert sorted(order) == ["ann"] * 4 + ["bob", "bob", "eve"]


class _Hangs:
    """A request whose client disconnects after a moment; the event loop is then busy for `busy` seconds."""

    def __init__(self, busy: float = 0.0) -> None:
        self._busy = busy

    async def receive(self) -> dict[str, str]:
        await anyio.sleep(0.05)
        asyncio.get_running_loop().call_soon(time.sleep, self._busy)
        return {"type": "http.disconnect"}


@pytest.mark.parametrize("busy", [0.0, 0.2])
def test_work_ends_when_its_client_goes(caplog, busy):
    """After a disconnect work stops unlogged at its next check, its place is free, queued work is removed.

    Work may also end before the loop gets to cancelling its request (`busy`).
    """
    pieces = 0

    def work() -> None:
        nonlocal pieces
        while pieces < 1000:
            interrupt.look()
            time.sleep(0.01)
            pieces += 1

    async def main() -> None:
        gate = Gate(1)
        with pytest.raises(AbandonedError):
            await gate.run(work, _Hangs(busy))
        assert pieces < 500
        assert await gate.run(lambda: 5) == 5
        go_on = threading.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(gate.run, partial(go_on.wait, 20))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(AbandonedError):
                await gate.run(lambda: None, _Hangs())
            assert not gate._line.waiting
            go_on.set()

    anyio.run(main)
    gc.collect()  # an exception that nobody asked for is logged when its future is collected
    assert caplog.records == []


def test_errors_of_work_reach_its_caller():
    """An exception of the work reaches the caller unchanged while the client stays connected."""

    class Stays:
        async def receive(self) -> dict[str, str]:
            await anyio.sleep_forever()

    async def main() -> None:
        gate = Gate(1)
        with pytest.raises(ZeroDivisionError):
            await gate.run(lambda: 1 // 0, Stays())
        assert await gate.run(lambda: 5, Stays()) == 5

    anyio.run(main)


def test_the_queue_is_bounded():
    """Work beyond the queue's length is refused at once, since queued requests take memory."""
    refused = 0

    async def main() -> None:
        gate = Gate(1, wait_seconds=5)

        async def ask() -> None:
            nonlocal refused
            try:
                await gate.run(lambda: time.sleep(0.001))
            except BusyError:
                refused += 1

        async with anyio.create_task_group() as group:
            for _ in range(MAX_WAITING + 11):
                group.start_soon(ask)

    anyio.run(main)

    assert refused == 10


def test_a_full_queue_of_threads_refuses_requests():
    """New requests get a 503 while the queue for threads is full, and are admitted afterwards."""

    async def main() -> None:
        limiter, go_on = current_default_thread_limiter(), threading.Event()
        limiter.total_tokens = 1
        async with anyio.create_task_group() as group:
            for _ in range(MAX_IN_LINE + 1):
                group.start_soon(anyio.to_thread.run_sync, go_on.wait)
            with anyio.fail_after(60):
                while limiter.statistics().tasks_waiting < MAX_IN_LINE:  # noqa: ASYNC110  it has no event
                    await anyio.sleep(0.01)
            with pytest.raises(BusyError) as caught:
                check_line()
            assert caught.value.retry_after is not None
            go_on.set()
        check_line()

    anyio.run(main)


def test_a_request_cancelled_at_its_turn_frees_its_place():
    """Clients that disconnect just as their turn comes take no place with them, waiting or not."""

    async def main() -> None:
        gate = Gate(1, wait_seconds=0.05)
        for _ in range(3):  # more than there are places
            with anyio.CancelScope() as gone:
                gone.cancel()  # noticed by the first wait, whose place is free
                await gate.run(lambda: None)
        async with anyio.create_task_group() as group:
            group.start_soon(gate.run, lambda: time.sleep(0.02))
            await anyio.sleep(0.01)
            with anyio.move_on_after(0.005):  # while it waits in line
                await gate.run(lambda: None)
        assert await gate.run(lambda: 5) == 5

    anyio.run(main)


def test_work_alone_is_lent_a_thread():
    """Work that has the gate to itself computes blocks ahead in another thread; work beside it doesn't."""
    entered, go_on = threading.Event(), threading.Event()

    def threads() -> set[int]:
        thread_ids = {thread for _, thread in interrupt.ahead(lambda _: threading.get_ident(), range(3))}
        return thread_ids - {threading.get_ident()}

    def first() -> set[int]:
        entered.set()
        go_on.wait(20)
        return threads()

    async def main() -> None:
        gate, lent = Gate(2), []

        async def ask() -> None:
            lent.append(await gate.run(first))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.to_thread.run_sync(entered.wait, 20)
            assert await gate.run(threads) == set()
            go_on.set()
        assert len(lent[0]) == 1
        assert len(await gate.run(threads)) == 1  # it was given back

    anyio.run(main)


def test_the_page_asked_for_last_is_next_and_waits_longer():
    """Figures of pages wait beyond the limit of other work, and come before those of earlier pages alone."""
    order: list[str] = []

    async def main() -> None:
        gate, go_on = Gate(1, wait_seconds=0.05), threading.Event()

        async def ask(name: str, of_page: bool) -> None:
            try:
                await gate.run(partial(order.append, name), of_page=of_page)
            except BusyError:
                order.append(f"{name} is refused")

        async with anyio.create_task_group() as group:
            group.start_soon(gate.run, partial(go_on.wait, 20))
            await anyio.wait_all_tasks_blocked()
            for name in ("first page", "second page", "program", "third page"):
                group.start_soon(ask, name, name != "program")
                await anyio.lowlevel.checkpoint()
            with anyio.fail_after(60):
                while not order:  # noqa: ASYNC110  nothing tells of the refusal
                    await anyio.sleep(0.01)
            go_on.set()

    anyio.run(main)

    assert order == ["program is refused", "third page", "second page", "first page"]
