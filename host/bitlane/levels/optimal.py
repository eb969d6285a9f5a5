"""`optimal_levels`: what is asked for, what is given, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.errors import DataError

from .bins import Bins
from .curve import Curve, Floats
from .histogram import histogram
from .merge import merge
from .path import lightest_path
from .search import Found, search

METHODS = ("exact", "approximate")
PARTS = 8192  # bins of the approximate method: enough for 256 levels within 1 %
NEARBY = 4  # the first penalty is that of 16 candidates for each interval
SAFE = 300  # ranges and weights from 2**-SAFE to 2**SAFE are not scaled: all that is made of them is float64


@dataclass(frozen=True)
class LevelsInfo:
    """How good levels are.

    Members
    -------
    cost: the sum of `weight * (b - x) * (x - a)` over all values x between neighbouring levels a and b: the variance
        of stochastic rounding to them, times the sum of weights.
    bound: what no levels of this number cost less than, rounding included. From weak duality: at any penalty p,
        the least of (cost + p * intervals) over any number of intervals, less p times the number asked for.
    """

    cost: float
    bound: float

    @property
    def gap(self) -> float:
        """How much the cost may be above the least possible, as a fraction of it."""
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
    """Levels to which values are rounded, up or down at random and without bias, with the least variance.

    Minimises the sum of `(b - x)(x - a)` over all values x between neighbouring levels a and b (ZipML, eq. 8). The
    levels are values, of which the first is the smallest and the last the largest (Lemma 3).

    Parameters
    ----------
    values: numbers, of any shape and in any order. What is not float32 is worked on as float64; float32 is not
        rounded.
    intervals: between levels, at least 1.
    method: "exact" sorts: O(N log N), about 60 bytes a value; exact but for rounding, which can cost some 1e-16 of
        the weights' sum times the range squared. "approximate" reads unsorted values twice, into some 8192 bins, and
        chooses among the bins' first and last values: O(N), no memory that grows with N. With at most so many values
        it is exact. Several heaps of values, each narrower than some 1e-4 of the range, are coarse in it: see the gap.
    weights: as many as values, at least 0, not all 0; a value of weight 0 counts as absent. None is 1 each.
    return_info: whether to tell the cost, and a lower bound of the least cost possible.

    Returns
    -------
    float64 [intervals + 1], ascending; or these and a `LevelsInfo`. Fewer different values than levels are all
    levels, and the largest fills the rest.

    Raises
    ------
    DataError: no values, NaN or infinite ones, what are no numbers; wrong weights, intervals or method.
    """
    if method not in METHODS:
        raise DataError(f"method={method!r} is unknown: choose one of {', '.join(METHODS)}")
    whole = isinstance(intervals, int | np.integer) and not isinstance(intervals, bool)
    if not whole or intervals < 1:
        raise DataError(f"intervals={intervals!r} is not possible: choose a whole number of at least 1")
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
    precise = method == "exact" or x.size <= PARTS
    bins = _sorted(x, heavy) if precise else histogram(x, heavy, PARTS)
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
    """The power of two to scale by what is of this size; 0 for what can stay."""
    exponent = int(np.frexp(size)[1]) + 1
    return exponent if abs(exponent) > SAFE else 0


def _solve(bins: Bins, intervals: int, count: int) -> tuple[NDArray[np.int64], float, float]:
    """The best levels among the first values of the bins of `count` values, their cost, and a lower bound for all."""
    if len(bins.first) <= intervals + 1:
        path = np.arange(len(bins.first))
        return path, bins.cost(path), 0.0
    curve = bins.curve()
    found = search(curve, intervals, _penalty(curve, intervals))
    # What rounding can do: to each step's cost, a difference of areas; to sums of many values; to sums within bins.
    doubt = np.finfo(float).eps * 8 * intervals + np.finfo(np.longdouble).eps * count
    doubt *= float(np.abs(curve.area[[0, -1]]).max())
    doubt += 4 * bins.error * float(curve.x[-1] - curve.x[0])
    del curve
    path = np.asarray(found.path)
    cost = bins.cost(path)
    return path, cost, min(cost, max(0.0, _bound(bins, found, intervals) - float(doubt)))


def _penalty(curve: Curve, intervals: int) -> float | None:
    """The penalty for so many intervals among few candidates, if there are more."""
    candidates = merge(curve, NEARBY * intervals)
    return search(curve.at(candidates), intervals).penalty if len(candidates) < len(curve.x) else None


def _bound(bins: Bins, found: Found, intervals: int) -> float:
    """A lower bound of the cost with any levels, at the first values of bins or within."""
    if bins.offset is None:
        return found.bound
    if found.penalty <= 0:
        return 0.0
    means = bins.means().curve()
    return lightest_path(means, found.penalty)[1] - found.penalty * intervals - bins.variance()


def _sorted(x: NDArray[np.floating], weights: Floats | None) -> Bins:
    """A bin for each different value."""
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
    """The values [N], float32 or float64, finite."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} holds {array.dtype}: it must hold real numbers")
    if array.size == 0:
        raise DataError(f"{name} is empty: give at least one number")
    array = array.ravel() if array.dtype == np.float32 else array.ravel().astype(np.float64, copy=False)
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(array.min()) and np.isfinite(array.max())
    if not finite:
        bad = int(array.size - np.count_nonzero(np.isfinite(array)))
        raise DataError(f"{name} holds {bad} NaN or infinite value(s): drop or fill them")
    return array


def _weights(weights: ArrayLike, size: int) -> Floats:
    """The weights as float64 [N], at least 0, not all 0."""
    heavy = _numbers(weights, "weights").astype(np.float64, copy=False)
    if heavy.size != size:
        raise DataError(f"weights has {heavy.size} numbers, but values has {size}: give one for each value")
    if heavy.min() < 0:
        raise DataError(f"weights holds {heavy.min():g}: give weights of at least 0")
    if not heavy.any():
        raise DataError("weights holds only 0: give at least one value a weight above 0")
    return heavy
