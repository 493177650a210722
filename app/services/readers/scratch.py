"""Temporary files that are deleted when the reading of a table ends."""

import errno
import io
import os
from contextlib import ExitStack
from tempfile import TemporaryFile, gettempdir
from typing import Any, BinaryIO, cast


def free_bytes() -> int:
    """Return the bytes that are free on the temporary disk."""
    found = os.statvfs(gettempdir())
    return found.f_bavail * found.f_frsize


class Scratch(ExitStack):
    """A context that closes the files created in it.

    Parameters
    ----------
    leave
        Bytes of the disk that writing to the files leaves free, for others.
    """

    def __init__(self, leave: int = 0) -> None:
        super().__init__()
        self._leave = leave

    def file(self) -> BinaryIO:
        """Create a file without a name; writing raises OSError (ENOSPC) when the disk has too little room."""
        with TemporaryFile() as plain:
            raw = _Sparing(os.dup(plain.fileno()), self._leave)
        return cast("BinaryIO", self.enter_context(io.BufferedRandom(raw)))


class _Sparing(io.FileIO):
    """File that doesn't take the last bytes of its disk."""

    def __init__(self, descriptor: int, leave: int) -> None:
        super().__init__(descriptor, "r+")
        self._leave = leave

    def write(self, data: Any, /) -> int:
        found = os.fstatvfs(self.fileno())
        if found.f_bavail * found.f_frsize - len(data) < self._leave:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)
