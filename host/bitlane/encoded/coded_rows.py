"""Rows of small integers, and what a solver needs of a table that stores them.

A value is coded by the number of its interval: ``2**bits`` equal intervals divide the range of its column, and its
middle stands for all values in it. So the high bits of a code are the code of fewer bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int8]

CODE_BITS = 8  # of a code that a solver reads, at most
BLOCK_VALUES = 1 << 20  # of a block that is cut from an array


@dataclass(frozen=True, eq=False)
class CodeScale:
    """What the codes of the stored columns stand for: ``center + unit * (code + 0.5)``.

    Attributes
    ----------
    center, unit : float64 arrays [m]
        User units; `unit` is the width of an interval, above 0.
    """

    center: Floats
    unit: Floats

    def values(self, codes: NDArray[np.integer]) -> Floats:
        """Return the values, float64 [..., m], of codes [..., m]."""
        return np.asarray(self.center + self.unit * (codes + 0.5))

    def at(self, bits: int, fewer: int) -> CodeScale:
        """Return the scale of the high `fewer` bits of codes of `bits` bits."""
        return replace(self, unit=self.unit * 2.0 ** (bits - fewer))


class CodeBlock(NamedTuple):
    """Consecutive rows.

    Attributes
    ----------
    first : int
        Number of the first row.
    codes : int8 array [rows, m]
        In C order, each from ``-2**(bits - 1)`` to ``2**(bits - 1) - 1``. Valid until the next block is asked for.
    """

    first: int
    codes: Codes


class CodedRows(Protocol):
    """A table of codes, which a solver reads from the first row to the last, as often as it needs."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and stored columns."""

    @property
    def bits(self) -> int:
        """Bits of a code that `blocks` yields by default, at most `CODE_BITS`."""

    @property
    def scale(self) -> CodeScale:
        """What codes of `bits` bits stand for."""

    def blocks(self, bits: int | None = None) -> Iterator[CodeBlock]:
        """Yield all rows in order, with the high `bits` bits of their codes; by default all bits."""


class CodedArray:
    """Codes in memory, as `CodedRows`.

    Parameters
    ----------
    codes : int8 array [rows, m]
        In C order, of `bits` bits.
    scale : CodeScale
        Of these codes.
    bits : int, default=8
    """

    def __init__(self, codes: Codes, scale: CodeScale, bits: int = CODE_BITS):
        self.codes, self.scale, self.bits = codes, scale, bits
        rows, columns = codes.shape
        self.shape = (rows, columns)

    def blocks(self, bits: int | None = None) -> Iterator[CodeBlock]:
        """As `CodedRows.blocks`."""
        rows, columns = self.shape
        step = max(1, BLOCK_VALUES // columns)
        for first in range(0, rows, step):
            codes = self.codes[first : first + step]
            yield CodeBlock(first, codes if bits is None else codes >> np.int8(self.bits - bits))
