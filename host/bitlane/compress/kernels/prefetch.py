"""Asking for memory before it is needed, which numba has no word for: an instruction, and no change of any value."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from numba import types

ir: Any = import_module("llvmlite.ir")
intrinsic: Any = import_module("numba.extending").intrinsic

_READ, _KEEP, _DATA = 0, 3, 1  # what the instruction is told: LLVM's reference of llvm.prefetch


def _prefetch(_: Any, array: Any, place: Any) -> Any:
    """`prefetch(array, place)` in a kernel: the line of the cache that holds array[place]; the place has to exist."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(function, [address, number(_READ), number(_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, place), code


prefetch = intrinsic(_prefetch)
