"""Rounding and saturation, with the names and results of `bitlane.contract.fixed_point`, and other small arithmetic."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from bitlane.contract.formats import Fixed


def round_half_up(value: Value, n: int | Value) -> Value:
    """`(value + 2**(n-1)) >> n`, and `value` where n is 0. n may be a signal."""
    cut = (value << 1) >> n
    return (cut >> 1) + cut[0]


def fits(value: Value, bits: int) -> Value:
    """1 where the signed `value` fits in `bits` bits."""
    top = value[bits - 1 :]
    return top.all() | ~top.any()


def saturate(value: Value, fmt: Fixed) -> tuple[Value, Value]:
    """The signed `value` clipped to `fmt`, and 1 where it was clipped."""
    if len(value) <= fmt.bits:
        return value, Value.cast(0)
    clipped = ~fits(value, fmt.bits)
    limit = Cat((~value[-1]).replicate(fmt.bits - 1), value[-1])
    return Mux(clipped, limit, value[: fmt.bits]).as_signed(), clipped


def rounded(halves: Value, fmt: Fixed) -> tuple[Value, Value]:
    """`saturate(round_half_up(halves, 1), fmt)` of a signed value wider than `fmt`, with the shorter of both paths."""
    whole = halves[1:].as_signed()
    total = add_with_carry(whole[: fmt.bits + 1].as_signed(), Const(0, signed(1)), halves[0])
    clipped = ~fits(whole, fmt.bits + 1) | ~fits(total, fmt.bits)
    limit = Cat((~halves[-1]).replicate(fmt.bits - 1), halves[-1])
    return Mux(clipped, limit, total[: fmt.bits]).as_signed(), clipped


def add_with_carry(a: Value, b: Value, carry: Value) -> Value:
    """`a + b + carry` of signed values, a bit wider than the wider of both, in one carry chain."""
    width = max(len(a), len(b)) + 1
    total = Cat(Const(1, 1), _extended(a, width)).as_signed() + Cat(carry, _extended(b, width)).as_signed()
    return total[1 : width + 1].as_signed()


def add_or_subtract(a: Value, b: Value, minus: Value) -> Value:
    """`a - b` where `minus` is 1, else `a + b`, of signed values, a bit wider than the wider of both."""
    return add_with_carry(a, inverted_if(minus, b), minus)


def add_three(a: Value, others: tuple[Value, Value], minus: tuple[Value, Value], bits: int) -> Value:
    """`a`, plus or (where its `minus` is 1) minus each of the others, modulo 2**bits; signed values.

    A level of full adders, then a single carry chain.
    """
    a, b, c = (
        _extended(value, max(bits, len(value)))[:bits]
        for value in (a, *(inverted_if(negative, value) for negative, value in zip(minus, others, strict=True)))
    )
    carries = (a & b) | (b & c) | (a & c)
    total = add_with_carry((a ^ b ^ c).as_signed(), Cat(minus[0], carries[:-1]).as_signed(), minus[1])
    return total[:bits].as_signed()


def inverted_if(condition: Value, value: Value) -> Value:
    """The signed value of the same bits, or of their complement, `-value - 1`, where the condition is 1."""
    return (value.as_unsigned() ^ condition.replicate(len(value))).as_signed()


def _extended(value: Value, width: int) -> Value:
    return Cat(value, value[-1].replicate(width - len(value)))


def popcount(bits: Value) -> Value:
    """Number of ones, as a balanced tree of adders."""
    terms: list[Value] = list(bits)
    while len(terms) > 1:
        pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(pairs) * 2 :]
    return terms[0]


def register(m: Module, value: Value, name: str) -> Signal:
    """`value` one cycle later, without a reset: for data that a valid bit goes with."""
    shape = signed(len(value)) if value.shape().signed else len(value)
    stage = Signal(shape, name=name, reset_less=True)
    m.d.sync += stage.eq(value)
    return stage


def delay(m: Module, value: Value, cycles: int, name: str) -> Value:
    """`value` some cycles later, without a reset."""
    for stage in range(cycles):
        value = register(m, value, f"{name}_{stage + 1}")
    return value


def delay_valid(m: Module, valid: Value, cycles: int, name: str) -> list[Signal]:
    """A valid bit through a pipeline of `cycles` stages: element i is i + 1 cycles late."""
    stages = [Signal(name=f"{name}_{stage + 1}") for stage in range(cycles)]
    for stage in stages:
        m.d.sync += stage.eq(valid)
        valid = stage
    return stages
