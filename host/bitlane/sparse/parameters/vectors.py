"""Short vectors inside numba functions: a few lanes of float32 or float64 that become one register of the processor.

A kernel written with them has the same bits on every processor and wherever the compiler inlines it:
each lane is rounded as a scalar is, products and sums are never fused, and `total` adds the lanes in a fixed order.
Numba's loops have no such promise as soon as they may be vectorised across a sum.

Inside a kernel: ``zero = zeros(array, lanes)`` with a constant number of lanes; ``load(array, index, zero)``;
``store(array, index, vector)``; ``+ - * /`` with vectors and scalars; `square_root`, `shrink`, `where_nonzero` and
`total`.
All but `total` take scalars too, so that one kernel of an optimizer serves both.
"""

# llvmlite and numba have few types: mypy takes what intrinsics receive and return as Any.

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.datamodel.manager import DataModelManager
from numba.core.typing.context import Context
from numba.core.typing.templates import AbstractTemplate, Signature, infer_global, signature
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import lower_builtin, models, overload, register_model
from numpy.typing import NDArray

# mypy: disable-error-code="no-untyped-call, no-untyped-def, untyped-decorator"

intrinsic: Any = numba_intrinsic
# What kernels calculate with: a scalar, or a `Vector`, which has the operators of a scalar.
Lanes = float | np.floating[Any]


class Vector(types.Type):
    """The numba type of a vector."""

    def __init__(self, dtype: types.Float, lanes: int):
        self.dtype = dtype
        self.lanes = lanes
        super().__init__(name=f"Vector({dtype}, {lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: DataModelManager, kind: Vector):
        lane = ir.FloatType() if kind.dtype == types.float32 else ir.DoubleType()
        super().__init__(manager, kind, ir.VectorType(lane, kind.lanes))


# --- arithmetic
def _splat(context: BaseContext, builder: ir.IRBuilder, value: ir.Value, source: types.Type, kind: Vector) -> Any:
    """Return `value`, a vector or a scalar, as a vector of `kind`."""
    if isinstance(source, Vector):
        return value
    scalar = context.cast(builder, value, source, kind.dtype)
    vector_type = context.get_value_type(kind)
    first = builder.insert_element(ir.Constant(vector_type, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), kind.lanes), [0] * kind.lanes)
    return builder.shuffle_vector(first, first, mask)


def _define_operator(symbol: Callable[..., object], instruction: str) -> None:
    @infer_global(symbol)
    class _Operator(AbstractTemplate):
        def generic(self, args: tuple[types.Type, ...], kws: dict[str, Any]) -> Any:
            vectors = {each for each in args if isinstance(each, Vector)}
            if len(args) != 2 or len(vectors) != 1 or not all(isinstance(each, (Vector, types.Float)) for each in args):
                return None
            return signature(vectors.pop(), *args)

    for left, right in ((Vector, Vector), (Vector, types.Float), (types.Float, Vector)):

        @lower_builtin(symbol, left, right)
        def _lower(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> Any:
            a, b = (
                _splat(context, builder, each, kind, sig.return_type) for each, kind in zip(args, sig.args, strict=True)
            )
            return getattr(builder, instruction)(a, b)


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define_operator(_symbol, _instruction)


# --- memory
def _address(
    context: BaseContext, builder: ir.IRBuilder, array_type: types.Array, array: ir.Value, index: ir.Value, kind: Vector
) -> Any:
    view = context.make_array(array_type)(context, builder, array)
    start = builder.gep(view.data, [index])
    return builder.bitcast(start, context.get_value_type(kind).as_pointer())


@intrinsic
def zeros(typingctx: Context, array: Any, count: types.Type) -> Any:
    """zeros(array, count): a vector of zeros with the dtype of `array`; `count` is a constant."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    kind = Vector(array.dtype, count.literal_value)

    def generate(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> Any:
        vector_type = context.get_value_type(kind)
        return ir.Constant(vector_type, [0.0] * kind.lanes)

    return kind(array, count), generate


@intrinsic
def lanes_in(typingctx: Context, vector: Vector) -> Any:
    """lanes_in(vector): the number of its lanes."""

    def generate(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> Any:
        return context.get_constant(types.intp, sig.args[0].lanes)

    return types.intp(vector), generate


@intrinsic
def _load_vector(typingctx: Context, array: types.Array, index: types.Type, like: types.Type) -> Any:
    def generate(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> Any:
        position = context.cast(builder, args[1], sig.args[1], types.intp)
        address = _address(context, builder, sig.args[0], args[0], position, sig.return_type)
        value = builder.load(address)
        value.align = context.get_abi_sizeof(context.get_value_type(sig.return_type.dtype))
        return value

    return like(array, index, like), generate


@intrinsic
def _store_vector(typingctx: Context, array: types.Array, index: types.Type, vector: types.Type) -> Any:
    def generate(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> Any:
        position = context.cast(builder, args[1], sig.args[1], types.intp)
        address = _address(context, builder, sig.args[0], args[0], position, sig.args[2])
        stored = builder.store(args[2], address)
        stored.align = context.get_abi_sizeof(context.get_value_type(sig.args[2].dtype))
        return context.get_dummy_value()

    return types.void(array, index, vector), generate


def load(array: NDArray[Any], index: int, like: Lanes) -> Lanes:
    """Return as many values of the one-dimensional `array`, from `index` on, as `like` has: a vector or a scalar."""
    raise NotImplementedError("inside numba functions only")


def store(array: NDArray[Any], index: int, value: Lanes) -> None:
    """Write `value`, a vector or a scalar, to the one-dimensional `array` from `index` on."""
    raise NotImplementedError("inside numba functions only")


@overload(load)
def _load(array, index, like):
    if isinstance(like, Vector):
        return lambda array, index, like: _load_vector(array, index, like)
    return lambda array, index, like: array[index]


@overload(store)
def _store(array, index, value):
    if isinstance(value, Vector):
        return lambda array, index, value: _store_vector(array, index, value)

    def scalar(array, index, value):
        array[index] = value

    return scalar


# --- functions of each lane
def _call(context: BaseContext, builder: ir.IRBuilder, name: str, kind: Vector, args: list[Any]) -> Any:
    vector_type = context.get_value_type(kind)
    suffix = f"v{kind.lanes}f{32 if kind.dtype == types.float32 else 64}"
    function_type = ir.FunctionType(vector_type, [vector_type] * len(args))
    function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.{suffix}")
    return builder.call(function, args)


@intrinsic
def _vector_root(typingctx: Context, x: Vector) -> Any:
    def generate(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> Any:
        return _call(context, builder, "sqrt", sig.return_type, [args[0]])

    return x(x), generate


@intrinsic
def _vector_shrink(typingctx: Context, x: Vector, threshold: types.Type) -> Any:
    def generate(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> Any:
        kind = sig.return_type
        bound = _splat(context, builder, args[1], sig.args[1], kind)
        size = _call(context, builder, "fabs", kind, [args[0]])
        moved = _call(context, builder, "copysign", kind, [builder.fsub(size, bound), args[0]])
        zero = ir.Constant(context.get_value_type(kind), [0.0] * kind.lanes)
        return builder.select(builder.fcmp_ordered("<=", size, bound), zero, moved)

    return x(x, threshold), generate


@intrinsic
def _vector_where_nonzero(typingctx: Context, mask: Vector, new: Vector, old: Vector) -> Any:
    def generate(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> Any:
        zero = ir.Constant(context.get_value_type(sig.args[0]), [0.0] * sig.args[0].lanes)
        return builder.select(builder.fcmp_unordered("!=", args[0], zero), args[1], args[2])

    return new(mask, new, old), generate


@intrinsic
def total(typingctx: Context, x: Vector) -> Any:
    """total(x): the sum of the lanes: halves are added to each other until one lane is left."""

    def generate(context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> Any:
        def lanes(value: ir.Value, first: int, count: int) -> Any:
            mask = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(first, first + count)))
            return builder.shuffle_vector(value, value, mask)

        value, count, rest = args[0], sig.args[0].lanes, None
        while count > 1:
            if count % 2:
                last = builder.extract_element(value, ir.Constant(ir.IntType(32), count - 1))
                rest = last if rest is None else builder.fadd(rest, last)
            count //= 2
            value = builder.fadd(lanes(value, 0, count), lanes(value, count, count))
        first = builder.extract_element(value, ir.Constant(ir.IntType(32), 0))
        return first if rest is None else builder.fadd(first, rest)

    return x.dtype(x), generate


def square_root(x: Lanes) -> Lanes:
    """Return the square root of a scalar or of each lane."""
    return math.sqrt(x)


def shrink(x: Lanes, threshold: Lanes) -> Lanes:
    """Return x, moved by `threshold` towards 0, and 0 where it gets there: the soft threshold."""
    return x * 0 if abs(x) <= threshold else math.copysign(abs(x) - threshold, x)


def where_nonzero(mask: Lanes, new: Lanes, old: Lanes) -> Lanes:
    """Return `new` where `mask` is not 0, and `old` elsewhere."""
    return new if mask != 0 else old


@overload(square_root)
def _square_root(x):
    if isinstance(x, Vector):
        return lambda x: _vector_root(x)
    return lambda x: math.sqrt(x)


@overload(shrink)
def _shrink(x, threshold):
    if isinstance(x, Vector):
        return lambda x, threshold: _vector_shrink(x, threshold)

    def scalar(x, threshold):
        size = abs(x)
        return size - size if size <= threshold else math.copysign(size - threshold, x)

    return scalar


@overload(where_nonzero)
def _where_nonzero(mask, new, old):
    if isinstance(mask, Vector):
        return lambda mask, new, old: _vector_where_nonzero(mask, new, old)
    return lambda mask, new, old: new if mask != 0 else old


def lanes_of(size: int) -> int:
    """Return how many lanes the vectors have that `size` values are cut into: the most, up to 16, that divide it."""
    for lanes in range(min(size, 16), 1, -1):
        if size % lanes == 0:
            return lanes
    return 1
