"""Where the columns of a table are centred, and how far their scaled values reach.

A column is centred on its mean, and its largest distance from there is the end of the scale. Two kinds of columns are
not. If more than half of the values are equal, as in one-hot columns, counts and images, the center moves so that this
value lies on a level, and needs no draw. And where the largest distance is far above the spread of the column, the
scale ends earlier, and values beyond are clipped: one outlier would otherwise leave few levels to all other values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.precision import Precision

from .ranges import Ranges

Floats = NDArray[np.float64]

GAIN = 0.5  # a center moves, or a column is clipped, where at most this share of the cost is left
HARM = 5e-4  # relative variance of a slope: draws that cause less do no harm
LEAST = 16  # values of the sample that are not the most frequent one: of fewer nothing is known
TAIL = 32  # one in so many values, at both ends, is no part of the spread
DRAWS = 1 / 24 / 4  # variance of draws at 4 bits, in squares of the reach, over four independent sets
COUNTED = 4.0  # reaches: what is cut off a value counts up to there
STEP = 2.0**0.25  # between the reaches that are tried
AGREE = 4.0  # standard errors by which equal means may differ
NEAR = 2.0  # costs within this factor count as equal, so that no more is clipped than need be
GAP = 16.0  # a distance so many times the next smaller one tells of outliers, in a sample with all rows


@dataclass(frozen=True, eq=False)
class ColumnUnits:
    """How the columns of a table are scaled.

    Attributes
    ----------
    center : float64 array [n]
        User units.
    reach : float64 array [n]
        Distance from the center, in user units, that becomes `Precision.limit`; 0 for a constant column.
    on_means : bool
        Whether each center is the mean of its stored column.
    """

    center: Floats
    reach: Floats
    on_means: bool


def plain_columns(features: Ranges, fit_intercept: bool) -> ColumnUnits:
    """Return columns that are centred on their means, or on 0 without an intercept, and not clipped."""
    center = features.mean if fit_intercept else np.zeros(len(features.low))
    reach = np.maximum(features.high - center, center - features.low)
    return ColumnUnits(center, reach, True)


def suited_columns(
    features: Ranges, precision: Precision, fit_intercept: bool, *, clip: bool, on_levels: bool
) -> ColumnUnits:
    """Return columns with a center and a reach that suit what the sample of their rows holds.

    Parameters
    ----------
    features : Ranges
    precision : Precision
    fit_intercept : bool
        Without an intercept all centers are 0.
    clip : bool
        Whether columns may be clipped; see `_cut`.
    on_levels : bool
        Whether the most frequent value of a column may move to a level; see `_on_levels`.
    """
    plain = plain_columns(features, fit_intercept)
    if not len(features.sample):
        return plain
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ordered = np.sort(features.sample.astype(np.float64), axis=0)
        center, low, high = plain.center.copy(), features.low.copy(), features.high.copy()
        on_means = True
        if clip:
            for column, (middle, most) in _cut(ordered, features, fit_intercept).items():
                low[column], high[column] = max(low[column], middle - most), min(high[column], middle + most)
                if fit_intercept:
                    center[column], exact = _clipped_mean(ordered, features, column, low[column], high[column])
                    on_means &= exact
        clipped: NDArray[np.bool_] = (low > features.low) | (high < features.high)
        reach: Floats = np.where(clipped, np.maximum(high - center, center - low), plain.reach)
        moved = np.zeros(len(center), np.bool_)
        if fit_intercept and on_levels:
            moved = _on_levels(np.clip(ordered, low, high), low, high, center, reach, precision)
    return ColumnUnits(center, reach, on_means and not moved.any())


def _cut(ordered: Floats, features: Ranges, fit_intercept: bool) -> dict[int, tuple[float, float]]:
    """Return the columns to clip, each with the middle and the reach of the values that stay.

    Of all reaches S, from where the outermost `TAIL`-th of the values begins up to the farthest value, the largest one
    with at most `NEAR` times the least cost is taken. The cost is

        DRAWS d S**2 / E[a**2] / rows + (E[a e] / E[a**2])**2,

    where a is the distance of a value from the middle, at most S, and e what is cut off it, at most 4 S. The first term
    is the relative variance of a slope that the draws cause, for the share d of the values that need one. The second is
    the square of the relative change of the slope that clipping causes. So a smooth tail stays, and a value far from
    all others does not. A column stays as it is where the draws do no harm without clipping. Distances beyond a gap, as
    `_without_outliers` finds it, count as if they ended there: nothing is learned from what is so far.

    Parameters
    ----------
    ordered : float64 array [k, n]
        The sample, each column in ascending order.
    features : Ranges
    fit_intercept : bool
    """
    k, rows = len(ordered), features.rows
    frequent = ordered[(k - 1) // 2]
    below, above = (ordered < frequent).sum(axis=0), (ordered > frequent).sum(axis=0)
    others = below + above
    tail = np.maximum(others // TAIL, 1)
    first = np.where(tail < below, tail, np.minimum(k - others + tail, k - 1))
    last = np.where(tail < above, k - 1 - tail, np.maximum(others - 1 - tail, 0))
    ends = np.take_along_axis(ordered, np.stack([first, last]), axis=0)
    ends = np.stack([np.minimum(ends[0], frequent), np.maximum(ends[1], frequent)])
    inside = np.clip(ordered, *ends)
    middle = inside.mean(axis=0) if fit_intercept else np.zeros(ordered.shape[1])
    least = np.abs(ends - middle).max(axis=0)
    bounds = np.stack([features.low, features.high])
    reach, spread = np.abs(bounds - middle).max(axis=0), inside.std(axis=0)
    unseen = bounds != ordered[[0, -1]]
    far = (others >= LEAST) & (spread > 0) & (reach / spread > np.sqrt(HARM / DRAWS * rows * k / others))
    found = {}
    for column in np.flatnonzero(far).tolist():
        outermost = bounds[unseen[:, column], column]
        distance = np.abs(np.append(ordered[:, column], outermost) - middle[column])
        distance = _without_outliers(distance, float(least[column]), GAP * math.sqrt(rows / k))
        weight = np.append(np.full(k, 1 / k), np.full(len(outermost), 1 / rows))
        steps = int(np.log(reach[column] / least[column]) / np.log(STEP)) + 1
        reaches = np.append(least[column] * STEP ** np.arange(steps), reach[column])
        reaches = np.sort(np.append(reaches, min(float(distance.max()), float(reach[column]))))
        cost = np.array([_cost(distance, weight, each, others[column] / k, k, rows) for each in reaches.tolist()])
        if cost[-1] > HARM and cost.min() <= GAIN * cost[-1]:
            near = cost <= min(NEAR * cost.min(), GAIN * cost[-1])
            most = float(reaches[near][-1])
            if k == rows:  # no value lies between
                most = float(distance[distance <= most].max())
            found[column] = float(middle[column]), most
    return found


def _clipped_mean(ordered: Floats, features: Ranges, column: int, low: float, high: float) -> tuple[float, bool]:
    """Return the mean of a column whose values are clipped, and whether it is that of all rows and not of the sample.

    Usually the least and the largest value are all that is clipped. They are, if the mean without them agrees with the
    sample.
    """
    sample = np.clip(ordered[:, column], low, high)
    mean, k = float(sample.mean()), len(sample)
    if k == features.rows:
        return mean, True
    excess = max(features.high[column] - high, 0.0) + min(features.low[column] - low, 0.0)
    without = float(features.mean[column] - excess / features.rows)
    agrees = abs(without - mean) <= AGREE * float(sample.std()) / math.sqrt(k)
    return (without, True) if agrees else (mean, False)


def _without_outliers(distance: Floats, least: float, gap: float) -> Floats:
    """Return distances, those beyond a gap as its start.

    It is the first gap, from `least` on, in which the distances grow by the factor `gap`. Those of a sample grow faster
    towards the farthest of all rows: the more so, the smaller the sample.
    """
    ascending = np.append(least, np.sort(distance[distance > least]))
    starts = np.flatnonzero(ascending[1:] > gap * ascending[:-1])
    return np.minimum(distance, ascending[starts[0]]) if len(starts) else distance


def _cost(distance: Floats, weight: Floats, reach: float, drawn: float, k: int, rows: int) -> float:
    """Return the cost of a reach; see `_cut`. One in k of the rows beyond the sample is taken to be beyond its end."""
    kept = np.minimum(distance, reach) / reach
    cut = np.minimum(distance / reach - kept, COUNTED)
    second, change = float(weight @ kept**2), float(weight @ (kept * cut))
    if second == 0.0:
        return math.inf  # a reach so large that nothing is left of the values
    if k < rows and cut.any():
        change += float(kept[:k].max()) ** 2 / k
    return DRAWS * drawn / second / rows + (change / second) ** 2


def _on_levels(
    ordered: Floats, low: Floats, high: Floats, center: Floats, reach: Floats, precision: Precision
) -> NDArray[np.bool_]:
    """Move centers [n] and reaches [n], in place, so that the most frequent value is exact, and return which moved.

    That value d is to lie on the level t: the center is ``d - t S`` with the least scale S that holds the range. Of the
    two levels around its present place, that with the center nearer to the mean is taken, because columns with other
    means than 0 slow the training down. With draws a column moves where that leaves at most `GAIN` of their variance.
    Samples without draws lie on the middles of intervals, which are the levels then.
    """
    k, width = len(ordered), 2.0 ** (1 - precision.base_bits)
    frequent = ordered[(k - 1) // 2]
    is_frequent = ordered == frequent
    offset = 0.0 if precision.draws else width / 2
    end = 1.0 - offset
    scale = reach / precision.limit
    wanted: NDArray[np.bool_] = (2 * is_frequent.sum(axis=0) >= k) & (scale > 0) & np.isfinite(scale)
    place = np.floor(((frequent - center) / np.where(scale > 0, scale, 1.0) + end) / width)
    best_center, best_scale = center, np.full(len(center), np.inf)
    for level in (place * width - end, (place + 1) * width - end):
        level = np.clip(level, -end, end)
        new = np.maximum(_ratio(high - frequent, end - level), _ratio(frequent - low, end + level))
        moved = frequent - level * new
        nearer = (new <= 2 * scale) & (np.isinf(best_scale) | (np.abs(moved - center) < np.abs(best_center - center)))
        best_center, best_scale = np.where(nearer, moved, best_center), np.where(nearer, new, best_scale)
    wanted &= np.isfinite(best_scale)
    if precision.draws:
        before = _variance(ordered, center, scale, width)
        wanted &= _variance(ordered, best_center, np.where(wanted, best_scale, 1.0), width) < GAIN * before
    center[wanted], reach[wanted] = best_center[wanted], best_scale[wanted] * precision.limit
    return wanted


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return numerator / denominator, 0 where both are 0."""
    return np.where(numerator == 0, 0.0, numerator / denominator)


def _variance(values: Floats, center: Floats, scale: Floats, width: float) -> Floats:
    """Return the mean variance of draws of values [k, n], in squares of user units: float64 [n]."""
    place = ((values - center) / scale + 1.0) / width
    fraction = place - np.floor(place)
    variance: Floats = (width * scale) ** 2 * (fraction * (1.0 - fraction)).mean(axis=0)
    return variance
