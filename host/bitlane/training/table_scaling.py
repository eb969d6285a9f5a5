"""How a training scales its table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.column_codes import ColumnCodes
from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError
from bitlane.quantization.columns import ColumnUnits, suited_columns
from bitlane.quantization.ranges import Ranges, TableRanges, label_ranges
from bitlane.quantization.scaling import Matrix, Scaling, intercept_value, scaling_from
from bitlane.support.user_warnings import warn_user

from .options import EQUAL_WEIGHTS, TrainingOptions

NAMED = 10  # columns that a warning names
LOOKED_AT = 2_048  # labels, of which one in TAIL at both ends is no part of their spread
TAIL = 32
LEAST_ROWS = 64  # of fewer labels nothing is known
FAR = 30.0  # spreads of labels: a nearer label is no outlier


def table_ranges(X: Matrix | EncodedTable, y: NDArray[Any], first: int = 0) -> TableRanges:
    """Return the ranges of X [rows, n] and y [rows, targets], as `TableRanges.of` does; an encoded table knows them."""
    return TableRanges(X.ranges, label_ranges(y)) if isinstance(X, EncodedTable) else TableRanges.of(X, y, first)


def scaling_of(ranges: TableRanges, options: TrainingOptions, column_codes: ColumnCodes | None = None) -> Scaling:
    """Return the scaling of a training on data with these ranges.

    Parameters
    ----------
    ranges : TableRanges
    options : TrainingOptions
    column_codes : ColumnCodes, optional
        Scales of the columns, instead of those that suit the ranges.

    Raises
    ------
    DataError
        As of `fit_scaling`; or no intercept with scales that do not lie around 0.
    """
    precision, objective = options.precision, options.objective
    weighted = any(options.class_weight_of(i) != EQUAL_WEIGHTS for i in range(len(ranges.labels.low)))
    if column_codes is None:
        units = suited_columns(
            ranges.features,
            precision,
            options.fit_intercept,
            clip=options.clip is not None,
            on_levels=precision.sampling != "full" and options.levels == "uniform",
        )
    elif options.fit_intercept or not column_codes.center[column_codes.active].any():
        units = ColumnUnits(column_codes.center, column_codes.scale, False)
    else:
        raise DataError(
            "fit_intercept=False: the scales lie around the means of the columns; encode with centered=False"
        )
    needed = objective.loss != "squared_error" or weighted  # the intercept does not follow from the means then
    stored = options.fit_intercept and (needed or not units.on_means)
    scaling = scaling_from(
        ranges,
        options.fit_intercept,
        precision.limit,
        margins=objective.margins,
        intercept_value=intercept_value(precision, centered=not needed) if stored else 0.0,
        units=units,
    )
    return scaling if column_codes is None else replace(scaling, scale=column_codes.scale)


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


def stored_codes(X: Matrix | EncodedTable, options: TrainingOptions) -> ColumnCodes | None:
    """Return the scales of an encoded table; None for others. DataError if it does not store what a training reads."""
    if not isinstance(X, EncodedTable):
        return None
    stored, precision = X.column_codes.bits, options.precision
    if precision.bits > stored:
        raise DataError(f"bits={precision.bits}: the table stores {stored} bits a value: use at most {stored}")
    if options.levels != "uniform":
        raise DataError(f"levels={options.levels!r}: an encoded table has equal intervals: use levels='uniform'")
    return X.column_codes


def with_clipped(scaling: Scaling, X: Matrix | EncodedTable, features: Ranges, options: TrainingOptions) -> Scaling:
    """Return the scaling with the shares of clipped values, and warn of them, unless an encoded table did before.

    The words are the same in all calls of `partial_fit`, so that they show once.
    """
    if isinstance(X, EncodedTable):
        return replace(scaling, clipped=X.clipped if X.clipped.any() else None)
    scaling = replace(scaling, clipped=scaling.clipped_shares(X, features, options.precision.limit))
    if scaling.clipped is None:
        return scaling
    columns = np.flatnonzero(scaling.clipped).tolist()
    if columns:
        more = ", ..." if len(columns) > NAMED else ""
        warn_user(
            f"{len(columns)} column(s) of X hold outliers, which are clipped: {str(columns[:NAMED])[1:-1]}{more}; "
            "clip=None keeps them"
        )
    return scaling
