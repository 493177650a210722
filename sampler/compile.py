"""Compiled kernels: the one decorator with numba's flags, and a disk cache that many processes may share.

numba's own cache does not notice an edit in another file and breaks when several processes fill it at once.
So the folder is named by everything the machine code depends on, one process fills it under a file lock while
the others wait, and a marker written last says that all of it is there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import llvmlite
import llvmlite.binding as llvm
import numba
from numba import cfunc, njit
from numba import config as _config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

F = TypeVar("F", bound="Callable[..., Any]")
config: Any = _config  # its attributes are made at run time
numba_jit: Any = njit  # its private options are not in its types

MARKER = "complete"
KERNELS = Path(__file__).parent / "kernels"
WAIT_SECONDS = 0.5  # between looks at a lock that another process holds

_registry: list[_Entry] = []
_lock = threading.RLock()
_state: dict[str, Any] = {"loaded": False}


@dataclass
class _Entry:
    """One kernel of one signature; `pointer` kernels are called through their address."""

    name: str
    function: Any
    signature: Any
    pointer: bool
    compiled: Any = None

    def build(self) -> None:
        if self.compiled is not None:
            return
        if self.pointer:
            with _cache_folder():
                self.compiled = cfunc(self.signature, cache=True, error_model="numpy")(self.function)
        else:
            self.function.compile(self.signature)
            self.function.disable_compile()
            self.compiled = self.function


def kernel(signature: Any, *, inline: bool = False, allocates: bool = True) -> Callable[[F], F]:
    """Compile a function for one signature (of `kernels.shapes`' types): serial, no GIL, no fast maths.

    Nothing is compiled here but by `warm`; called before it, a kernel compiles for the types it meets.
    `inline` puts it into its callers whole: passing a tuple of arrays costs a hundred machine words. A
    kernel that makes no array says so with `allocates=False` and counts no references: those atomic counts
    took more than half of a sweep over a thousand rows.
    """

    def decorate(function: F) -> F:
        with _cache_folder():
            compiled = numba_jit(
                nogil=True,
                cache=True,
                error_model="numpy",
                boundscheck=False,
                forceinline=inline,
                _nrt=allocates,
            )(function)
        _registry.append(_Entry(function.__qualname__, compiled, signature, pointer=False))
        return compiled  # type: ignore[no-any-return]

    return decorate


def pointer_kernel(signature: Any, function: Callable[..., None]) -> _Entry:
    """Register a kernel that other kernels call through its address, so that they need not contain it."""
    entry = _Entry(function.__qualname__, function, signature, pointer=True)
    _registry.append(entry)
    return entry


def address(entry: _Entry) -> int:
    """Where a pointer kernel stands in this process (after `warm`)."""
    entry.build()
    return int(entry.compiled.address)


def warm(progress: Callable[[int, int], None] | None = None) -> None:
    """Compile every kernel, or load it from the disk cache.

    Parameters
    ----------
    progress
        Called with (kernels done, kernels in all) between kernels, and every half second while another
        process compiles. What it raises ends the wait or the compiling cleanly; what was compiled stays on
        disk.

    """
    if _state["loaded"]:
        return
    tell = progress or (lambda _done, _total: None)
    with _lock:
        if _state["loaded"]:
            return
        _import_kernels()
        if not is_warm():
            with _compile_lock(tell):
                _build_all(tell)
                _mark()
        _build_all(tell)
        _state["loaded"] = True


def is_warm() -> bool:
    """Whether the disk cache already holds every kernel."""
    return (_folder() / MARKER).exists()


def _build_all(tell: Callable[[int, int], None]) -> None:
    for done, entry in enumerate(_registry):
        tell(done, len(_registry))
        entry.build()
    tell(len(_registry), len(_registry))


def _import_kernels() -> None:
    import sampler.kernels  # noqa: F401, PLC0415  # importing registers; kept out of `import sampler`


def _mark() -> None:
    partial = _folder() / f"{MARKER}.{os.getpid()}"
    partial.write_text(f"{len(_registry)} kernels\n")
    partial.replace(_folder() / MARKER)


@contextmanager
def _compile_lock(tell: Callable[[int, int], None]) -> Iterator[None]:
    """Hold the folder's lock; while another process has it, keep telling."""
    with (_folder() / "lock").open("a") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                tell(0, len(_registry))
                time.sleep(WAIT_SECONDS)
        yield  # closing the file lets the lock go


@contextmanager
def _cache_folder() -> Iterator[None]:
    """Numba's cache folder is ours for this moment only: other libraries' caches stay where they are."""
    with _lock:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(_folder())
        try:
            yield
        finally:
            config.CACHE_DIR = before


@cache
def _folder() -> Path:
    """The cache folder of exactly this code, numba and processor, made if absent."""
    name = f"kernels-{_fingerprint()}"
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bartserve"
    with suppress(OSError):
        _make(base / name)
        return base / name
    fallback = Path(tempfile.gettempdir()) / f"bartserve-{os.getuid()}" / name
    _make(fallback)
    return fallback


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid() or not os.access(folder, os.W_OK):
        raise PermissionError(folder)  # machine code is loaded from here: only from our own folder


def _fingerprint() -> str:
    """Hash of the sources (and their time stamps, which numba's index compares), numba and the processor."""
    digest = hashlib.sha256()
    parts = [
        numba.__version__,
        llvmlite.__version__,
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    ]
    for path in [Path(__file__), *sorted(KERNELS.glob("*.py"))]:
        parts += [str(path), str(path.stat().st_mtime_ns), path.read_text()]
    digest.update("\0".join(parts).encode())
    return digest.hexdigest()[:16]


def forget() -> None:
    """Remove this code's cache folder (a broken one, or to measure a cold start)."""
    shutil.rmtree(_folder(), ignore_errors=True)
    _folder.cache_clear()
