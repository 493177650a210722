"""Files on the disk that go when the reading of a table ends."""

from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import BinaryIO


class Scratch(ExitStack):
    """A context that closes the files made in it."""

    def file(self) -> BinaryIO:
        """A new file without a name."""
        return self.enter_context(TemporaryFile())
