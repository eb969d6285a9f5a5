"""Uniform levels, and any number of independent draws between the two levels next to a value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitlane.quantization.scaling import Floats


@dataclass(frozen=True)
class Lattice:
    """The range [-1, 1] divided into `2**base_bits` equal intervals, as in `quantize.base_codes`.

    A stored value consists of the number of its interval and one bit per draw, which selects an end of the interval.

    Attributes
    ----------
    base_bits : int
        Bits of the interval number; odd numbers are possible too.
    """

    base_bits: int

    @property
    def width(self) -> float:
        """Width of an interval."""
        return 2.0 ** (1 - self.base_bits)

    def lower(self, values: Floats) -> Floats:
        """Return the lower ends of the intervals that contain the values, float64 [...] in [-1, 1]."""
        numbers = np.floor((values + 1.0) / self.width)
        return np.asarray(np.clip(numbers, 0, 2**self.base_bits - 1) * self.width - 1.0)

    def middles(self, values: Floats) -> Floats:
        """Return the middles of the intervals, at most half a width from the values."""
        return self.lower(values) + self.width / 2

    def draws(self, values: Floats, count: int, rng: np.random.Generator) -> Floats:
        """Draw an end of each value's interval, `count` times independently. The expectation of a draw is the value.

        The errors of the draws of a value lie in a range of one width. Probabilities have 24 bits, as in
        `quantize.draw_codes`.

        Parameters
        ----------
        values : float64 array of shape (...)
            Values in [-1, 1].
        count : int
        rng : numpy.random.Generator

        Returns
        -------
        float64 array of shape (count, ...)
        """
        lower = self.lower(values)
        chance = ((values - lower) / self.width).astype(np.float32)
        return lower + self.width * (rng.random((count, *values.shape), dtype=np.float32) < chance)
