"""Mini-batch SGD in float64, with the data and the schedule of the accelerator: the baseline of comparisons."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bitlane.quantization.scaling import Floats, fit_scaling

from .schedules import TrainingSchedule

SLOPES: dict[str, Callable[[Floats, Floats], Floats]] = {  # derivatives of the losses by the score
    "squared_error": lambda scores, labels: scores - labels,
    "hinge": lambda scores, labels: np.where(labels * scores < 1, -labels, 0.0),
    "log_loss": lambda scores, labels: -labels * np.exp(-np.logaddexp(0.0, labels * scores)),
}


def float_models(X: Floats, y: Floats, schedule: TrainingSchedule) -> tuple[Floats, Floats]:
    """Return the models after each epoch, in user units.

    Parameters
    ----------
    X : float64 array [rows, n]
        Read in the order of the rows.
    y : float64 array [rows]
        -1 and 1 for hinge and log_loss.
    schedule : TrainingSchedule

    Returns
    -------
    coefficients : float64 array [epochs, n]
        Infinite after a training that diverged.
    intercepts : float64 array [epochs]
    """
    margins = schedule.loss != "squared_error"
    scaling = fit_scaling(X, y[:, None], schedule.fit_intercept, margins=margins, intercept_value=float(margins))
    values = scaling.values(X)
    unit = scaling.label_unit[0]
    labels = (y - scaling.label_center[0]) / unit if unit else np.zeros(len(y))
    slope, rate = SLOPES[schedule.loss], schedule.learning_rate
    weights, models = np.zeros(values.shape[1]), []
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(schedule.epochs):
            for start in range(0, len(values), schedule.batch_size):
                batch = slice(start, start + schedule.batch_size)
                v = values[batch]
                weights = weights - rate / schedule.batch_size * (slope(v @ weights, labels[batch]) @ v)
            rate *= schedule.decay
            models.append(weights)
        coefficients, intercepts = scaling.coefficients(np.array(models)[:, None])
    return coefficients[:, 0], intercepts[:, 0]
