"""From values to positions: where a value lies in [-1, 1], as an integer that hardware can repeat exactly.

A position counts units of ``2**-20`` of an interval: 0 for -1, and ``2**(b + 20)`` for 1 with b base bits. It is
``floor(x * m) + B`` with a multiplier of 24 significant bits and an integer B for each feature. For integers of up to
24 bits and for float32 the product is exact in float64. `floor` stands between product and sum, so that no fused
operation can change a bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.encoding import POSITION_FRACTION
from bitlane.contract.precision import Precision

from .scaling import Floats, Matrix, Scaling, reciprocal


class PositionMap(NamedTuple):
    """How the stored features of a row become positions. A tuple, so that compiled loops take it.

    Attributes
    ----------
    columns : int array [s]
        Column of each stored feature. That of an intercept is any, with a multiplier of 0.
    multipliers : float64 array [s]
        m: positions of one user unit.
    offsets : float64 array [s]
        B: integers.
    base_bits : int
        b, 0 to 32.
    """

    columns: NDArray[np.intp]
    multipliers: Floats
    offsets: Floats
    base_bits: int

    def positions(self, X: Matrix) -> Floats:
        """Return rows [r, n] in user units as positions, float64 [r, s]: integers, clipped to the range."""
        positions: Floats = np.asarray(X)[:, self.columns].astype(np.float64)
        with np.errstate(over="ignore"):  # beyond the range in any case
            positions *= self.multipliers
        np.floor(positions, out=positions)
        positions += self.offsets
        return np.clip(positions, 0.0, 2.0 ** (self.base_bits + POSITION_FRACTION), out=positions)


def position_map(scaling: Scaling, precision: Precision) -> PositionMap:
    """Return the positions of a scaled table at a precision."""
    middle = 2.0 ** (precision.base_bits - 1 + POSITION_FRACTION)
    active = scaling.active
    multipliers = reciprocal(scaling.scale[active]) * middle
    offsets = np.floor(middle - scaling.center[active] * multipliers + 0.5)
    if scaling.intercept_value:
        active, multipliers = np.append(active, 0), np.append(multipliers, 0.0)
        offsets = np.append(offsets, middle * (1.0 + scaling.intercept_value))
    return PositionMap(active, multipliers, offsets, precision.base_bits)


def value_positions(values: NDArray[np.floating], precision: Precision) -> Floats:
    """Return the positions, float64 [r, n], of values that are scaled to [-1, 1] already."""
    middle = 2.0 ** (precision.base_bits - 1 + POSITION_FRACTION)
    columns = np.arange(values.shape[1])
    same = np.full(len(columns), middle)
    return PositionMap(columns, same, same, precision.base_bits).positions(values)
