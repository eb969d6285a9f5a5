"""The variance that levels of least variance save compared with uniform levels, for each feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.precision import Precision
from bitlane.data.arrays import as_matrix
from bitlane.errors import DataError
from bitlane.levels.curve import Floats
from bitlane.levels.optimal import optimal_levels
from bitlane.quantization.positions import value_positions
from bitlane.quantization.quantize import base_codes
from bitlane.quantization.scaling import Scaling, fit_scaling
from bitlane.support.user_warnings import warn_user

EXACT = 1 << 17  # different values up to which levels are exact: a third of a second, without numba
FEW = 256  # intervals up to which the approximate ones are close


@dataclass(frozen=True, eq=False)
class Savings:
    """The variance of a draw of each of s features: means over the rows, in scaled units squared.

    Attributes
    ----------
    uniform : float64 array [s]
        With uniform levels at `bits` stored bits.
    optimal : float64 array [s, bits / 2]
        With levels of least variance at 2, 4, ... `bits` stored bits.
    """

    uniform: Floats
    optimal: Floats

    @property
    def bits(self) -> int:
        return 2 * int(self.optimal.shape[1])

    @property
    def order(self) -> NDArray[np.intp]:
        """Indices of the features, int [s], with the largest saving first."""
        return np.argsort(self.optimal[:, -1] - self.uniform, kind="stable")

    @property
    def enough(self) -> int:
        """The fewest stored bits at which optimal levels have no more total variance than uniform levels at `bits`."""
        held = self.optimal.sum(axis=0) <= self.uniform.sum()
        return 2 + 2 * int(np.argmax(np.append(held[:-1], True)))


def column_scaling(X: NDArray[np.floating]) -> Scaling:
    """Return the scaling of the columns [rows, n] in training with double sampling; the label scale is 1.

    Warns about constant columns. The feature of an intercept, which is always on a level, is left out.

    Raises
    ------
    DataError
        Every column is constant, or the range of a column overflows.
    """
    X = as_matrix(X)
    scaling = fit_scaling(X, np.zeros((len(X), 1)), margins=True)
    constant = X.shape[1] - len(scaling.active)
    if constant == X.shape[1]:
        raise DataError("every column of X is constant: there are no levels to choose")
    if constant:
        warn_user(f"{constant} column(s) of X are constant: they are not stored")
    return scaling


def savings(values: Floats, bits: int, on_feature: Callable[[], object] | None = None) -> Savings:
    """Return the variances of scaled values with uniform and with optimal levels.

    Parameters
    ----------
    values : float64 array [rows, s]
    bits : int
        Stored bits, valid for double sampling.
    on_feature : callable, optional
        Called after each feature. A feature takes bits / 2 times as long as `optimal_levels`.

    Returns
    -------
    Savings
    """
    precisions = [Precision(fewer) for fewer in range(2, bits, 2)] + [Precision(bits)]
    uniform, optimal = np.empty(values.shape[1]), np.empty((values.shape[1], len(precisions)))
    for j, column in enumerate(values.T):
        distinct, counts = np.unique(column, return_counts=True)
        uniform[j] = _uniform_variance(distinct, counts, precisions[-1])
        optimal[j] = [_optimum(distinct, counts, precision)[1] for precision in precisions]
        if on_feature is not None:
            on_feature()
    return Savings(uniform, optimal)


def feature_levels(column: Floats, bits: int) -> Floats:
    """Return the levels of `savings` for scaled values [rows] at `bits`: float64, ascending, without repeats."""
    return _optimum(*np.unique(column, return_counts=True), Precision(bits))[0]


def _uniform_variance(distinct: Floats, counts: NDArray[np.int64], precision: Precision) -> float:
    """Return the mean of ``(b - x)(x - a)``, where a and b are the ends of the interval of x."""
    width = 2.0 ** (1 - precision.base_bits)
    below = distinct - (base_codes(value_positions(distinct[:, None], precision), precision)[:, 0] * width - 1.0)
    return float(np.average(below * (width - below), weights=counts))


def _optimum(distinct: Floats, counts: NDArray[np.int64], precision: Precision) -> tuple[Floats, float]:
    """Return the levels of least variance for at least two values, and that variance."""
    intervals = min(precision.levels, len(distinct)) - 1
    method = "exact" if len(distinct) <= EXACT or intervals > FEW else "approximate"
    if method == "approximate":
        warn_user(f"features with more than {EXACT:,} different values have approximate levels")
    levels, info = optimal_levels(distinct, intervals, method, counts, return_info=True)
    return levels, info.cost / float(counts.sum())
