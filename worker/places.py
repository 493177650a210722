"""What the processes of one worker are at, in memory that they share.

A worker never claims a unit that a process of its own still runs, however late that unit's signs of life are;
and it runs at most so many chains as it has slots, while it has one process more: finishes and predictions,
which are short, need not wait for a chain to end.
"""

import fcntl
import mmap
import os
import struct
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.store.tables import CHAIN

_RECORD = struct.Struct("q?40s")  # the process, whether it is at a chain, the unit's id


class Places:
    """One place for each process; a place whose process has died is free.

    Parameters
    ----------
    slots
        Chains worked on at once; there is one place more than that, and one for the main process.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.own = 0  # the number of this process's place
        self._count = slots + 2
        self._memory = mmap.mmap(-1, self._count * _RECORD.size)
        self._lock, path = tempfile.mkstemp()
        Path(path).unlink()  # the descriptor is all that is needed
        weakref.finalize(self, os.close, self._lock)

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """One process of the worker claims at a time; the kernel lets the lock go when its holder dies."""
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def take(self, unit_id: str, kind: str) -> None:
        """Note that this process is at that unit."""
        self._write(os.getpid(), unit_id, kind)

    def leave(self) -> None:
        """Note that this process is at nothing."""
        self._write(0, "", "")

    def busy(self) -> list[str]:
        """The ids of the units that living processes of this worker are at."""
        return [unit_id for unit_id, _ in self._taken()]

    def free_slots(self) -> int:
        """How many more chains this worker may run."""
        return max(0, self.slots - sum(is_chain for _, is_chain in self._taken()))

    def _taken(self) -> list[tuple[str, bool]]:
        records = [_RECORD.unpack_from(self._memory, k * _RECORD.size) for k in range(self._count)]
        return [
            (unit_id.rstrip(b"\0").decode(), is_chain)
            for pid, is_chain, unit_id in records
            if pid and _lives(pid)
        ]

    def _write(self, pid: int, unit_id: str, kind: str) -> None:
        place = self.own % self._count * _RECORD.size
        _RECORD.pack_into(self._memory, place, pid, kind == CHAIN, unit_id.encode())


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
