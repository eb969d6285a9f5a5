"""The levels of each feature, as the integers that the accelerator holds (ZipML, section 3)."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.formats import LEVEL
from bitlane.contract.layout import CODEBOOK_BITS, DIGIT_BITS
from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.quantization.row_table import dense_pieces
from bitlane.quantization.scaling import Floats, Matrix, Scaling

from .optimal import optimal_levels

CHOICES = ("uniform", "optimal")
BLOCK = 1 << 24  # values of the columns that are read at a time
EXACT = 1 << 17  # rows up to which levels are exact; of more the approximate ones cost at most a millionth more

_logger = logging.getLogger(__name__)

Codebook = NDArray[np.int32]  # [2**b + 1, s], ascending, in units of 2**-16


def choose_precision(bits: int, sampling: str, levels: str) -> Precision:
    """Return how a training stores samples: with codebooks if the levels are optimal, or if b is odd.

    Parameters
    ----------
    bits, sampling
        As for `Precision`.
    levels : {"uniform", "optimal"}

    Raises
    ------
    DataError
        An unknown choice, optimal levels without double sampling and 3, 4 or 5 bits, or what `Precision` refuses.
    """
    if levels not in CHOICES:
        raise DataError(f"levels={levels!r} is unknown: choose one of {', '.join(CHOICES)}")
    stored = [DIGIT_BITS + base_bits for base_bits in CODEBOOK_BITS]
    if levels == "optimal" and (sampling != "double" or bits not in stored):
        got = f"bits={bits!r}" if sampling == "double" else f"sampling={sampling!r}"
        raise DataError(f"levels='optimal' needs double sampling with {_or(stored)} bits; got {got}")
    odd = sampling == "double" and bits in stored and bits % DIGIT_BITS
    return Precision(bits, sampling, codebook=levels == "optimal" or bool(odd))


def fit_codebook(X: Matrix, scaling: Scaling, precision: Precision, levels: str) -> Codebook | None:
    """Choose the levels of the stored features.

    Optimal levels have the least variance for the values of each column. They are rounded to ``2**-16``, the outermost
    ones outwards, so that each value has a level on both sides. The feature of an intercept is equal to all of its
    levels. Up to `EXACT` rows the levels are exact, and take at most 0.05 s for a column with numba and 2 s without.
    With more rows the approximate method of `optimal_levels` is used.

    Parameters
    ----------
    X : array of integers or floats [rows, n]
        Finite; the table of `scaling`.
    scaling : Scaling
    precision : Precision
    levels : {"uniform", "optimal"}
        "uniform": equal intervals of [-1, 1].

    Returns
    -------
    int32 array [2**b + 1, s] or None
        Ascending, in units of ``2**-16``. None if the precision has no codebook.

    Raises
    ------
    DataError
        Optimal levels with a precision without a codebook.
    """
    if not precision.codebook:
        if levels == "optimal":
            raise DataError(f"levels='optimal' needs a precision with codebooks; got {precision}")
        return None
    if levels == "uniform":
        equal = np.linspace(-1.0, 1.0, precision.levels)[:, None]
        return _in_units(np.repeat(equal, scaling.stored_features, axis=1))
    method = "exact" if len(X) <= EXACT else "approximate"
    chosen = np.zeros((precision.levels, X.shape[1]))
    _logger.info("computing %s levels of %d features from %d rows", method, len(scaling.active), len(X))
    step = max(1, BLOCK // len(X))
    for first in range(0, X.shape[1], step):
        block = np.concatenate([piece[:, first : first + step] for piece in dense_pieces(X)])
        for column in scaling.active[(scaling.active >= first) & (scaling.active < first + step)]:
            values = block[:, column - first]
            if scaling.clipped is not None and scaling.clipped[column]:
                center, reach = scaling.center[column], scaling.scale[column]
                values = np.clip(values, center - reach, center + reach)
            chosen[:, column] = optimal_levels(values, precision.levels - 1, method)
    return _in_units(scaling.values(chosen))  # levels are values of the column: they are scaled as those are


def _or(numbers: list[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} or {numbers[-1]}"


def codebook_values(table: Codebook) -> Floats:
    """Return levels as scaled values, float64."""
    return np.ldexp(table.astype(np.float64), -LEVEL.fraction)


def _in_units(levels: Floats) -> Codebook:
    units = np.ldexp(levels, LEVEL.fraction)
    rounded = np.rint(units)
    rounded[0], rounded[-1] = np.floor(units[0]), np.ceil(units[-1])
    return rounded.astype(np.int32)
