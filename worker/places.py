"""Shared memory with the units that the processes of one worker are working on.

A worker never claims a unit that one of its own processes still runs, however late the unit's heartbeats are.
It runs at most as many chains, units of studies and totals as it has slots, but has two more processes.
Finishes and predictions, which are short, so don't wait for a long unit to end. Studies and totals don't
yield: where they hold slots, one of those processes may take a long unit of an owner with nothing running,
the other a chain of such an owner, which yields.
"""

import fcntl
import mmap
import os
import select
import struct
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.store.tables import CHAIN, LASTING_KINDS, LONG_KINDS

MORE_PROCESSES = 2  # a worker has so many processes more than slots
_RECORD = struct.Struct("q10s40s")  # process id, kind of the unit, unit id
_NUMBER = struct.Struct("q")  # of doorbells answered


class WorkPlaces:
    """One place per process; the place of a dead process is free.

    Parameters
    ----------
    slots
        Maximum of concurrent long units, but for those beside units that don't yield; there are two more
        places, and one for the main process.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.own = 0  # index of this process's place
        self._count = slots + MORE_PROCESSES + 1
        self._memory = mmap.mmap(-1, self._count * _RECORD.size + _NUMBER.size)
        self._lock, path = tempfile.mkstemp()
        Path(path).unlink()  # only the descriptor is needed
        self._ends, self._end = os.pipe()  # a byte in it wakes the dispatcher
        for descriptor in (self._ends, self._end):
            os.set_blocking(descriptor, False)
        for descriptor in (self._lock, self._ends, self._end):
            weakref.finalize(self, os.close, descriptor)

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """Hold the lock for claims, one process of the worker at a time; the kernel releases it at death."""
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            _NUMBER.pack_into(self._memory, self._count * _RECORD.size, self.answered() + 1)
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def answered(self) -> int:
        """Return how often processes of this worker looked for a unit, as they do at each doorbell."""
        return int(_NUMBER.unpack_from(self._memory, self._count * _RECORD.size)[0])

    def take(self, unit_id: str, kind: str) -> None:
        """Record that this process works on a unit."""
        self._write(os.getpid(), unit_id, kind)

    def leave(self) -> None:
        """Record that this process is idle."""
        self._write(0, "", "")

    def wake(self) -> None:
        """Wake the worker's dispatcher, from any of its processes or a signal handler."""
        with suppress(BlockingIOError):  # it has been woken many times
            os.write(self._end, b"\0")

    def sleep(self, seconds: float) -> None:
        """Sleep for so long, or until woken."""
        if select.select([self._ends], [], [], seconds)[0]:
            os.read(self._ends, select.PIPE_BUF)

    def busy(self) -> list[str]:
        """Return the ids of the units that other living processes of this worker are working on."""
        return [unit_id for unit_id, _ in self._busy_places()]

    def free_slots(self) -> int:
        """Return the number of long units that this process may add to those of others."""
        return max(0, self.slots - len(self._long_kinds()))

    def kinds_beside(self) -> tuple[str, ...]:
        """Return the kinds of long units that an owner with nothing running may have beside full slots."""
        kinds = self._long_kinds()
        if not {*LASTING_KINDS}.intersection(kinds) or len(kinds) < self.slots:
            return ()
        return {0: LONG_KINDS, 1: (CHAIN,)}.get(len(kinds) - self.slots, ())

    def _long_kinds(self) -> list[str]:
        return [kind for _, kind in self._busy_places() if kind in LONG_KINDS]

    def _busy_places(self) -> list[tuple[str, str]]:
        """Return id and kind of each unit that others work on: its own is done when a process claims."""
        others = (k for k in range(self._count) if k != self.own % self._count)
        records = [_RECORD.unpack_from(self._memory, k * _RECORD.size) for k in others]
        return [
            (unit_id.rstrip(b"\0").decode(), kind.rstrip(b"\0").decode())
            for pid, kind, unit_id in records
            if pid and _lives(pid)
        ]

    def _write(self, pid: int, unit_id: str, kind: str) -> None:
        place = self.own % self._count * _RECORD.size
        _RECORD.pack_into(self._memory, place, pid, kind.encode(), unit_id.encode())


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
