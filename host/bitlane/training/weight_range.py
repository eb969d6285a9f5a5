"""The range of the weights of a training: a power of two, chosen from its table before it begins."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bitlane.contract.formats import LABEL, WEIGHT_EXPONENT
from bitlane.quantization.row_table import dense_rows
from bitlane.quantization.scaling import WEIGHT_LIMIT, Floats, Matrix, Scaling

from .conjugate_gradients import conjugate_gradients
from .learning_rate import sample_of
from .losses import loss_factor
from .options import TrainingOptions

LARGEST_WEIGHT = math.ldexp(WEIGHT_LIMIT, WEIGHT_EXPONENT.maximum)
LARGEST_MARGIN = 32.0  # of one column: sums of columns cancel, and dot products end at 8
LABEL_UNITS = 2.0**LABEL.fraction
ITERATIONS = 30  # of conjugate gradients
LEAST_RATE = 2.0**-40  # a rate of 0 or less is refused later
LOWEST = 64.0  # part of the automatic rate, where labels leave no noise
ROOM = 2.0  # a rounded model has this range over its largest weight


def with_weight_range(
    options: TrainingOptions, automatic: bool, X: Matrix, y: Matrix, scaling: Scaling, initial: float = 0.0
) -> tuple[TrainingOptions, Scaling]:
    """Return a scaling with the exponent e of the weights, which lie in ``[-8, 8) * 2**e``, and options that suit it.

    Without random rounding of the model, e is the least one, 0 or more, that no weight of the training should need
    more than (`_reach`). A rounded model has 2**model_bits values in its range, so the range is as small as the
    weights allow: twice the largest weight of the least-squares solution for some rows. What random rounding adds to
    the noise of a gradient, over the noise that the labels leave, lowers a rate that is automatic by its share.

    Parameters
    ----------
    options : TrainingOptions
        With a number as learning rate.
    automatic : bool
        Whether that rate was computed, so that it may be lowered.
    X : array [rows, n]
        Up to 4,095 rows, at equal distances, are looked at.
    y : array [rows, targets]
    scaling : Scaling
    initial : float, default=0.0
        The largest scaled weight that the training begins with.
    """
    some = sample_of(X)
    values, labels = scaling.values(dense_rows(X[some])), scaling.labels(y[some]) / LABEL_UNITS
    reach = max(initial, _reach(options, values, len(X)))
    if not options.random_rounding:
        return options, replace(scaling, weight_exponent=max(0, _exponent(reach)))
    weights = least_squares(values, labels)
    noise = float(np.mean(np.square(labels - values @ weights), axis=0).min())
    if options.model_bits is None:
        exponent = max(0, _exponent(reach))
    else:  # the reach is of sure predictions too, which least squares do not make
        largest = reach if options.objective.margins else initial
        exponent = _exponent(max(largest, np.abs(weights).max() * ROOM))
    rate = float(options.learning_rate)
    exponent = max(exponent, math.ceil(math.log2(max(rate, LEAST_RATE) / options.batch_size)), WEIGHT_EXPONENT.minimum)
    if automatic:
        rate /= min(1 + _rounding_noise(options, values, exponent) / max(noise, 1e-300), LOWEST)
    return replace(options, learning_rate=rate), replace(scaling, weight_exponent=exponent)


def least_squares(values: Floats, labels: Floats) -> Floats:
    """Return the weights [s, targets] of least squares after `ITERATIONS` conjugate gradients from 0."""
    ones, free = np.ones(len(values)), np.zeros(values.shape[1])
    gradients = values.T @ labels / len(values)
    return np.column_stack([conjugate_gradients(values, ones, free, each, ITERATIONS) for each in gradients.T])


def _reach(options: TrainingOptions, values: Floats, rows: int) -> float:
    """Return how far a weight may go in a training, in scaled units, whatever the labels are.

    A weight that alone explains labels of 1, or makes the largest margin m, is 1 / v, or m / v, where v is the root
    mean square of its column. Steps whose sum is t, however many epochs there are, take it to at most t v, as slopes
    are at most about 1, or 2 where the loss is twice that of the device. The lesser of both is how far it goes; the
    column with the largest one decides. Bounds hold all of them.
    """
    if options.objective.bounds is not None:
        return 0.0
    column = np.sqrt(np.mean(np.square(values), axis=0))
    column = column[column > 0]
    largest = LARGEST_MARGIN if options.objective.margins else 1.0
    epochs = math.inf if options.decay == 1 else 1 / (1 - options.decay)
    rate = loss_factor(options.objective.loss) * float(options.learning_rate)
    steps = rate * epochs * math.ceil(rows / options.batch_size)
    return float(np.minimum(largest / column, steps * column).max(initial=0.0))


def _exponent(largest: float) -> int:
    """Return the least exponent with which weights up to this size, or the largest possible ones, are within range."""
    return min(math.ceil(math.log2(max(largest, 1e-300) / WEIGHT_LIMIT)), WEIGHT_EXPONENT.maximum)


def _rounding_noise(options: TrainingOptions, values: Floats, exponent: int) -> float:
    """Return the mean variance that random rounding adds to the slope of a row; a sixth of a unit squared each time."""
    model = gradient = 0.0
    if options.model_bits is not None:
        unit = 2 * WEIGHT_LIMIT * 2.0 ** (exponent - options.model_bits)
        model = float(np.square(values).sum(axis=1).mean()) * unit**2 / 6
    if options.gradient_bits is not None:
        gradient = 4.0 ** (1 - options.gradient_bits) / 6
    return model + gradient
