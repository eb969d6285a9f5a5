"""Rounding and saturation, named as in `bitlane.contract.fixed_point` and with the same results; adders and delays."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from bitlane.contract.formats import Fixed


def round_half_up(value: Value, n: int | Value) -> Value:
    """Return `(value + 2**(n-1)) >> n`, or `value` if n is 0.

    Parameters
    ----------
    value : Value
        Number to round.
    n : int or Value
        Number of bits to remove; a constant or a signal.
    """
    halves = (value << 1) >> n
    return (halves >> 1) + halves[0]


def fits(value: Value, bits: int) -> Value:
    """Return 1 if the signed `value` fits in `bits` bits."""
    top = value[bits - 1 :]
    return top.all() | ~top.any()


def saturate(value: Value, fmt: Fixed) -> tuple[Value, Value]:
    """Clip the signed `value` to a format.

    Returns
    -------
    tuple of (Value, Value)
        The clipped value, and 1 if it differs from `value`.
    """
    if len(value) <= fmt.bits:
        return value, Value.cast(0)
    clipped = ~fits(value, fmt.bits)
    limit = Cat((~value[-1]).replicate(fmt.bits - 1), value[-1])
    return Mux(clipped, limit, value[: fmt.bits]).as_signed(), clipped


def round_and_saturate(halves: Value, fmt: Fixed) -> tuple[Value, Value]:
    """Return `saturate(round_half_up(halves, 1), fmt)` with a shorter critical path.

    The check of the high bits does not wait for the rounding.

    Parameters
    ----------
    halves : Value
        Signed value in halves of the unit of `fmt`, wider than `fmt`.
    fmt : Fixed
        Format of the result.

    Returns
    -------
    tuple of (Value, Value)
        The rounded and clipped value, and 1 if it was clipped.
    """
    integer = halves[1:].as_signed()
    total = add_with_carry(integer[: fmt.bits + 1].as_signed(), Const(0, signed(1)), halves[0])
    clipped = ~fits(integer, fmt.bits + 1) | ~fits(total, fmt.bits)
    limit = Cat((~halves[-1]).replicate(fmt.bits - 1), halves[-1])
    return Mux(clipped, limit, total[: fmt.bits]).as_signed(), clipped


def add_with_carry(a: Value, b: Value, carry: Value) -> Value:
    """Return `a + b + carry` of signed values, in one carry chain.

    The result is one bit wider than the wider operand.
    """
    width = max(len(a), len(b)) + 1
    total = Cat(Const(1, 1), _extended(a, width)).as_signed() + Cat(carry, _extended(b, width)).as_signed()
    return total[1 : width + 1].as_signed()


def add_or_subtract(a: Value, b: Value, minus: Value) -> Value:
    """Return `a - b` if `minus` is 1, else `a + b`, of signed values, in one carry chain.

    The result is one bit wider than the wider operand.
    """
    return add_with_carry(a, inverted_if(minus, b), minus)


def add_three(a: Value, others: tuple[Value, Value], minus: tuple[Value, Value], bits: int) -> Value:
    """Return `a` plus or minus each of two other signed values, modulo 2**bits.

    The logic is one level of full adders followed by one carry chain.

    Parameters
    ----------
    a : Value
        First operand.
    others : tuple of (Value, Value)
        Second and third operand.
    minus : tuple of (Value, Value)
        For each of `others`, 1 to subtract it and 0 to add it.
    bits : int
        Width of the result.
    """
    a, b, c = (
        _extended(value, max(bits, len(value)))[:bits]
        for value in (a, *(inverted_if(negative, value) for negative, value in zip(minus, others, strict=True)))
    )
    carries = (a & b) | (b & c) | (a & c)
    total = add_with_carry((a ^ b ^ c).as_signed(), Cat(minus[0], carries[:-1]).as_signed(), minus[1])
    return total[:bits].as_signed()


def inverted_if(condition: Value, value: Value) -> Value:
    """Return the signed `value` with all bits inverted, which is `-value - 1`, if the condition is 1; else `value`."""
    return (value.as_unsigned() ^ condition.replicate(len(value))).as_signed()


def _extended(value: Value, width: int) -> Value:
    """Sign-extend `value` to `width` bits."""
    return Cat(value, value[-1].replicate(width - len(value)))


def popcount(bits: Value) -> Value:
    """Return the number of ones in `bits`, counted by a balanced tree of adders."""
    terms: list[Value] = list(bits)
    while len(terms) > 1:
        pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(pairs) * 2 :]
    return terms[0]


def register(m: Module, value: Value, name: str) -> Signal:
    """Return `value` one cycle later. The register has no reset: it is for data that a valid bit accompanies."""
    shape = signed(len(value)) if value.shape().signed else len(value)
    stage = Signal(shape, name=name, reset_less=True)
    m.d.sync += stage.eq(value)
    return stage


def delay(m: Module, value: Value, cycles: int, name: str) -> Value:
    """Return `value` a number of cycles later. The registers have no reset."""
    for stage in range(cycles):
        value = register(m, value, f"{name}_{stage + 1}")
    return value


def delay_valid(m: Module, valid: Value, cycles: int, name: str) -> list[Signal]:
    """Delay a valid bit by a pipeline of registers with reset.

    Returns
    -------
    list of Signal
        Element i is the bit i + 1 cycles later.
    """
    stages = [Signal(name=f"{name}_{stage + 1}") for stage in range(cycles)]
    for stage in stages:
        m.d.sync += stage.eq(valid)
        valid = stage
    return stages
