"""How a training scales its table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.quantization.columns import suited_columns
from bitlane.quantization.ranges import Ranges, TableRanges
from bitlane.quantization.scaling import Scaling, intercept_value, scaling_from
from bitlane.support.user_warnings import warn_user

from .options import EQUAL_WEIGHTS, TrainingOptions

NAMED = 10  # columns that a warning names
LOOKED_AT = 2_048  # labels, of which one in TAIL at both ends is no part of their spread
TAIL = 32
LEAST_ROWS = 64  # of fewer labels nothing is known
FAR = 30.0  # spreads of labels: a nearer label is no outlier


def scaling_of(ranges: TableRanges, options: TrainingOptions) -> Scaling:
    """Return the scaling of a training on data with these ranges; DataError as of `fit_scaling`."""
    precision, objective = options.precision, options.objective
    weighted = any(options.class_weight_of(i) != EQUAL_WEIGHTS for i in range(len(ranges.labels.low)))
    units = suited_columns(
        ranges.features,
        precision,
        options.fit_intercept,
        clip=options.clip is not None,
        on_levels=precision.sampling != "full" and options.levels == "uniform",
    )
    needed = objective.loss != "squared_error" or weighted  # the intercept does not follow from the means then
    stored = options.fit_intercept and (needed or not units.on_means)
    return scaling_from(
        ranges,
        options.fit_intercept,
        precision.limit,
        margins=objective.margins,
        intercept_value=intercept_value(precision, centered=not needed) if stored else 0.0,
        units=units,
    )


def warn_of_far_labels(targets: NDArray[Any], labels: Ranges) -> None:
    """Warn of a label so far from all others that its row alone changes what squared errors make of them.

    A row changes a weight by about its residual over the number of rows.
    """
    rows = len(targets)
    some = np.sort(np.asarray(targets[:: max(1, rows // LOOKED_AT)], np.float64), axis=0)
    low, high = some[len(some) // TAIL], some[-1 - len(some) // TAIL]
    with np.errstate(over="ignore"):
        spread = np.clip(some, low, high).std(axis=0)
        reach = np.maximum(labels.high - high, low - labels.low)
    if (len(some) >= LEAST_ROWS) and ((spread > 0) & (reach > max(FAR, rows / 10) * spread)).any():
        warn_user(
            "y holds values far from all others, which squared errors follow: drop or limit them if they are errors"
        )


def warn_of_clipped(scaling: Scaling) -> None:
    """Warn of columns with clipped values, in the same words in all calls of `partial_fit`, so that they show once."""
    if scaling.clipped is None:
        return
    columns = np.flatnonzero(scaling.clipped).tolist()
    if columns:
        more = ", ..." if len(columns) > NAMED else ""
        warn_user(
            f"{len(columns)} column(s) of X hold outliers, which are clipped: {str(columns[:NAMED])[1:-1]}{more}; "
            "clip=None keeps them"
        )
