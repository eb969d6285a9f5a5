"""How the columns of a table become codes, and codes values again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.layout import CHUNK, DIGIT_BITS
from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.quantization.columns import ColumnUnits, suited_columns
from bitlane.quantization.positions import PositionMap, position_map
from bitlane.quantization.ranges import Ranges, TableRanges
from bitlane.quantization.scaling import Floats, Scaling, scaling_from

MOST_BITS = 16
FEW_BITS = 4  # at which the most frequent value of a column is nearly exact; at the bits of the table it is exact


@dataclass(frozen=True, eq=False)
class ColumnCodes:
    """The center and the scale of each column of a table, and the bits of its codes.

    A column that held one value when the scales were made is not stored: its scale is 0, and its center the value.

    Attributes
    ----------
    bits : int
        Even, 2 to 16.
    center, scale : float64 arrays [n]
        As in `Scaling`.
    names : tuple of str, or None
        Of the columns.
    """

    bits: int
    center: Floats
    scale: Floats
    names: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        ranges: Ranges,
        bits: int,
        names: Sequence[str] | None = None,
        *,
        clip: bool = True,
        centered: bool = True,
    ) -> ColumnCodes:
        """Return codes that suit columns with these ranges.

        Parameters
        ----------
        ranges : Ranges
            Of n columns.
        bits : int
        names : sequence of str, optional
        clip : bool, default=True
            Whether columns with outliers are clipped (`bitlane.quantization.columns`).
        centered : bool, default=True
            Whether the scales lie around the means of the columns; otherwise around 0, as a model without an intercept
            needs them.

        Raises
        ------
        DataError
            Bits that cannot be stored, ranges that overflow, or no column that varies.
        """
        check_code_bits(bits)
        none = np.empty((1, 0))
        few = Precision(min(int(bits), FEW_BITS), "nearest")
        units = suited_columns(ranges, few, centered, clip=clip, on_levels=True)
        if centered and len(ranges.sample):
            units = _exact_at(units, ranges, few.bits, int(bits))
        labels = Ranges(none[0], none[0], none[0], ranges.rows, none, np.empty(0, np.int64))
        scale = scaling_from(TableRanges(ranges, labels), centered, units=units).scale
        if not scale.any():
            raise DataError("every column of X is constant: at least one must vary")
        center = np.where(scale > 0, units.center, ranges.low)
        return cls(int(bits), center, scale, None if names is None else tuple(names))

    @cached_property
    def active(self) -> NDArray[np.intp]:
        """Numbers of the stored columns, int [m]."""
        return np.flatnonzero(self.scale)

    @cached_property
    def constant(self) -> NDArray[np.intp]:
        """Numbers of the other columns, int [n - m]."""
        return np.flatnonzero(self.scale == 0)

    @property
    def digits(self) -> int:
        """Planes: radix-4 digits of a code."""
        return self.bits // DIGIT_BITS

    @property
    def chunks(self) -> int:
        """Words of a row in a plane."""
        return -(-len(self.active) // CHUNK)

    @property
    def scaling(self) -> Scaling:
        """The scaling of the columns, without labels."""
        none = np.empty(0)
        return Scaling(self.center, self.scale, none, none)

    def positions(self) -> PositionMap:
        """Return the positions of values in the intervals of codes of 16 bits, of which the high `bits` are stored."""
        return position_map(self.scaling, Precision(MOST_BITS, "nearest"))

    def some(self, numbers: NDArray[np.intp]) -> ColumnCodes:
        """Return the codes of some of the columns."""
        names = None if self.names is None else tuple(self.names[number] for number in numbers.tolist())
        return replace(self, center=self.center[numbers], scale=self.scale[numbers], names=names)


def check_code_bits(bits: int) -> None:
    """Raise DataError unless codes of so many bits can be stored."""
    if bits not in range(DIGIT_BITS, MOST_BITS + 1, DIGIT_BITS):
        raise DataError(f"bits={bits!r}: choose an even number from {DIGIT_BITS} to {MOST_BITS}")


def _exact_at(units: ColumnUnits, ranges: Ranges, few: int, bits: int) -> ColumnUnits:
    """Return units with the most frequent values, which lie on middles of intervals of few bits, on those of more bits.

    The middle of an interval of few bits is an end of one of more bits. So the value moves by half an interval.
    """
    if few == bits:
        return units
    ordered = np.sort(ranges.sample.astype(np.float64), axis=0)
    frequent = ordered[(len(ordered) - 1) // 2]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        place = (frequent - units.center) / units.reach
        level = (np.floor(place * 2.0 ** (few - 1)) + 0.5) * 2.0 ** (1 - few)
        moved = (2 * (ordered == frequent).sum(axis=0) >= len(ordered)) & (np.abs(place - level) < 1e-9)
        level = level - np.copysign(2.0**-bits, level)  # towards the middle of the range
        low = np.maximum(ranges.low, units.center - units.reach)
        high = np.minimum(ranges.high, units.center + units.reach)
        reach = np.maximum((high - frequent) / (1 - level), (frequent - low) / (1 + level))
    moved &= np.isfinite(reach) & (reach > 0)
    return ColumnUnits(
        np.where(moved, frequent - level * reach, units.center), np.where(moved, reach, units.reach), units.on_means
    )
