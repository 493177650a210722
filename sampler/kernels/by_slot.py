"""Values by leaf slot, held in registers: tuples whose members compares choose.

A chain of selects over a few slots vectorises where an indexed look-up does not. The number of members is
known when a kernel compiles, so one source serves every number of leaves, and its loops stay short for numba.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types as _types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

_intrinsic: Any = intrinsic
cgutils: Any = _cgutils
types: Any = _types


def _members(builder: Any, values: Any) -> list[Any]:
    return [builder.extract_value(values, k) for k in range(values.type.count)]


def _is_slot(builder: Any, slot: Any, k: int) -> Any:
    return builder.icmp_unsigned("==", slot, ir.Constant(slot.type, k))


def _codegen_repeat(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.make_tuple(builder, signature.return_type, [arguments[0]] * len(signature.return_type))


def _codegen_load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    members = [
        builder.load(builder.gep(arguments[0], [ir.IntType(64)(k)]))
        for k in range(len(signature.return_type))
    ]
    return context.make_tuple(builder, signature.return_type, members)


def _codegen_value_at(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    values, slot = arguments
    *others, chosen = _members(builder, values)
    for k, value in enumerate(others):
        chosen = builder.select(_is_slot(builder, slot, k), value, chosen)
    return chosen


def _codegen_add_at(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    sums, slot, value = arguments
    *others, everything = _members(builder, sums)
    zero = ir.Constant(value.type, 0)
    members = [
        builder.add(total, builder.select(_is_slot(builder, slot, k), value, zero))
        for k, total in enumerate(others)
    ]
    return context.make_tuple(builder, signature.return_type, [*members, builder.add(everything, value)])


def _codegen_add_to(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    pointer, first, values = arguments
    for k, value in enumerate(_members(builder, values)):
        place = builder.gep(pointer, [builder.add(first, ir.Constant(first.type, k))])
        wide = context.cast(builder, value, signature.args[2].dtype, signature.args[0].dtype)
        builder.store(builder.add(builder.load(place), wide), place)
    return context.get_dummy_value()


@_intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def repeat(_context: Any, value: Any, count: Any) -> Any:
    """Make a tuple of a value, `count` times."""
    value = types.unliteral(value)
    return types.UniTuple(value, count.literal_value)(value, count), _codegen_repeat


@_intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def load(_context: Any, pointer: Any, count: Any) -> Any:
    """Load the first `count` values at a pointer into a tuple."""
    return types.UniTuple(pointer.dtype, count.literal_value)(pointer, count), _codegen_load


@_intrinsic  # type: ignore[untyped-decorator]
def value_at(_context: Any, values: Any, slot: Any) -> Any:
    """Choose a slot's value; slots beyond the tuple have its last one."""
    return values.dtype(values, slot), _codegen_value_at


@_intrinsic  # type: ignore[untyped-decorator]
def add_at(_context: Any, sums: Any, slot: Any, value: Any) -> Any:  # noqa: ARG001  # cast to the sums' type
    """Add a value to a slot's sum, of the same integer type, and whatever the slot to the last sum."""
    return sums(sums, slot, sums.dtype), _codegen_add_at


@_intrinsic  # type: ignore[untyped-decorator]
def add_to(_context: Any, pointer: Any, first: Any, values: Any) -> Any:  # noqa: ARG001  # cast to int64
    """Add a tuple's members to the integers at a pointer from place `first` on."""
    return types.void(pointer, types.int64, values), _codegen_add_to
