"""Number formats: fixed point, and the small floating-point format of steps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fixed:
    """A signed two's complement format.

    Attributes
    ----------
    bits : int
        Width.
    fraction : int
        Bits after the binary point.
    """

    bits: int
    fraction: int

    @property
    def minimum(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def maximum(self) -> int:
        return (1 << (self.bits - 1)) - 1


LABEL = Fixed(16, 15)
WEIGHT = Fixed(24, 20)  # what the dot product reads, times 2**weight_exponent
MASTER = Fixed(32, 28)  # what the updates accumulate in, times 2**weight_exponent
WEIGHT_EXPONENT = Fixed(4, 0)  # of a run: weights lie in [-8, 8) * 2**weight_exponent
RESIDUAL = Fixed(24, 20)
SCALED_GRADIENT = Fixed(32, 29)  # step * (sum or difference of two slopes)
LOSS = Fixed(64, 32)
BOUND = Fixed(16, 12)  # the ends of a box for weights
LEVEL = Fixed(18, 16)  # of a table, stored as 32 bits
LEVEL_SCALED_GRADIENT = Fixed(25, 23)  # table lanes: twice step * slope, what a level is multiplied with


# What a weight begins with below the bits that the dot product reads: half of their unit.
MASTER_OFFSET = 1 << (MASTER.fraction - WEIGHT.fraction - 1)
STEP_FRACTION = 13  # step = mantissa * 2**-(STEP_FRACTION + exponent)
PENALTY_STEP_FRACTION = 16  # shrink rate = mantissa * 2**-(RATE_FRACTION + exponent)
DECAY_FRACTION = 16  # decay = register * 2**-DECAY_FRACTION, from 1/2 to 1
DECAY_RANGE = (1 << (DECAY_FRACTION - 1), 1 << DECAY_FRACTION)
MANTISSA_BITS = 16
EXPONENT_BITS = 5
SHRINK_SHIFT = 6  # one shrink takes 2**-6 of a weight away
