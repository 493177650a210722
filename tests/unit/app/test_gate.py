"""`app.api.gate`: as many at once as there are cores, the others wait a bounded time."""

import threading
import time

import anyio
import pytest
from anyio.to_thread import current_default_thread_limiter

from app.api.access import MAX_WAITING as MAX_IN_LINE
from app.api.access import check_line
from app.api.gate import MAX_WAITING, Gate
from app.services.errors import BusyError


def test_no_more_at_once_than_cores():
    """Six pieces of work on two cores: never three at the same time, all done, off the event loop."""
    busy, most, threads = 0, 0, set()
    lock = threading.Lock()

    def work() -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        threads.add(threading.get_ident())
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


def test_who_would_wait_too_long_is_told_so():
    """BusyError with when to come back; afterwards the gate is open again, also after work that failed."""

    async def main() -> None:
        gate = Gate(1, wait_seconds=0.05)
        async with anyio.create_task_group() as group:
            group.start_soon(gate.run, lambda: time.sleep(0.3))
            await anyio.sleep(0.01)
            with pytest.raises(BusyError) as caught:
                await gate.run(lambda: None)
            assert caught.value.retry_after is not None
        with pytest.raises(ZeroDivisionError):
            await gate.run(lambda: 1 // 0)
        assert await gate.run(lambda: 5) == 5

    anyio.run(main)


def test_the_line_is_bounded():
    """Beyond its length nobody waits at all: each one in line keeps its request in memory."""
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


def test_a_full_line_is_not_joined():
    """While many wait for a thread a new request is told to come back; when they are through it is let in."""

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
