"""Words that threads of compiled code exchange, and ways for them to wait."""

from __future__ import annotations

import platform
import time
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

_intrinsic: Any = intrinsic
cgutils: Any = _cgutils

NAP = 50  # us
_word, _int = ir.IntType(64), ir.IntType(32)
_PAUSE, _HINT = ("llvm.x86.sse2.pause", ()), ("llvm.aarch64.hint", (_int(1),))  # LLVM's names: pause, yield
_REST = {"x86_64": _PAUSE, "AMD64": _PAUSE, "aarch64": _HINT, "arm64": _HINT}.get(platform.machine())


def _place(context: Any, builder: Any, kind: Any, words: Any, at: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, words).data, [at])


def _codegen_seen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    place = _place(context, builder, signature.args[0], *arguments)
    return builder.load_atomic(place, "acquire", 8)


def _codegen_show(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    words, at, value = arguments
    builder.store_atomic(value, _place(context, builder, signature.args[0], words, at), "release", 8)
    return context.get_dummy_value()


def _call(builder: Any, result: Any, name: str, *arguments: Any) -> Any:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _codegen_rest(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
    if _REST is not None:
        name, arguments = _REST
        _call(builder, ir.VoidType(), name, *arguments)
    return context.get_dummy_value()


def _codegen_give_way(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
    _call(builder, _int, "sched_yield")
    return context.get_dummy_value()


def _codegen_nap(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
    _call(builder, _int, "usleep", _int(NAP))
    return context.get_dummy_value()


def _codegen_clock(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
    room = cgutils.alloca_once(builder, _word, size=_int(2))
    _call(builder, _int, "clock_gettime", _int(time.CLOCK_MONOTONIC), room)
    seconds, rest = builder.load(room), builder.load(builder.gep(room, [_int(1)]))
    return builder.add(builder.mul(seconds, _word(1_000_000_000)), rest)


@_intrinsic  # type: ignore[untyped-decorator]
def seen(_context: Any, words: Any, at: Any) -> Any:  # noqa: ARG001  # cast to int64
    """Load a word, and whatever was written before it was shown."""
    return types.int64(words, types.int64), _codegen_seen


@_intrinsic  # type: ignore[untyped-decorator]
def show(_context: Any, words: Any, at: Any, value: Any) -> Any:  # noqa: ARG001  # cast to int64
    """Store a word for other threads, after all that was written before."""
    return types.void(words, types.int64, types.int64), _codegen_show


@_intrinsic  # type: ignore[untyped-decorator]
def rest(_context: Any) -> Any:
    """Tell the processor that this is a loop that waits."""
    return types.void(), _codegen_rest


@_intrinsic  # type: ignore[untyped-decorator]
def give_way(_context: Any) -> Any:
    """Let another thread run on this core."""
    return types.void(), _codegen_give_way


@_intrinsic  # type: ignore[untyped-decorator]
def nap(_context: Any) -> Any:
    """Sleep for NAP microseconds."""
    return types.void(), _codegen_nap


@_intrinsic  # type: ignore[untyped-decorator]
def clock(_context: Any) -> Any:
    """Read the clock, in nanoseconds."""
    return types.int64(), _codegen_clock
