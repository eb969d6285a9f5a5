"""How many bits a feature is stored in, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitlane.contract.layout import CODEBOOK_BITS, DEFAULT_LEVEL_SLOTS, DIGIT_BITS, MAX_DIGITS
from bitlane.errors import DataError

SAMPLINGS = ("double", "nearest", "naive", "full")


FULL_BITS = MAX_DIGITS * DIGIT_BITS


@dataclass(frozen=True)
class Precision:
    """How many bits a feature is stored in, and what they mean.

    Parameters
    ----------
    bits: stored bits a feature, even, 2 to 32; with a table 3, 4 or 5.
    sampling: "double" (two independent draws of each sample; ZipML, section 2.2), "nearest" (rounded to the
        middle of an interval), "naive" (one stochastic draw used twice, which is biased: ZipML, section 2.2)
        or "full" (32 bits, rounded).
    table: whether each feature has levels of its own, in a table (ZipML, section 3); double sampling alone.

    Raises
    ------
    DataError: a value outside of these.
    """

    bits: int = 4
    sampling: str = "double"
    codebook: bool = False

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLINGS:
            raise DataError(f"sampling={self.sampling!r} is unknown: choose one of {', '.join(SAMPLINGS)}")
        whole = isinstance(self.bits, int | np.integer) and not isinstance(self.bits, bool)
        if self.codebook:
            stored = [DIGIT_BITS + base_bits for base_bits in CODEBOOK_BITS]
            if self.sampling != "double":
                raise DataError(f"sampling={self.sampling!r} has no codebooks: choose 'double'")
            if not whole or self.bits not in stored:
                raise DataError(f"bits={self.bits!r} has no codebooks: choose {', '.join(map(str, stored))}")
            return
        if not whole or self.bits % DIGIT_BITS or not DIGIT_BITS <= self.bits <= FULL_BITS:
            raise DataError(f"bits={self.bits!r} cannot be stored: choose an even number from 2 to {FULL_BITS}")
        if self.sampling == "full" and self.bits != FULL_BITS:
            raise DataError(f"bits={self.bits} contradicts sampling='full': set bits={FULL_BITS}, or another sampling")

    @property
    def draws(self) -> bool:
        """Whether a draw digit is stored behind the base digits."""
        return self.sampling == "double"

    @property
    def base_bits(self) -> int:
        """Bits of a base code: b in the design."""
        return self.bits - DIGIT_BITS * self.draws

    @property
    def base_digits(self) -> int:
        """Whole radix-4 digits of a base code."""
        return self.base_bits // DIGIT_BITS

    @property
    def half_digit(self) -> bool:
        """Whether a base code has one bit more, its first."""
        return bool(self.base_bits % DIGIT_BITS)

    @property
    def digits(self) -> int:
        """Whole digits: of the base code, and the draw digit."""
        return self.base_digits + self.draws

    @property
    def levels(self) -> int:
        """Different values that a stored feature can be read as."""
        return (1 << self.base_bits) + self.draws

    @property
    def level_slots(self) -> int:
        """With which `open_device` makes a device that reads such samples."""
        return DEFAULT_LEVEL_SLOTS if self.codebook else 0

    @property
    def limit(self) -> float:
        """The largest scaled value: 1, or for naive the outermost middle, `1 - 2**-bits`."""
        return 1.0 - 2.0**-self.bits if self.sampling == "naive" else 1.0
