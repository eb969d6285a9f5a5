"""Machine instructions that numba does not expose."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from numba import types

ir: Any = import_module("llvmlite.ir")
intrinsic: Any = import_module("numba.extending").intrinsic

_READ, _KEEP, _DATA = 0, 3, 1  # arguments of LLVM's llvm.prefetch: read, high locality, data cache


def _prefetch(_: Any, array: Any, index: Any) -> Any:
    """`prefetch(array, index)`: start loading the cache line of array[index], without waiting."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(function, [address, number(_READ), number(_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, index), code


prefetch = intrinsic(_prefetch)


def _lowest_set_bit(_: Any, word: Any) -> Any:
    """`lowest_set_bit(word)`: the index of the lowest bit that is 1; the word must not be 0."""

    def code(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return word(word), code


lowest_set_bit = intrinsic(_lowest_set_bit)
