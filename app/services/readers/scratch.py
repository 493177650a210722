"""Temporary files that are deleted when the reading of a table ends."""

from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import BinaryIO


class Scratch(ExitStack):
    """A context that closes the files created in it."""

    def file(self) -> BinaryIO:
        """Create a file without a name."""
        return self.enter_context(TemporaryFile())
