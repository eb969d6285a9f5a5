"""Uniform levels, and any number of independent draws of a value's neighbours among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitlane.quantization.scaling import Floats


@dataclass(frozen=True)
class Lattice:
    """[-1, 1] in `2**base_bits` equal intervals, as `quantize.base_codes` cuts it; an odd number of bits will do too.

    Stored, a value is the number of its interval, base_bits, and one bit for each draw: which end was drawn.
    """

    base_bits: int

    @property
    def width(self) -> float:
        """Of an interval."""
        return 2.0 ** (1 - self.base_bits)

    def lower(self, values: Floats) -> Floats:
        """Lower ends of the intervals that hold values float64 [...] in [-1, 1]."""
        numbers = np.floor((values + 1.0) / self.width)
        return np.asarray(np.clip(numbers, 0, 2**self.base_bits - 1) * self.width - 1.0)

    def middles(self, values: Floats) -> Floats:
        """Middles of these intervals: off by half a width at most."""
        return self.lower(values) + self.width / 2

    def draws(self, values: Floats, count: int, rng: np.random.Generator) -> Floats:
        """Independent draws of an end of each interval, float64 [count, ...]; the expectation of each is the value.

        Their errors lie in a range of one width. Chances have 24 bits, as those of `quantize.draw_codes`.
        """
        lower = self.lower(values)
        chance = ((values - lower) / self.width).astype(np.float32)
        return lower + self.width * (rng.random((count, *values.shape), dtype=np.float32) < chance)
