"""The levels of each feature, chosen, in the integers that the accelerator holds (ZipML, section 3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.formats import LEVEL
from bitlane.contract.layout import CODEBOOK_BITS, DIGIT_BITS
from bitlane.errors import DataError
from bitlane.quantization.precision import Precision
from bitlane.quantization.scaling import Floats, Matrix, Scaling

from .optimal import optimal_levels

CHOICES = ("uniform", "optimal")
EXACT = 1 << 17  # rows up to which levels are exact; of more the approximate ones cost at most a millionth more

Codebook = NDArray[np.int32]  # [2**b + 1, s], ascending, in units of 2**-16


def choose_precision(bits: int, sampling: str, levels: str) -> Precision:
    """How a training stores samples: with a table where levels are optimal, or b is odd.

    Raises
    ------
    DataError: levels that are no choice, or what `Precision` does not take: optimal levels need double sampling and
        3, 4 or 5 bits.
    """
    if levels not in CHOICES:
        raise DataError(f"levels={levels!r} is unknown: choose one of {', '.join(CHOICES)}")
    half = sampling == "double" and bits in [DIGIT_BITS + b for b in CODEBOOK_BITS if b % DIGIT_BITS]
    return Precision(bits, sampling, codebook=levels == "optimal" or half)


def fit_codebook(X: Matrix, scaling: Scaling, precision: Precision, levels: str) -> Codebook | None:
    """The levels of the stored features; None where the precision has no table.

    Optimal levels have the least variance for the values of each column. They are rounded to `2**-16`, the ends
    outwards, so that each value has a level on both sides; an intercept's feature is on all of its levels. Up to
    `EXACT` rows they are exact: at most 0.05 s a column with numba, 2 s without. Of more rows the approximate method
    of `optimal_levels` is used.

    Parameters
    ----------
    X: integers or floats [rows, n], finite, that `scaling` was fitted to.
    precision: of it, `table` and `levels`.
    levels: "uniform", equal intervals of [-1, 1], or "optimal".

    Returns
    -------
    int32 [2**b + 1, s] in units of `2**-16`, ascending.

    Raises
    ------
    DataError: optimal levels of a precision without a table.
    """
    if not precision.codebook:
        if levels == "optimal":
            raise DataError(f"levels='optimal' have no place in {precision}: choose one with a table")
        return None
    if levels == "uniform":
        equal = np.linspace(-1.0, 1.0, precision.levels)[:, None]
        return _in_units(np.repeat(equal, scaling.stored_features, axis=1))
    method = "exact" if len(X) <= EXACT else "approximate"
    chosen = np.zeros((precision.levels, X.shape[1]))
    for column in scaling.active:
        chosen[:, column] = optimal_levels(X[:, column], precision.levels - 1, method)
    return _in_units(scaling.values(chosen))  # levels are values of the column: they are scaled as those are


def codebook_values(table: Codebook) -> Floats:
    """Levels as scaled values, float64."""
    return np.ldexp(table.astype(np.float64), -LEVEL.fraction)


def _in_units(levels: Floats) -> Codebook:
    units = np.ldexp(levels, LEVEL.fraction)
    whole = np.rint(units)
    whole[0], whole[-1] = np.floor(units[0]), np.ceil(units[-1])
    return whole.astype(np.int32)
