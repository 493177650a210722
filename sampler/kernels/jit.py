"""Compilation of kernels: one decorator with numba's flags, and `warm`, which compiles group by group.

A group is what one kind of work needs beyond others (`kernels.GROUPS`), so that a move or method that nobody
asked for costs nobody a compile. Several processes share the work of one cold start: each takes a group that
is free (`jit_cache`), and a process that starts alone starts a second one to help.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from inspect import isfunction
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar

from numba import cfunc, njit
from numba import config as _config

from sampler.interrupt import count_cores
from sampler.kernels import jit_cache
from sampler.kernels.arrays import signature_of
from sampler.kernels.compilers import InnerCompiler, KernelCompiler

Tell = Callable[[int, int], None]
Needed: TypeAlias = "NeedsKernels | str"

F = TypeVar("F", bound="Callable[..., Any]")
config: Any = _config  # its attributes are made at run time
numba_jit: Any = njit  # its private options are not in its types


class NeedsKernels(Protocol):
    """Work that names the kernel groups it needs, as the settings of a fit do."""

    @property
    def kernel_groups(self) -> Iterable[str]:
        """Names in `sampler.kernels.groups.GROUPS`."""


MOST_UNCOLLECTED = 1_000_000  # objects between groups, some 250 MB
LOOK_SECONDS, LOOKS = 0.05, 10  # between looks at what other processes compile; looks between reports

_registry: dict[str, list[Kernel]] = {}  # by module
_lock = threading.RLock()
_loaded: set[str] = set()


@dataclass
class Kernel:
    """Kernel of one function; `pointer` kernels are called through their address."""

    name: str
    function: Any
    signature: Callable[[type | None], Any]  # for a leaf model
    pointer: bool
    arrays: bool = False  # of a pointer kernel: whether it makes any, be it views of what it is given
    inner: bool = False  # called by kernels alone, which contain it
    compiled: dict[Any, Any] = field(default_factory=dict)  # by signature

    def build(self, leaf_model: type | None = None) -> Any:
        """Compile for a leaf model, where it takes one, or load from disk."""
        signature = self.signature(leaf_model)
        if signature in self.compiled:
            return self.compiled[signature]
        if self.pointer:
            with _cache_in_our_folder():
                pointer_function: Any = cfunc
                compiled = pointer_function(signature, cache=True, error_model="numpy", _nrt=self.arrays)(
                    self.function
                )
        else:
            compiled = self.function
            compiled.disable_compile(False)
            compiled.compile(signature)
            compiled.disable_compile()
        self.compiled[signature] = compiled
        return compiled


def kernel(
    *,
    entry: bool = False,
    inline: bool = False,
    allocates: bool = True,
    any_order: bool = False,
) -> Callable[[F], F]:
    """Compile a function for the signature that its annotations say: serial, no GIL, no fast maths.

    Nothing is compiled here but by `warm`; called before it, a kernel compiles for the types it meets.
    `entry`: Python calls it. The others are called by kernels alone: the code that unpacks Python's arguments
    took a third of a cold start. `inline` puts it into its callers whole: passing a tuple of arrays costs a
    hundred machine words. A kernel that makes no array says so with `allocates=False` and counts no
    references: those atomic counts took more than half of a sweep over a thousand rows. `any_order` lets sums
    of floats be taken in any order, nothing else: their last digits are then those of one kind of processor.
    """

    def decorate(function: F) -> F:
        with _cache_in_our_folder():
            compiled = numba_jit(
                nogil=True,
                cache=True,
                error_model="numpy",
                boundscheck=False,
                no_cfunc_wrapper=True,
                no_cpython_wrapper=not entry,
                forceinline=inline,
                fastmath={"reassoc", "nsz"} if any_order else False,
                _nrt=allocates,
                pipeline_class=KernelCompiler if entry else InnerCompiler,
            )(function)
        if not entry:
            _keep_from_python(compiled)
        signature = partial(signature_of, function)
        name, module = function.__qualname__, function.__module__
        _register(module, Kernel(name, compiled, signature, pointer=False, inner=not entry))
        return compiled  # type: ignore[no-any-return]

    return decorate


def _keep_from_python(compiled: Any) -> None:
    """Refuse calls from Python, which would jump to nowhere."""

    def add_overload(result: Any) -> None:
        compiled.overloads[tuple(result.signature.args)] = result

    def refuse(*_arguments: Any, **_named: Any) -> NoReturn:
        name = compiled.py_func.__qualname__
        raise TypeError(f"only kernels call the kernel {name!r}; for Python to call it, it needs entry=True")

    compiled.add_overload = add_overload
    compiled._compile_for_args = compiled._explain_matching_error = refuse  # noqa: SLF001


def pointer_kernel(
    module: str, signature: Any, function: Callable[..., Any], *, arrays: bool = False
) -> Kernel:
    """Register a kernel that others call through its address, so that they need not contain it.

    `signature`: numba's, or a function that gives it for a leaf model.
    """
    by_model = signature if isfunction(signature) else lambda _model: signature
    entry = Kernel(function.__qualname__, function, by_model, pointer=True, arrays=arrays)
    _register(module, entry)
    return entry


def address(entry: Kernel, leaf_model: type | None = None) -> int:
    """Return the address of a pointer kernel in this process."""
    return int(entry.build(leaf_model).address)


def warm(needed: Needed | Sequence[Needed] | None = None, progress: Tell | None = None) -> float:
    """Compile the kernels that some work needs, or load them from the disk cache.

    Parameters
    ----------
    needed
        The settings of a fit, the name of one of `kernels.GROUPS`, several of these, or None for every
        kernel. Processes share the compiling of several better than of one after the other.
    progress
        Called with (kernels done, kernels in all) between kernels, and every half second while another
        process compiles. What it raises ends the wait or the compiling cleanly; what was compiled stays on
        disk.

    Returns
    -------
    float
        Seconds that compiling took, here or in other processes; 0 when all was on disk.

    """
    names = _groups(needed)
    if _loaded.issuperset(names):
        return 0.0
    tell = progress or (lambda _done, _total: None)
    with _lock:
        total = sum(len(_kernels(name)) for name in names)
        seconds = 0.0
        if not all(map(jit_cache.is_complete, names)):
            start = time.monotonic()
            with _helper(names), _uncollected():
                _compile(names, tell, total)
            seconds = time.monotonic() - start
        done = 0
        for name in names:
            for entry in _kernels(name):
                tell(done, total)
                if not entry.inner:
                    entry.build(leaf_model(name))
                done += 1
            _loaded.add(name)
        tell(total, total)
    return seconds


def load_inner_kernels() -> None:
    """Load the kernels that kernels alone call too: compiling their callers needs them."""
    for name in _groups(None):
        for entry in _kernels(name):
            entry.build(leaf_model(name))


def is_warm(needed: Needed | Sequence[Needed] | None = None) -> bool:
    """Whether the disk cache already holds every kernel that some work needs."""
    return all(map(jit_cache.is_complete, _groups(needed)))


def load_ready() -> None:
    """Load every group of kernels that the disk cache already holds."""
    from sampler.kernels.groups import GROUPS  # noqa: PLC0415

    for name in GROUPS:
        if is_warm(name):
            warm(name)


def _groups(needed: Needed | Sequence[Needed] | None) -> list[str]:
    """List the groups that work needs in the order of `GROUPS`: each after those that it needs itself."""
    from sampler.kernels.groups import GROUPS  # noqa: PLC0415  # kept out of `import sampler`

    if needed is None:
        names: Iterable[str] = GROUPS
    elif isinstance(needed, str):
        names = [needed]
    elif isinstance(needed, Sequence):
        names = [name for each in needed for name in _groups(each)]
    else:
        names = needed.kernel_groups
    all_needed = {each for name in names for each in (*GROUPS[name].needs, name)}
    return [name for name in GROUPS if name in all_needed]


def _kernels(group: str) -> list[Kernel]:
    """List a group's kernels in the order of their definitions: a kernel follows those it calls."""
    from sampler.kernels.groups import GROUPS  # noqa: PLC0415

    modules = [f"sampler.{module}" for module in GROUPS[group].modules]
    for module in modules:
        import_module(module)  # registers them
    return [entry for module in modules for entry in _registry.get(module, [])]


def leaf_model(group: str) -> type | None:
    """Return the leaf model that a group is compiled for."""
    from sampler.kernels.groups import GROUPS  # noqa: PLC0415

    module, _, name = GROUPS[group].leaf_model.rpartition(".")
    model: type | None = getattr(import_module(f"sampler.{module}"), name) if name else None
    return model


def _register(module: str, entry: Kernel) -> None:
    _registry.setdefault(module, []).append(entry)


def _compile(names: list[str], tell: Tell, total: int) -> None:
    """Compile every group to disk, beginning with those that no other process compiles."""
    looks = 0
    while True:
        missing = [name for name in names if not jit_cache.is_complete(name)]
        if not missing:
            return
        done = sum(len(_kernels(name)) for name in names if name not in missing)
        if looks % LOOKS == 0:
            tell(done, total)
        looks += 1
        if any(_compile_group(name, tell, done, total) for name in missing):
            looks = 0
        else:
            time.sleep(LOOK_SECONDS)


def _compile_group(name: str, tell: Tell, done: int, total: int) -> bool:
    """Compile a group unless another process compiles it or one it needs; return whether this was done."""
    from sampler.kernels.groups import GROUPS  # noqa: PLC0415

    if not all(map(jit_cache.is_complete, GROUPS[name].needs)):
        return False
    with jit_cache.try_lock(name) as held:
        if not held or jit_cache.is_complete(name):
            return False
        for needed in GROUPS[name].needs:
            for entry in _kernels(needed):
                entry.build(leaf_model(needed))
        for number, entry in enumerate(_kernels(name)):
            tell(done + number, total)
            entry.build(leaf_model(name))
        jit_cache.mark_complete(name)
    if gc.get_count()[0] > MOST_UNCOLLECTED:
        gc.collect()
    return True


@contextmanager
def _uncollected() -> Iterator[None]:
    """Leave cycles of objects uncollected but for `MOST_UNCOLLECTED`: looking takes a tenth of a compile."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


@contextmanager
def _helper(names: list[str]) -> Iterator[None]:
    """Run a second process that compiles too, where there is a second core; it ends with this one."""
    if os.environ.get("BARTSERVE_COMPILE_ALONE") or len(names) < 2 or count_cores() < 2:
        yield
        return
    code = _helper_code(names)
    above = [str(jit_cache.SOURCES.parent), os.environ.get("PYTHONPATH")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, above))}
    helper = None
    with suppress(OSError):
        helper = subprocess.Popen(  # noqa: S603  our own interpreter and our own words
            [sys.executable, "-P", "-c", code],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        yield
    finally:
        if helper is not None:
            helper.terminate()
            helper.wait()


def _helper_code(names: list[str]) -> str:
    """Write the code by which a second interpreter compiles groups beside this process."""
    return f"from {__name__} import help_parent; help_parent({os.getpid()}, {names!r})"


def help_parent(parent: int, names: list[str]) -> None:
    """Compile groups until the process `parent` ends."""

    def tell(_done: int, _total: int) -> None:
        if os.getppid() != parent:
            sys.exit()

    gc.disable()
    _compile(names, tell, 0)


@contextmanager
def _cache_in_our_folder() -> Iterator[None]:
    """Point numba's cache to our folder for a moment only: other libraries' caches stay where they are."""
    with _lock:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(jit_cache.folder())
        try:
            yield
        finally:
            config.CACHE_DIR = before
