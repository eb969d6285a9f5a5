"""The precision of stored samples: stored bits, and the way samples are rounded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitlane.contract.layout import CODEBOOK_BITS, DEFAULT_LEVEL_SLOTS, DIGIT_BITS, MAX_DIGITS
from bitlane.errors import DataError

SAMPLINGS = ("double", "nearest", "naive", "full")


FULL_BITS = MAX_DIGITS * DIGIT_BITS


@dataclass(frozen=True)
class Precision:
    """The precision of stored samples.

    Parameters
    ----------
    bits : int, default=4
        Stored bits of a feature: even, 2 to 32; with a codebook 3, 4 or 5.
    sampling : {"double", "nearest", "naive", "full"}, default="double"
        "double": two independent draws of each sample (ZipML, section 2.2).
        "nearest": the middle of the nearest interval.
        "naive": one stochastic draw used twice, which is biased (ZipML, section 2.2).
        "full": 32 bits, rounded to nearest.
    codebook : bool, default=False
        Whether each feature has separate levels in a table (ZipML, section 3). Only with double sampling.

    Raises
    ------
    DataError
        A value is outside these ranges.
    """

    bits: int = 4
    sampling: str = "double"
    codebook: bool = False

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLINGS:
            raise DataError(f"sampling={self.sampling!r} is unknown: choose one of {', '.join(SAMPLINGS)}")
        is_integer = isinstance(self.bits, int | np.integer) and not isinstance(self.bits, bool)
        if self.codebook:
            stored = [DIGIT_BITS + base_bits for base_bits in CODEBOOK_BITS]
            if self.sampling != "double":
                raise DataError(f"sampling={self.sampling!r} has no codebooks: choose 'double'")
            if not is_integer or self.bits not in stored:
                raise DataError(f"bits={self.bits!r} has no codebooks: choose {', '.join(map(str, stored))}")
            return
        if not is_integer or self.bits % DIGIT_BITS or not DIGIT_BITS <= self.bits <= FULL_BITS:
            raise DataError(
                f"bits={self.bits!r} cannot be stored: choose an even number from 2 to {FULL_BITS}, or 3 or 5 with "
                'levels="optimal"'
            )
        if self.sampling == "full" and self.bits != FULL_BITS:
            raise DataError(f"bits={self.bits} contradicts sampling='full': set bits={FULL_BITS}, or another sampling")

    @property
    def draws(self) -> bool:
        """Whether a draw digit is stored after the base digits."""
        return self.sampling == "double"

    @property
    def base_bits(self) -> int:
        """Bits of a base code."""
        return self.bits - DIGIT_BITS * self.draws

    @property
    def base_digits(self) -> int:
        """Complete radix-4 digits of a base code."""
        return self.base_bits // DIGIT_BITS

    @property
    def half_digit(self) -> bool:
        """Whether a base code has one more bit before its digits."""
        return bool(self.base_bits % DIGIT_BITS)

    @property
    def digits(self) -> int:
        """Complete digits: those of the base code and the draw digit."""
        return self.base_digits + self.draws

    @property
    def levels(self) -> int:
        """Number of different values of a stored feature."""
        return (1 << self.base_bits) + self.draws

    @property
    def level_slots(self) -> int:
        """The option `level_slots` of a device that can read such samples."""
        return DEFAULT_LEVEL_SLOTS if self.codebook else 0

    @property
    def limit(self) -> float:
        """The largest scaled value: 1; for naive sampling the outermost middle, ``1 - 2**-bits``."""
        return 1.0 - 2.0**-self.bits if self.sampling == "naive" else 1.0
