"""What loops compiled by numba ask of the processor beyond Python's operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.typing.context import BaseContext as TypingContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

# mypy: disable-error-code="no-untyped-call"

Intrinsic = tuple[Signature, Callable[..., ir.Value]]  # the types, and what generates the code
WORDS = 16  # elements that `equal_words` compares


def _prefetch(typing_context: TypingContext, array: types.Type, index: types.Type) -> Intrinsic:
    """Begin to read the cache line of element `index` of a contiguous array, counted over all axes; do not wait.

    An index beyond the array does no harm.
    """

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [address.type], shape)
        builder.call(hint, [address, flag(0), flag(3), flag(1)])  # for reading, in all levels, of data
        return context.get_dummy_value()

    return types.void(array, index), generate


def _copy_within(
    typing_context: TypingContext, array: types.Array, source: types.Type, target: types.Type, count: types.Type
) -> Intrinsic:
    """Copy `count` elements of a contiguous array, counted over all axes, to another index in it; they may overlap."""
    move: Any = cgutils.raw_memmove

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        addresses = [builder.gep(data, [argument]) for argument in (arguments[2], arguments[1])]
        size = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        move(builder, *addresses, arguments[3], size)
        return context.get_dummy_value()

    if array.layout != "C":
        raise TypeError("copy_within needs a contiguous array")
    return types.void(array, types.intp, types.intp, types.intp), generate


def _lowest_set_bit(typing_context: TypingContext, word: types.Type) -> Intrinsic:
    """Return the index of the lowest bit that is 1; the word must not be 0."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return word(word), generate


def _equal_words(typing_context: TypingContext, array: types.Array, start: types.Type, word: types.Type) -> Intrinsic:
    """Return 16 bits, uint64: bit i says whether element `start` + i of a contiguous array of uint64 equals `word`."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        lanes = ir.VectorType(ir.IntType(64), WORDS)
        chunk = builder.load(builder.bitcast(builder.gep(data, [arguments[1]]), lanes.as_pointer()))
        chunk.align = 8
        first = builder.insert_element(ir.Constant(lanes, ir.Undefined), arguments[2], ir.IntType(32)(0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), WORDS), [0] * WORDS)
        equal = builder.icmp_unsigned("==", chunk, builder.shuffle_vector(first, first, everywhere))
        return builder.zext(builder.bitcast(equal, ir.IntType(WORDS)), ir.IntType(64))

    if array.layout != "C" or array.dtype != types.uint64:
        raise TypeError("equal_words needs a contiguous array of uint64")
    return types.uint64(array, types.intp, types.uint64), generate


prefetch: Any = intrinsic(_prefetch)
copy_within: Any = intrinsic(_copy_within)
lowest_set_bit: Any = intrinsic(_lowest_set_bit)
equal_words: Any = intrinsic(_equal_words)
