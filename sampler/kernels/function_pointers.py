"""Calls of compiled functions through their addresses: the caller need not contain them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

_intrinsic: Any = intrinsic
cgutils: Any = _cgutils
_byte_pointer = ir.IntType(8).as_pointer()


def _call(context: Any, builder: Any, result: Any, kinds: Any, arguments: Any, convert: Any) -> Any:
    """Call the address arguments[0] with the members of the tuple arguments[1]."""
    values = [
        convert(context, builder, kind, builder.extract_value(arguments[1], i))
        for i, kind in enumerate(kinds)
    ]
    function = ir.FunctionType(result, [value.type for value in values])
    return builder.call(builder.inttoptr(arguments[0], function.as_pointer()), values)


def _data_pointer(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if not isinstance(kind, types.Array):
        return value
    return builder.bitcast(context.make_array(kind)(context, builder, value).data, _byte_pointer)


def _as_it_is(_context: Any, _builder: Any, _kind: Any, value: Any) -> Any:
    return value


def _codegen_pass(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    _call(context, builder, ir.VoidType(), signature.args[1], arguments, _data_pointer)
    return context.get_dummy_value()


def _codegen_step(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _call(context, builder, ir.IntType(64), signature.args[1], arguments, _as_it_is)


def _codegen_places(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    word = ir.IntType(64)
    members = [builder.extract_value(arguments[0], i) for i in range(len(signature.args[0]))]
    places = [builder.ptrtoint(cgutils.alloca_once_value(builder, value), word) for value in members]
    return context.make_tuple(builder, signature.return_type, places)


def _codegen_store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    word = ir.IntType(64)
    members = [builder.extract_value(arguments[0], i) for i in range(len(signature.args[0]))]
    sizes = [-(-context.get_abi_sizeof(value.type) // 8) for value in members]
    needed = word(len(members) + sum(sizes))
    room = context.make_array(signature.args[1])(context, builder, arguments[1])
    with builder.if_then(builder.icmp_signed(">=", room.nitems, needed)):
        at = builder.ptrtoint(room.data, word)
        for number, value in enumerate(members):
            place = builder.add(at, word(8 * (len(members) + sum(sizes[:number]))))
            builder.store(value, builder.inttoptr(place, value.type.as_pointer()))
            builder.store(place, builder.gep(room.data, [word(number)]))
    return needed


@_intrinsic  # type: ignore[untyped-decorator]
def call_pass(_context: Any, address: Any, arguments: Any) -> Any:
    """Call a pass over rows: arrays go as pointers to their data, integers as they are."""
    return types.void(address, arguments), _codegen_pass


@_intrinsic  # type: ignore[untyped-decorator]
def call_step(_context: Any, address: Any, arguments: Any) -> Any:
    """Call a move (`bart.kernels.state.step_signature`) with integers, the first of them from `places_of`."""
    return types.int64(address, arguments), _codegen_step


@_intrinsic  # type: ignore[untyped-decorator]
def places_of(_context: Any, members: Any) -> Any:
    """Copy a tuple's members and return their addresses, valid until the caller returns."""
    tuple_of: Any = types.UniTuple
    return tuple_of(types.int64, len(members))(members), _codegen_places


@_intrinsic  # type: ignore[untyped-decorator]
def store_members(_context: Any, members: Any, room: Any) -> Any:
    """Copy a tuple's members to an int64 array, after their addresses; return how long that has to be.

    Nothing is copied to a shorter array. The copies hold no reference to the members' arrays.
    """
    return types.int64(members, room), _codegen_store
