"""Room for deleting on a full disk: a file beside a SQLite database, of no use but to be let go.

A deletion writes a little before anything is free, which a full disk refuses. Postgres keeps its database
elsewhere and its log in files made beforehand; docs/deploy.md says what to do there.
"""

import contextlib
import os
import shutil
from pathlib import Path

from sqlalchemy import Engine

RESERVE_BYTES = 16 * 1024 * 1024  # a few times what SQLite keeps in its log before it moves it
PLENTY = 4 * RESERVE_BYTES  # free on the disk, for a reserve to be made


def keep(engine: Engine) -> None:
    """Make the reserve unless it is there, or the disk has too little room for it."""
    file = _file(engine)
    if file is None or file.exists() or shutil.disk_usage(file.parent).free < PLENTY:
        return
    made = file.with_name(f"{file.name}-{os.getpid()}")
    with contextlib.suppress(OSError):  # there was room a moment ago: another time
        try:
            with made.open("xb", buffering=0) as opened:
                _fill(opened.fileno())
            made.replace(file)
        finally:
            made.unlink(missing_ok=True)


def let_go_if_full(engine: Engine) -> None:
    """Remove the reserve when less than it is free; to be called while no other may write."""
    file = _file(engine)
    if file is not None and shutil.disk_usage(file.parent).free < RESERVE_BYTES:
        file.unlink(missing_ok=True)


def _file(engine: Engine) -> Path | None:
    name = engine.url.database
    if engine.dialect.name != "sqlite" or not name or name == ":memory:":
        return None
    return Path(f"{name}-reserve")


def _fill(descriptor: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        return
    block = bytes(1024 * 1024)
    for _ in range(RESERVE_BYTES // len(block)):
        os.write(descriptor, block)
