"""A learning rate that suits a table: `learning_rate="auto"`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bitlane.contract.formats import LABEL
from bitlane.contract.precision import FULL_BITS, Precision
from bitlane.quantization.ranges import TableRanges
from bitlane.quantization.row_table import dense_rows
from bitlane.quantization.scaling import Floats, Matrix, Scaling

from .losses import BOUNDED_LOSSES, CURVATURE, LINEAR_LOSSES, loss_factor
from .objective import Objective
from .options import AUTO, TrainingOptions
from .table_scaling import scaling_of

LARGEST = 4.0  # rate times curvature
ROWS = 2_048  # looked at
SHARE = 0.9  # of the largest stable rate
STEADY = 1 / 8  # of the rate with decay, without: the noise of batches and draws stays then, and grows with the rate
STALE = 0.25  # of the rate of staleness 0, at which staleness 1 trains as well
STEEP = 4.0  # times `bounded_rise` is a curvature whose rate takes a weight far enough, and ends low
LEAST = 2.0**-20  # curvature
NOISE = 1 / 16  # share of a weight's energy that the draws of a batch may feed back in one step


def suggest_learning_rate(
    X: Matrix,
    batch_size: int,
    precision: Precision | None = None,
    fit_intercept: bool = True,
    loss: str = "squared_error",
) -> float:
    """Return the learning rate that `learning_rate="auto"` chooses without class weights.

    Parameters
    ----------
    X : array [rows, n]
    batch_size : int
    precision : Precision, optional
        None to ignore the noise of draws.
    fit_intercept : bool, default=True
    loss : str, default="squared_error"

    Returns
    -------
    float
        Rounded down to two digits.
    """
    labels = np.ones((len(X), 1))
    plain = precision or Precision(FULL_BITS, "full")
    options = TrainingOptions(plain, Objective(loss), batch_size=batch_size, fit_intercept=fit_intercept)
    scaling = scaling_of(TableRanges.of(X, labels), options)
    rate = with_learning_rate(options, X, labels, scaling).learning_rate
    assert isinstance(rate, float)
    return rate


def with_learning_rate(
    options: TrainingOptions, X: Matrix, y: Matrix, scaling: Scaling, ridge: float = 0.0
) -> TrainingOptions:
    """Return options with a number as learning rate: where it is "auto", nine tenths of the largest stable one.

    With stored rows v, weights g of their classes and the largest curvature c of the loss (`losses.CURVATURE`, or four
    times `bounded_rise`), the mean square of the weights along a direction u shrinks if
    ``rate < 2 a / c / (a^2 + E[g^2 |v|^2 (v u)^2] / batch)``, where ``a = E[g (v u)^2]``. Here u is the direction with
    the largest a. Independent draws Q of v add noise that is not small in directions in which the data is: the rate is
    also limited to ``NOISE * batch / c / E[g |Q - v|^2]``. Of several targets with different class weights, the one
    with the least rate counts. Staleness 1 takes a quarter, and a rate without decay an eighth: a quarter to a
    sixteenth ends with about the same loss, more or less ends higher.

    Parameters
    ----------
    options : TrainingOptions
    X : array [rows, n]
        Up to 4,095 rows, at equal distances, are looked at.
    y : array [rows, targets]
    scaling : Scaling
    ridge : float, default=0.0
        Of the draws (`bitlane.training.ridge`): the hardware must be able to take its steps too.
    """
    if options.learning_rate != AUTO:
        return options
    (rate,) = automatic_rates(options, [options.precision], X, y, scaling, [ridge])
    return replace(options, learning_rate=rate)


def automatic_rates(
    options: TrainingOptions,
    precisions: Sequence[Precision],
    X: Matrix,
    y: Matrix,
    scaling: Scaling,
    ridges: Sequence[float],
) -> list[float]:
    """Return the rate of `with_learning_rate` for each of several precisions and their ridges."""
    some = sample_of(X)
    values, labels = scaling.values(dense_rows(X[some])), y[some]
    curvature = min(CURVATURE[options.objective.loss], STEEP * bounded_rise(options.objective, scaling, labels))
    largest_step = LARGEST * options.batch_size / loss_factor(options.objective.loss)
    most = min(LARGEST / curvature, largest_step)
    targets = []  # mean weight, and the feedback of rows without draws
    for target, (below, other) in enumerate(options.class_weight):
        weights = np.where(labels[:, target] < 0, below, other)
        largest = max(below, other)
        if largest > 0 and weights.any():
            most = min(most, largest_step / largest)
            targets.append((weights.mean(), _feedback(values, weights, options.batch_size) / SHARE / 2))
    share = (STALE if options.staleness else 1.0) * (STEADY if options.decay == 1.0 else 1.0)
    rates = []
    for precision, ridge in zip(precisions, ridges, strict=True):
        penalty = SHARE * options.objective.with_ridge(ridge).largest_rate
        variance = draw_variance(values, precision.base_bits).sum() if precision.draws else 0.0
        noise = variance / NOISE / options.batch_size
        feedback = max((max(rows, weight * noise) for weight, rows in targets), default=0.0)
        rates.append(_two_digits(share * min(most, penalty, 1.0 / max(feedback, 1e-300) / curvature)))
    return rates


def with_steady_rate(options: TrainingOptions, X: Matrix, y: Matrix, scaling: Scaling) -> TrainingOptions:
    """Return options as `with_learning_rate` does, with the rate of a training without decay where it is "auto".

    It suits passes over piece after piece of the data, whose rate does not decay.
    """
    if options.learning_rate != AUTO:
        return options
    steady = with_learning_rate(replace(options, decay=1.0), X, y, scaling)
    return replace(options, learning_rate=steady.learning_rate)


def sample_of(X: Matrix) -> slice:
    """Return up to 4,095 rows of X [rows, n], at equal distances."""
    return slice(None, None, max(1, len(X) // ROWS))


def draw_variance(values: Floats, base_bits: int) -> Floats:
    """Return the mean of ``(Q - v)^2`` over rows for each feature, float64 [m], with draws Q of scaled values v [r, m].

    A row adds ``width^2 p (1 - p)``, with the position p of v in its interval.
    """
    width = 2.0 ** (1 - base_bits)
    place = (values + 1.0) / width
    fraction = place - np.floor(place)  # exact, and several times as fast as np.mod
    variance: Floats = (width**2 * fraction * (1.0 - fraction)).mean(axis=0)
    return variance


def bounded_rise(objective: Objective, scaling: Scaling, labels: Matrix) -> float:
    """Return the bound of the slopes of epsilon_insensitive or huber, 1 or epsilon, over the spread of the labels.

    The spread is the mean distance of scaled labels [r, targets] from their mean; of several targets the largest rise
    counts. It is that of the mean slope over the residuals of a table, and infinite for other losses.
    """
    if objective.loss not in BOUNDED_LOSSES:
        return math.inf
    scaled = scaling.labels(labels) / 2.0**LABEL.fraction
    spread = np.abs(scaled - scaled.mean(axis=0)).mean(axis=0)
    varies = spread > 0
    slope = 1.0 if objective.loss in LINEAR_LOSSES else objective.epsilon / scaling.label_unit[varies]
    rises = slope / spread[varies]
    return max(float(rises.max()), LEAST) if len(rises) else 1.0


def _feedback(values: Floats, weights: Floats, batch_size: int) -> float:
    """Return ``a + E[g^2 |v|^2 (v u)^2] / a / batch`` for values [r, m] and weights [r]; see `with_learning_rate`."""
    vector = np.random.default_rng(0).standard_normal(values.shape[1])
    for _ in range(30):
        vector = values.T @ (weights * (values @ vector)) / len(values)
        length = np.linalg.norm(vector)
        if length == 0.0:
            return 0.0
        vector /= length
    along = weights * (values @ vector) ** 2
    energy = np.einsum("ij,ij->i", values, values)
    a = float(along.mean())
    return a + float((weights * energy * along).mean()) / a / batch_size


def _two_digits(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(value / unit + 1e-9) * unit:.6g}")
