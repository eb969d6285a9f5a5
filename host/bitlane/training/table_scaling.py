"""How a training scales its table."""

from __future__ import annotations

import numpy as np

from bitlane.quantization.columns import suited_columns
from bitlane.quantization.ranges import TableRanges
from bitlane.quantization.scaling import Scaling, intercept_value, scaling_from
from bitlane.support.user_warnings import warn_user

from .options import EQUAL_WEIGHTS, TrainingOptions

NAMED = 10  # columns that a warning names


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
    needed = objective.margins or weighted
    stored = options.fit_intercept and (needed or not units.on_means)
    return scaling_from(
        ranges,
        options.fit_intercept,
        precision.limit,
        margins=objective.margins,
        intercept_value=intercept_value(precision, centered=not needed) if stored else 0.0,
        units=units,
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
