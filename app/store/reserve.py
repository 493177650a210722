"""Disk reserve: a file beside a SQLite database that is removed to make room when the disk is full.

A deletion has to write a little before it frees anything, which a full disk refuses. Postgres keeps its
database elsewhere and preallocates its log; docs/deploy.md describes what to do there.
"""

import contextlib
import os
import shutil
from pathlib import Path

from sqlalchemy import Engine

RESERVE_BYTES = 16 * 1024 * 1024  # a few times the size of SQLite's log before a checkpoint
FULL = 1024 * 1024  # free bytes below which most changes are refused; deletions have the reserve
PLENTY = 4 * RESERVE_BYTES  # free bytes required before a reserve is made


def keep(engine: Engine) -> None:
    """Create the reserve unless it exists or the disk has too little room."""
    file = _file(engine)
    if file is None or file.exists() or shutil.disk_usage(file.parent).free < PLENTY:
        return
    partial = file.with_name(f"{file.name}-{os.getpid()}")
    with contextlib.suppress(OSError):  # the disk filled up meanwhile; try again later
        try:
            with partial.open("xb", buffering=0) as opened:
                _fill(opened.fileno())
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)


def release_if_full(engine: Engine) -> None:
    """Remove the reserve when less than its size is free; call this while nobody else can write."""
    file = _file(engine)
    if file is not None and shutil.disk_usage(file.parent).free < RESERVE_BYTES:
        file.unlink(missing_ok=True)


def is_full(engine: Engine) -> bool:
    """Tell whether the disk of a SQLite database has no room left for changes."""
    file = _file(engine)
    return file is not None and shutil.disk_usage(file.parent).free < FULL


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
