"""`optimal_levels`: levels of least variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.errors import DataError

from .bins import Bins
from .curve import CostCurve, Floats
from .histogram import histogram
from .merge import merge
from .path import lightest_path
from .search import SearchResult, search

METHODS = ("exact", "approximate")
BINS = 8192  # bins of the approximate method: enough for 256 levels within 1 %
NEARBY = 4  # the first penalty is that of 16 candidates for each interval
SAFE = 300  # ranges and weights from 2**-SAFE to 2**SAFE are not scaled: all that is made of them is float64


@dataclass(frozen=True)
class LevelsInfo:
    """The quality of levels.

    Attributes
    ----------
    cost : float
        Sum of ``weight * (b - x) * (x - a)`` over all values x between neighbouring levels a and b: the variance of
        stochastic rounding to these levels, times the sum of the weights.
    bound : float
        Lower bound of the cost of any levels of this number, including rounding errors. By weak duality: for a penalty
        p, the minimum of (cost + p * intervals) over all numbers of intervals, minus p times the requested number.
    """

    cost: float
    bound: float

    @property
    def gap(self) -> float:
        """Upper bound of the relative distance of the cost from the least possible cost."""
        return 0.0 if self.cost <= self.bound else self.cost / self.bound - 1 if self.bound > 0 else float("inf")


@overload
def optimal_levels(
    values: ArrayLike,
    intervals: int,
    method: str = ...,
    weights: ArrayLike | None = ...,
    return_info: Literal[False] = ...,
) -> Floats: ...
@overload
def optimal_levels(
    values: ArrayLike, intervals: int, method: str = ..., weights: ArrayLike | None = ..., *, return_info: Literal[True]
) -> tuple[Floats, LevelsInfo]: ...
def optimal_levels(
    values: ArrayLike,
    intervals: int,
    method: str = "exact",
    weights: ArrayLike | None = None,
    return_info: bool = False,
) -> Floats | tuple[Floats, LevelsInfo]:
    """Return the levels with the least variance of stochastic rounding.

    Values are rounded to one of the two neighbouring levels, at random and without bias. The levels minimise the sum of
    ``(b - x)(x - a)`` over all values x between neighbouring levels a and b (ZipML, eq. 8). They are a subset of the
    values, from the smallest to the largest value (Lemma 3).

    Parameters
    ----------
    values : array-like of numbers
        Any shape and order, finite. Other types than float32 are converted to float64; float32 is not converted.
    intervals : int
        Number of intervals between levels, at least 1.
    method : {"exact", "approximate"}, default="exact"
        "exact" sorts the values: O(N log N) time, about 60 bytes for each value. It is exact except for rounding, about
        1e-16 of the sum of the weights times the squared range. "approximate" reads unsorted values twice, puts them
        into about 8192 bins, and chooses among the first and last values of the bins: O(N) time, constant memory. It is
        exact for up to that number of values, and coarse for clusters that are narrower than about 1e-4 of the range;
        `gap` of the info shows by how much.
    weights : array-like of float, optional
        One weight of at least 0 for each value, not all 0. By default each value has weight 1.
    return_info : bool, default=False
        Whether to return the cost as well, with a lower bound of the least possible cost.

    Returns
    -------
    levels : float64 array [intervals + 1]
        Ascending. If there are fewer different values than levels, each value is a level, and the largest value fills
        the rest.
    info : LevelsInfo
        Only with `return_info`.

    Raises
    ------
    DataError
        `values` is empty, not numeric or not finite, or another argument is invalid.

    Examples
    --------
    >>> from bitlane import optimal_levels
    >>> optimal_levels([0.0, 0.1, 0.1, 0.2, 1.0], intervals=2).tolist()
    [0.0, 0.2, 1.0]
    """
    if method not in METHODS:
        raise DataError(f"method={method!r} is unknown: choose one of {', '.join(METHODS)}")
    is_integer = isinstance(intervals, int | np.integer) and not isinstance(intervals, bool)
    if not is_integer or intervals < 1:
        raise DataError(f"intervals={intervals!r} is invalid: choose an integer of at least 1")
    intervals = int(intervals)
    x = _numbers(values, "values")
    heavy = None if weights is None else _weights(weights, x.size)
    if heavy is not None and not heavy.all():
        x, heavy = x[heavy > 0], heavy[heavy > 0]
    low, high = float(x.min()), float(x.max())
    exponent = _extreme(high / 2 - low / 2)
    if exponent:
        x = np.ldexp(x.astype(np.float64), -exponent)
    heavier = 0 if heavy is None else _extreme(float(heavy.max()))
    if heavy is not None and heavier:
        heavy = np.ldexp(heavy, -heavier)
    precise = method == "exact" or x.size <= BINS
    bins = _sorted(x, heavy) if precise else histogram(x, heavy, BINS)
    path, cost, bound = _solve(bins, intervals, x.size)
    levels = np.full(intervals + 1, high)
    levels[: len(path)] = np.ldexp(bins.first[path], exponent)
    levels[0], levels[len(path) - 1 :] = low, high  # scaling far apart values may have rounded them
    if not return_info:
        return levels
    with np.errstate(over="ignore"):
        cost, bound = np.ldexp([cost, bound], 2 * exponent + heavier).tolist()
    return levels, LevelsInfo(cost, bound)


def _extreme(size: float) -> int:
    """Return the power of two for scaling numbers of this size; 0 if they need no scaling."""
    exponent = int(np.frexp(size)[1]) + 1
    return exponent if abs(exponent) > SAFE else 0


def _solve(bins: Bins, intervals: int, count: int) -> tuple[NDArray[np.int64], float, float]:
    """Return the best levels among the first values of the bins, their cost, and a lower bound for any levels."""
    if len(bins.first) <= intervals + 1:
        path = np.arange(len(bins.first))
        return path, bins.cost(path), 0.0
    curve = bins.curve()
    result = search(curve, intervals, _penalty(curve, intervals))
    # What rounding can do: to each step's cost, a difference of areas; to sums of many values; to sums within bins.
    doubt = np.finfo(float).eps * 8 * intervals + np.finfo(np.longdouble).eps * count
    doubt *= float(np.abs(curve.area[[0, -1]]).max())
    doubt += 4 * bins.rounding_error * float(curve.x[-1] - curve.x[0])
    del curve
    path = np.asarray(result.path)
    cost = bins.cost(path)
    return path, cost, min(cost, max(0.0, _bound(bins, result, intervals) - float(doubt)))


def _penalty(curve: CostCurve, intervals: int) -> float | None:
    """Return a penalty for this number of intervals, from few candidates; None if there are not more candidates."""
    candidates = merge(curve, NEARBY * intervals)
    return search(curve.at(candidates), intervals).penalty if len(candidates) < len(curve.x) else None


def _bound(bins: Bins, result: SearchResult, intervals: int) -> float:
    """Return a lower bound of the cost of any levels, at the first values of bins or inside them."""
    if bins.offset is None:
        return result.bound
    if result.penalty <= 0:
        return 0.0
    means = bins.means().curve()
    return lightest_path(means, result.penalty)[1] - result.penalty * intervals - bins.variance()


def _sorted(x: NDArray[np.floating], weights: Floats | None) -> Bins:
    """Return a bin for each different value."""
    if weights is None:
        x = np.sort(x)
    else:
        order = np.argsort(x, kind="stable")
        x, weights = x[order], weights[order]
        del order
    last = np.flatnonzero(np.concatenate([x[1:] != x[:-1], [True]]))
    if len(last) < len(x):
        x = x[last]
        weights = np.diff(last if weights is None else np.cumsum(weights)[last], prepend=-1 if weights is None else 0)
    del last
    ones = np.ones(len(x)) if weights is None else weights.astype(np.float64)
    return Bins(x.astype(np.float64), ones)


def _numbers(values: ArrayLike, name: str) -> NDArray[np.floating]:
    """Return finite values [N] as float32 or float64."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} holds {array.dtype}: it must contain real numbers")
    if array.size == 0:
        raise DataError(f"{name} is empty: pass at least one number")
    array = array.ravel() if array.dtype == np.float32 else array.ravel().astype(np.float64, copy=False)
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(array.min()) and np.isfinite(array.max())
    if not finite:
        bad = int(array.size - np.count_nonzero(np.isfinite(array)))
        raise DataError(f"{name} holds {bad} NaN or infinite value(s): drop or fill them")
    return array


def _weights(weights: ArrayLike, size: int) -> Floats:
    """Return the weights as float64 [N], at least 0 and not all 0."""
    heavy = _numbers(weights, "weights").astype(np.float64, copy=False)
    if heavy.size != size:
        raise DataError(f"weights has {heavy.size} numbers, but values has {size}: pass one for each value")
    if heavy.min() < 0:
        raise DataError(f"weights contains {heavy.min():g}: weights must be at least 0")
    if not heavy.any():
        raise DataError("weights contains only 0: at least one must be above 0")
    return heavy
