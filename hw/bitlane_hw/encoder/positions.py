"""From a raw value to its position in [-1, 1]: `P = floor(x m) + B`, clipped."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.encoding import (
    FLOAT_BIAS,
    INTEGER_SHIFT,
    MULTIPLIER_BITS,
    POSITION_FRACTION,
    ValueType,
    left_shift,
    position_bits,
)
from bitlane_hw.common.fixed_point import delay, register

from .payloads import RAW_BITS, UNIFORM_BITS, VALUE_TYPE, factor_layout, position_layout

FRACTION_BITS = 23  # of a float32
EXPONENT_BITS = 8
CUT = POSITION_FRACTION - UNIFORM_BITS
PRODUCT_BITS = 2 * MULTIPLIER_BITS + 1
STEP_BITS = 2  # of a shift amount in one cycle: one lookup table a bit


def amount_bits(base_bits: int) -> int:
    """Return the bits of a shift to the right. The largest amount leaves only the sign of a product."""
    return (left_shift(base_bits) + PRODUCT_BITS).bit_length()


def shift_cycles(base_bits: int) -> int:
    """Return the cycles of a shift to the right."""
    return -(-amount_bits(base_bits) // STEP_BITS)


def offset_delay(base_bits: int) -> int:
    """Return the cycles from the factor of a value to its offset."""
    return 3 + shift_cycles(base_bits)


def position_latency(base_bits: int) -> int:
    """Return the cycles from a value to its clipped position."""
    return offset_delay(base_bits) + 2


class PositionLane(wiring.Component):
    """Compute the clipped position of one value a cycle.

        P = ((x * multiplier * 2**left_shift) >> amount) + offset          floor, as the shift is arithmetic

    x is the signed significand of a float32, or an integer at the top of as many bits; `amount` is `shift` minus the
    exponent of the value, at most `2**amount_bits - 1`. Base code, uniform part and rounding bit of P are

        code = P >> 20,  inside = P[4:20],  round_up = P[3]     for P from 0 to 2**(b + 20) - 1
        0 for P < 0, and all ones for larger P

    Latency: `position_latency`; `offset` follows value and factor by `offset_delay`. Throughput: one value a cycle. No
    backpressure.

    Parameters
    ----------
    base_bits : int
        Base bits, at most.

    Members
    -------
    value_type : 2 bits, in
        Type of the values.
    above : bits, in
        Ones for the bits of a code that the base bits of the run do not have.
    value : 32 bits, in
        Raw value.
    factor : factor_layout, in
        Multiplier and shift of its feature.
    offset : signed, in
        Offset of its feature.
    position : position_layout, out
        The clipped position.
    """

    def __init__(self, base_bits: int):
        self._base_bits = base_bits
        self._bits = position_bits(base_bits)
        super().__init__(
            {
                "value_type": In(VALUE_TYPE),
                "above": In(self._bits - 1 - POSITION_FRACTION),
                "value": In(RAW_BITS),
                "factor": In(factor_layout()),
                "offset": In(self._bits),
                "position": Out(position_layout(base_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        significand, exponent = self._unpacked(m)
        amount = register(m, self._amount(exponent), "amount")
        significand = register(m, significand, "significand")
        significand.attrs["keep"] = True  # Yosys 0.70 moves its adder into one DSP48E1, and leaves the other without it
        multiplier = register(m, self.factor.multiplier, "multiplier")
        product = delay(m, significand * multiplier, 2, "product")[:PRODUCT_BITS].as_signed()
        floor = self._shifted(m, product << left_shift(self._base_bits), delay(m, amount, 2, "amount"))
        sum_ = register(m, (floor + self.offset.as_signed())[: self._bits], "sum")
        self._clip(m, sum_)
        return m

    def _unpacked(self, m: Module) -> tuple[Value, Value]:
        """Return significand, signed, and exponent field of the value.

        A negative significand of a float32 is the inverted one plus 1; both types of integers pass through the same
        sum, so that one lookup table a bit selects and inverts.
        """
        value = self.value
        exponent = value[FRACTION_BITS : FRACTION_BITS + EXPONENT_BITS]
        normal = exponent.any()
        negative = value[-1]
        bits, carry, field = Signal(MULTIPLIER_BITS + 1), Signal(), Signal(EXPONENT_BITS)
        with m.Switch(self.value_type):
            for kind, shift in INTEGER_SHIFT.items():
                with m.Case(kind):
                    integer = value[: MULTIPLIER_BITS - shift]
                    sign = Const(0, 1) if kind == ValueType.UINT8 else integer[-1]
                    m.d.comb += [bits.eq(Cat(Const(0, shift), integer, sign)), field.eq(FLOAT_BIAS - shift)]
            with m.Default():
                magnitude = Cat(value[:FRACTION_BITS], normal, 0)
                m.d.comb += [
                    bits.eq(magnitude ^ negative.replicate(len(bits))),
                    carry.eq(negative),
                    field.eq(exponent | ~normal),
                ]
        return (bits.as_signed() + carry)[: len(bits)].as_signed(), field

    def _amount(self, exponent: Value) -> Value:
        """Return the shift to the right of a value, at most the largest one."""
        bits = amount_bits(self._base_bits)
        amount = self.factor.shift - exponent
        return amount[:bits] | amount[bits:].any().replicate(bits)

    def _shifted(self, m: Module, value: Value, amount: Value) -> Value:
        """Return `value >> amount`, `shift_cycles` later; the coarsest step first."""
        width = self._bits
        steps = shift_cycles(self._base_bits)
        for step in reversed(range(steps)):
            low = STEP_BITS * step
            chosen, later = amount[low : low + STEP_BITS], amount[:low]
            needed = min(width + (1 << low) - 1, len(value))
            shifted = [(value >> (steps_taken << low))[:needed].as_signed() for steps_taken in range(1 << len(chosen))]
            while len(shifted) > 1:
                select, chosen = chosen[0], chosen[1:]
                shifted = [Mux(select, odd, even) for even, odd in zip(shifted[::2], shifted[1::2], strict=True)]
            value = register(m, shifted[0].as_signed(), f"shift_{step}")
            amount = register(m, later, f"amount_{step}") if low else later
        return value

    def _clip(self, m: Module, total: Value) -> None:
        """Drive the clipped position from the sum."""
        code = total[POSITION_FRACTION:-1]
        negative = total[-1]
        over = ~negative & (code & self.above).any()
        inside = total[CUT:POSITION_FRACTION]

        def clipped(value: Value) -> Value:
            return (value | over.replicate(len(value))) & (~negative).replicate(len(value))

        m.d.sync += [
            self.position.code.eq(clipped(code[: self._base_bits])),
            self.position.inside.eq(clipped(inside)),
            self.position.round_up.eq(clipped(total[CUT - 1])),
        ]
