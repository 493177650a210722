"""Celery's process pool, made robust against the death of any child.

Where the broker has no event loop (the embedded one), all children read tasks from one pipe and write results
to another, under semaphores. A child killed while it holds a semaphore, which an idle child always does,
never releases it, so no other child would receive a task again.
"""

import fcntl
import tempfile
from typing import Any, Self

from billiard.pool import Pool
from celery.concurrency.prefork import TaskPool


class _Lock:
    """A lock between processes, not threads; the kernel releases it when its holder dies."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the pool

    def acquire(self, *_: Any) -> bool:
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class _LastingPool(Pool):  # type: ignore[misc]  # billiard has no types
    def _setup_queues(self) -> None:
        super()._setup_queues()
        self._inqueue._rlock = _Lock()  # noqa: SLF001  made there
        self._outqueue._wlock = _Lock()  # noqa: SLF001


class LastingTaskPool(TaskPool):  # type: ignore[misc]
    """Celery's prefork pool; with a broker that has an event loop, each child has its own pipes."""

    BlockingPool = _LastingPool
