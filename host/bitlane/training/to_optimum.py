"""Models at their optimum from a device that takes exact sums over all rows of few bits.

The host holds the model in float64. A pass of the device takes loss and gradient there (`device_sums.py`), some rows on
the host say what step to make (`centered_rows.py`), and Anderson acceleration joins the steps (`centered_search.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.formats import LABEL
from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.devices.protocol import Device
from bitlane.driver.driver import Driver
from bitlane.driver.fit import check_fit
from bitlane.errors import DataError
from bitlane.quantization.positions import position_map
from bitlane.quantization.quantize import base_codes
from bitlane.quantization.row_table import dense_rows
from bitlane.quantization.scaling import Floats, Matrix, Scaling
from bitlane.support.user_warnings import warn_user

from .centered_rows import SCORE_LIMIT, CenteredRows
from .centered_search import CenteredSearch
from .device_sums import DeviceSums
from .objective import Objective
from .options import TrainingOptions
from .samples import SampleEncoder
from .table_scaling import scaling_of, stored_codes, table_ranges, with_clipped

ROWS = 4_096  # of the inner problem; up to twice as many are taken
VALUES = 1 << 24  # of these rows; columns beyond leave fewer rows


@dataclass(frozen=True, eq=False)
class OptimumResult:
    """Models at their optimum, and what it took to find them.

    Attributes
    ----------
    coef : float64 array [targets, n]
        In user units, as `intercept`.
    intercept : float64 array [targets]
    weights : float64 array [targets, s]
        Of the stored features, in scaled units.
    scaling : Scaling
    objectives : float64 array [targets]
        As the device took them from the stored rows, with the penalty, in scaled units.
    estimates : float64 array [targets]
        Of what the objectives are above their optimum.
    converged : bool array [targets]
        Whether the estimate is within the tolerance.
    passes : int
        How often the device read all rows.
    """

    coef: Floats
    intercept: Floats
    weights: Floats
    scaling: Scaling
    objectives: Floats
    estimates: Floats
    converged: NDArray[np.bool_]
    passes: int


def train_to_optimum(
    X: Matrix,
    y: Matrix,
    objective: Objective,
    device: Device,
    *,
    bits: int = 8,
    fit_intercept: bool = True,
    tol: float = 1e-3,
    max_passes: int = 100,
) -> OptimumResult:
    """Minimise the objective of `train`, over rows that are stored with nearest rounding.

    It has no learning rate, and nothing is random. Devices with the same bits give the same models. A model is finished
    when half of the square of Newton's decrement, with the gradient of all rows and the curvature of some, is within
    half of the tolerance.

    Parameters
    ----------
    X : array of integers or floats, RowTable or EncodedTable [rows, n]
        Finite, with at least one column that is not constant.
    y : array [rows] or [rows, targets]
        Finite; -1 and 1 for log loss. As many targets share a pass as the device has outputs.
    objective : Objective
        Squared errors or log loss, with an L2 penalty or none.
    device : Device
        Any open device with digit lanes and room for all rows.
    bits : int, default=8
        Stored bits of a value.
    fit_intercept : bool, default=True
    tol : float, default=1e-3
        How far above its optimum an objective may end, as a share of it, or of a thousandth of that at 0 if this is
        more.
    max_passes : int, default=100
        For each group of targets that share passes. A warning tells of models that are not at their optimum then.

    Raises
    ------
    DataError
        A value that cannot be used, or rows that the device cannot run.
    DeviceError
        The device failed, or has no room.
    """
    targets = _checked(X, y, objective, tol, max_passes)
    options = TrainingOptions(Precision(bits, "nearest"), objective, fit_intercept=fit_intercept)
    ranges = table_ranges(X, targets)
    scaling = scaling_of(ranges, options, stored_codes(X, options))
    if not len(scaling.active):
        raise DataError("every column of X is constant: at least one must vary")
    scaling = with_clipped(scaling, X, ranges.features, options)
    driver = Driver(device)
    outputs = driver.config.outputs
    models = _models(X, targets, options, scaling)
    searches: list[CenteredSearch] = []
    passes = saturations = 0
    for first in range(0, len(models), outputs):
        chosen = np.arange(first, min(first + outputs, len(models)))
        found = [CenteredSearch(models[i].step, np.zeros(scaling.stored_features), tol) for i in chosen]
        sums = _sums(X, targets[:, chosen], options, scaling.for_targets(chosen, outputs), driver)
        with sums:
            more, clipped = _run(sums, [models[i] for i in chosen], found, max_passes)
        searches, passes, saturations = [*searches, *found], passes + more, max(saturations, clipped)
    weights = np.stack([search.best for search in searches])
    coef, intercept = scaling.coefficients(weights)
    result = OptimumResult(
        coef,
        intercept,
        weights,
        scaling,
        np.array([search.objective for search in searches]),
        np.array([search.estimate for search in searches]),
        np.array([search.converged for search in searches]),
        passes,
    )
    if saturations:
        warn_user(
            f"{saturations} scores or residuals beyond {SCORE_LIMIT:g} in scaled units were clipped, so that the model "
            "is not at its optimum: set alpha above 0, or limit outliers in X"
        )
    elif not result.converged.all():
        left = (result.estimates / np.maximum(result.objectives, 1e-300)).max()
        stalled = any(search.finished and not search.converged for search in searches)
        what = (
            "which the device does not resolve: use LinearClassifier" if stalled else f"raise max_passes={max_passes}"
        )
        warn_user(
            f"after {passes} passes the objective may still fall by {left:.2g} of itself, {what}, or set alpha above 0"
        )
    return result


def _checked(X: Matrix, y: Matrix, objective: Objective, tol: float, max_passes: int) -> Floats:
    """Return the targets, float64 [rows, targets]; DataError for values that cannot be used."""
    if objective.loss not in ("squared_error", "log_loss"):
        raise DataError(
            f"loss={objective.loss!r} has no way to the optimum on a device: use LinearClassifier, or train"
        )
    if objective.strengths[0] or objective.bounds is not None:
        what = f"bounds={objective.bounds!r}" if objective.bounds is not None else f"penalty={objective.penalty!r}"
        raise DataError(f"{what} has no way to the optimum on a device: use penalty='l2' or None, or train")
    if not 0 < tol < 1:
        raise DataError(f"tol={tol}: choose a number above 0 and below 1")
    if max_passes < 1:
        raise DataError(f"max_passes={max_passes}: it must be at least 1")
    if len(y) != len(X):
        raise DataError(f"X has {len(X)} rows, but y has {len(y)}")
    targets = np.asarray(y, np.float64).reshape(len(X), -1)
    if not np.isfinite(targets).all():
        raise DataError("y holds values that are not finite: remove their rows")
    if objective.margins and not np.isin(targets, (-1, 1)).all():
        raise DataError(f"loss={objective.loss!r}: the labels must be -1 and 1")
    return targets


def _models(X: Matrix, targets: Floats, options: TrainingOptions, scaling: Scaling) -> list[CenteredRows]:
    """Return the inner problem of each target, on the same rows at equal distances, with the values that are stored."""
    most = min(ROWS, max(VALUES // scaling.stored_features, 1))
    some = slice(None, None, max(1, len(X) // most))
    precision, margins = options.precision, options.objective.margins
    codes = base_codes(position_map(scaling, precision).positions(dense_rows(X[some])), precision, None)
    values = np.ldexp(2.0 * codes + 1 - 2.0**precision.base_bits, -precision.base_bits)
    labels = targets[some] if margins else scaling.labels(targets[some]) * 2.0**-LABEL.fraction
    penalty = np.full(scaling.stored_features, options.objective.strength)
    if scaling.intercept_value:
        penalty[-1] = 0.0
    unseen = 1 - len(values) / len(X)
    return [CenteredRows(values, target, penalty, margins, unseen) for target in labels.T]


def _sums(X: Matrix, targets: Floats, options: TrainingOptions, scaling: Scaling, driver: Driver) -> DeviceSums:
    """Return a table on a device, with as many targets as it has outputs: those that are missing have labels of 0."""
    config, precision = driver.config, options.precision
    geometry = Geometry.of(
        precision,
        scaling.stored_features,
        len(X),
        len(X),
        config.rows_per_beat,
        config.outputs,
        config.shards,
        config.ports,
    )
    check_fit(config, geometry, 0, driver.device.name)
    labels = np.zeros((len(X), config.outputs))
    labels[:, : targets.shape[1]] = targets
    encoder = SampleEncoder(X, labels, scaling, precision, options.seed)
    return DeviceSums(driver, encoder.base(geometry, 0), geometry, options.objective.loss)


def _run(
    sums: DeviceSums, models: list[CenteredRows], searches: list[CenteredSearch], max_passes: int
) -> tuple[int, int]:
    """Bring models to their optimum; return the passes, and the values clipped in the last pass that helped.

    Log loss of scores beyond the range of the device is corrected by the rows of the inner problem.
    """
    weights = np.zeros((sums.outputs, len(models[0].penalty)))
    passes = saturations = 0
    while passes < max_passes and not all(search.finished for search in searches):
        for output, search in enumerate(searches):
            weights[output] = search.best if search.finished else search.point
        found = sums.at(weights, max(min(search.objective, 1.0) for search in searches))
        passes += 1
        for output, (model, search) in enumerate(zip(models, searches, strict=True)):
            if search.finished:
                continue
            point, loss, gradient = found.weights[output], float(found.losses[output]), found.gradients[output]
            if model.margins:
                of_loss, of_gradient = model.beyond_range(point)
                loss, gradient = loss + of_loss, gradient + of_gradient
            shrink = model.penalty * point
            if search.take(point, loss + 0.5 * float(shrink @ point), gradient + shrink):
                saturations = found.saturations
    return passes, saturations
