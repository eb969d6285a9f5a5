"""Sums over the bits of words: the vector operations of the dot products and of the gradients.

A word holds the bits l and h of 32 features side by side: bit 2 j is l of feature j, bit 2 j + 1 is h. So it is a mask
of 64 lanes as it lies in memory. Weights are stored twice, once for each bit: then lane i of a sum belongs to bit i.
The vectors are those of LLVM, for any processor: masked additions with AVX-512, comparisons with AVX2 or NEON.
"""

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

LANES = 64  # bits of a word
WIDTH = 16  # lanes of a vector: 512 bits
VECTORS = LANES // WIDTH
# Lanes of 32 bits: the four vectors of a lane add up to 4 * 64 weights of at most 2**23 in size, so to at most 2**31.
SUM_CHUNKS = 64

Intrinsic = tuple[Signature, Callable[..., ir.Value]]  # the types, and what generates the code

_VECTOR = ir.VectorType(ir.IntType(32), WIDTH)
_PAIR = ir.VectorType(ir.IntType(32), 2)
_ZERO = ir.Constant(_VECTOR, [0] * WIDTH)


def _indices(values: Sequence[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(values)), list(values))


class _Array:
    """An array inside an intrinsic: loads and stores from the element with some index on."""

    def __init__(self, context: BaseContext, builder: ir.IRBuilder, kind: types.Array, value: ir.Value):
        self._builder = builder
        self._data = context.make_array(kind)(context, builder, value).data
        element: Any = kind.dtype
        self._align = element.bitwidth // 8

    def pointer(self, index: ir.Value, element: ir.Type) -> ir.Value:
        return self._builder.bitcast(self._builder.gep(self._data, [index]), element.as_pointer())

    def load(self, index: ir.Value, element: ir.Type) -> ir.Value:
        value = self._builder.load(self.pointer(index, element))
        value.align = self._align
        return value

    def store(self, index: ir.Value, value: ir.Value) -> None:
        self._builder.store(value, self.pointer(index, value.type)).align = self._align


def _masks(builder: ir.IRBuilder, word: ir.Value) -> list[ir.Value]:
    """Return the bits of a word as masks of vectors: lane i tests bit i of a half that all lanes have."""
    halves = builder.bitcast(word, _PAIR)
    masks = []
    for vector in range(VECTORS):
        half, first = divmod(vector * WIDTH, 32)
        everywhere = builder.shuffle_vector(halves, halves, _indices([half] * WIDTH))
        bits = ir.Constant(_VECTOR, [1 << first + lane for lane in range(WIDTH)])
        masks.append(builder.icmp_unsigned("!=", builder.and_(everywhere, bits), _ZERO))
    return masks


def _variables(builder: ir.IRBuilder) -> list[ir.Value]:
    return [cgutils.alloca_once_value(builder, _ZERO) for _ in range(VECTORS)]


def _add_where(builder: ir.IRBuilder, masks: list[ir.Value], sums: list[ir.Value], terms: list[ir.Value]) -> None:
    for mask, total, term in zip(masks, sums, terms, strict=True):
        before = builder.load(total)
        builder.store(builder.add(before, builder.select(mask, term, _ZERO)), total)


def _at(builder: ir.IRBuilder, base: ir.Value, number: int) -> ir.Value:
    return builder.add(base, base.type(number))


def _total(builder: ir.IRBuilder, sums: list[ir.Value], bit: int) -> ir.Value:
    """Return the sum, int64, of the lanes of one bit over all vectors."""
    total = builder.load(sums[0])
    for other in sums[1:]:
        total = builder.add(total, builder.load(other))
    some = builder.shuffle_vector(total, total, _indices(range(bit, WIDTH, 2)))
    wide = ir.VectorType(ir.IntType(64), WIDTH // 2)
    shape = ir.FunctionType(ir.IntType(64), [wide])
    add_up = cgutils.get_or_insert_function(builder.module, shape, f"llvm.vector.reduce.add.v{WIDTH // 2}i64")
    return builder.call(add_up, [builder.sext(some, wide)])


def _plane_sums(
    typing_context: TypingContext,
    words: types.Type,
    rows: types.Type,
    step: types.Type,
    weights: types.Type,
    offset: types.Type,
    count: types.Type,
) -> Intrinsic:
    """plane_sums(words, rows, step, weights, offset, count): the sums of the weights whose bits l, or h, are 1.

    `rows` are the indices of the first words of two rows, in an int64 array; `count` words of each, at most SUM_CHUNKS,
    are `step` apart. Their weights, int32, each twice, lie from `offset` on, and have at most 24 bits. Return four
    int64: of l and of h of the first row, then of the second. Two rows share each read of a weight.
    """

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        memory = _Array(context, builder, signature.args[0], arguments[0])
        model = _Array(context, builder, signature.args[3], arguments[3])
        starts = cgutils.unpack_tuple(builder, arguments[1], 2)
        step, offset, count = arguments[2], arguments[4], arguments[5]
        sums = [_variables(builder) for _ in starts]
        with cgutils.for_range(builder, count) as loop:
            first = builder.add(offset, builder.mul(loop.index, loop.index.type(LANES)))
            terms = [model.load(_at(builder, first, vector * WIDTH), _VECTOR) for vector in range(VECTORS)]
            for start, totals in zip(starts, sums, strict=True):
                word = memory.load(builder.add(start, builder.mul(loop.index, step)), ir.IntType(64))
                _add_where(builder, _masks(builder, word), totals, terms)
        results = [_total(builder, totals, bit) for totals in sums for bit in range(2)]
        return context.make_tuple(builder, signature.return_type, results)

    result = types.UniTuple(types.int64, 4)
    return result(words, types.UniTuple(types.int64, 2), types.intp, weights, types.intp, types.intp), generate


def _add_terms(
    typing_context: TypingContext,
    words: types.Type,
    offsets: types.Type,
    shift: types.Type,
    rows: types.Type,
    terms: types.Type,
    first: types.Type,
    sums: types.Type,
) -> Intrinsic:
    """add_terms(words, offsets, shift, rows, terms, first, sums): add a term of each row to the lanes with a 1.

    Word r of `rows` is ``words[offsets[r] + shift]``. Its terms for l and for h are the int32 ``terms[first + 2 r]``
    and ``terms[first + 2 r + 1]``. `sums` are 64 int32, one for each bit of a word; they wrap.
    """

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        memory, starts, pairs, stored = (
            _Array(context, builder, signature.args[i], arguments[i]) for i in (0, 1, 4, 6)
        )
        shift, rows, first = arguments[2], arguments[3], arguments[5]
        lanes = [rows.type(vector * WIDTH) for vector in range(VECTORS)]
        sums = [cgutils.alloca_once_value(builder, stored.load(lane, _VECTOR)) for lane in lanes]
        with cgutils.for_range(builder, rows) as loop:
            start = starts.load(loop.index, ir.IntType(64))
            word = memory.load(builder.add(start, shift), ir.IntType(64))
            pair = pairs.load(builder.add(first, builder.shl(loop.index, loop.index.type(1))), _PAIR)
            term = builder.shuffle_vector(pair, pair, _indices([0, 1] * (WIDTH // 2)))
            _add_where(builder, _masks(builder, word), sums, [term] * VECTORS)
        for lane, total in zip(lanes, sums, strict=True):
            stored.store(lane, builder.load(total))
        return context.get_dummy_value()

    signature = types.void(words, offsets, types.intp, types.intp, terms, types.intp, sums)
    return signature, generate


plane_sums: Callable[..., Any] = intrinsic(_plane_sums)
add_terms: Callable[..., Any] = intrinsic(_add_terms)
