"""Folder of machine code on disk, which many processes share.

Numba's own cache does not notice an edit in another file and breaks when several processes fill it at once.
So the folder is named by everything the machine code depends on; what compiles together is a group, which one
process fills under the group's lock, and a marker written last says that all of it is there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba

SOURCES = Path(__file__).parents[1]


@cache
def folder() -> Path:
    """Find the cache folder of exactly this code, numba and processor; make it if absent."""
    name = f"kernels-{_fingerprint()}"
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bartserve"
    with suppress(OSError):
        _make(base / name)
        return base / name
    fallback = Path(tempfile.gettempdir()) / f"bartserve-{os.getuid()}" / name
    _make(fallback)
    return fallback


def is_complete(group: str) -> bool:
    """Whether everything of a group is on disk."""
    return _marker(group).exists()


def mark_complete(group: str) -> None:
    """Mark a group as completely on disk."""
    partial = _marker(group).with_suffix(f".{os.getpid()}")
    partial.touch()
    partial.replace(_marker(group))


@contextmanager
def try_lock(group: str) -> Iterator[bool]:
    """Hold a group's lock; False if another process has it."""
    with (folder() / f"{group}.lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True  # closing the file lets the lock go


def forget() -> None:
    """Remove this code's cache folder (a broken one, or to measure a cold start)."""
    shutil.rmtree(folder(), ignore_errors=True)
    folder.cache_clear()


def _marker(group: str) -> Path:
    return folder() / f"{group}.complete"


def _make(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.stat().st_uid != os.getuid() or not os.access(path, os.W_OK):
        raise PermissionError(path)  # machine code is loaded from here: only from our own folder


def _fingerprint() -> str:
    """Hash of the sources and where they are (numba's files are named by it), of numba and the processor.

    Time stamps don't count: numba's index compares contents too (from 0.68 on), so what a checkout or a copy
    back wrote anew is not compiled again.
    """
    digest = hashlib.sha256()
    config: Any = numba.config  # its attributes are made at run time
    parts = [
        numba.__version__,
        llvmlite.__version__,
        # What numba compiles for: this processor, unless NUMBA_CPU_NAME and NUMBA_CPU_FEATURES say another.
        config.CPU_NAME or llvm.get_host_cpu_name(),
        config.CPU_FEATURES or llvm.get_host_cpu_features().flatten(),
    ]
    for path in sorted(SOURCES.glob("**/kernels/**/*.py")):
        parts += [str(path), path.read_text()]
    digest.update("\0".join(parts).encode())
    return digest.hexdigest()[:16]
