"""Values by leaf slot, held in registers: tuples whose members compares choose.

A chain of selects over a few slots vectorises where an indexed look-up does not. Where the number of members
that count is a constant, be it once kernels are contained in their callers, the other members cost nothing.
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


def _goes_to(builder: Any, slot: Any, count: Any, k: int) -> Any:
    """Whether a slot is that of member k, or beyond those before it, k being the last of `count`."""
    number = ir.Constant(count.type, k + 1)
    is_slot = builder.icmp_unsigned("==", slot, ir.Constant(slot.type, k))
    is_earlier = builder.and_(builder.icmp_signed("<", number, count), is_slot)
    return builder.or_(builder.icmp_signed("==", number, count), is_earlier)


def _codegen_repeat(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.make_tuple(builder, signature.return_type, [arguments[0]] * len(signature.return_type))


def _codegen_load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    members = [
        builder.load(builder.gep(arguments[0], [ir.IntType(64)(k)]))
        for k in range(len(signature.return_type))
    ]
    return context.make_tuple(builder, signature.return_type, members)


def _codegen_value_at(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    values, slot, count = arguments
    *others, chosen = _members(builder, values)
    for k, value in reversed([*enumerate(others)]):
        chosen = builder.select(_goes_to(builder, slot, count, k), value, chosen)
    return chosen


def _codegen_add_at(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    sums, slot, value, count = arguments
    zero = ir.Constant(value.type, 0)
    members = [
        builder.add(total, builder.select(_goes_to(builder, slot, count, k), value, zero))
        for k, total in enumerate(_members(builder, sums))
    ]
    return context.make_tuple(builder, signature.return_type, members)


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
def value_at(_context: Any, values: Any, slot: Any, count: Any) -> Any:
    """Choose a slot's value of the first `count`; slots beyond have the last of these."""
    return values.dtype(values, slot, count), _codegen_value_at


@_intrinsic  # type: ignore[untyped-decorator]
def add_at(_context: Any, sums: Any, slot: Any, value: Any, count: Any) -> Any:  # noqa: ARG001  # cast
    """Add a value, cast to the sums' type, to a slot's sum, and whatever the slot to sum `count - 1`."""
    return sums(sums, slot, sums.dtype, count), _codegen_add_at


@_intrinsic  # type: ignore[untyped-decorator]
def add_to(_context: Any, pointer: Any, first: Any, values: Any) -> Any:  # noqa: ARG001  # cast to int64
    """Add a tuple's members to the integers at a pointer from place `first` on."""
    return types.void(pointer, types.int64, values), _codegen_add_to
