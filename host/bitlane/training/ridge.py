"""The ridge that double sampling needs: an L2 penalty against what draws do to a training over many epochs.

Two causes let weights grow without end in directions in which the data has little variance:

- Fixed draw sets. The mean over the sets of ``sym(Q1' Q2) / rows``, which takes the place of ``X'X / rows``, has
  negative eigenvalues. With errors of variance V in R rows of n features, the mean product of both errors has a norm of
  about ``V q sqrt(2 n / R)``, that of a random symmetric matrix, and the noise of its means ``V q^2 n / 2R``. Here q is
  1 for one set, ``1 / sqrt(E)`` for E independent ones, and 1/8 and 1/16 for 4 x 2 and 4 x 4 strata.
- The bias of the slope. The draws of a row add noise of the variance ``s^2 = V |w|^2`` to its score z, which changes
  the mean slope of log loss and hinge by ``s^2 slope''(z) / 2`` and pulls weights outwards like a negative ridge of
  ``V E[-z slope''(z)] / 2``. Over margins of 0.5 to 4 that is 0.04 to 0.08 V for log loss, and for hinge half of V
  times the density of margins at 1, for squared_hinge and modified_huber twice that. Where the noise is wider than
  the slope, at few bits, it is less. Residuals lie as often above as below the label, and have no such bias.

Of a rare class most slopes are flat: with the share p of its rows the curvature of log loss is about p (1 - p), so that
both parts are multiplied by about 4 p (1 - p) for losses of margins (`class_balances`).

The ridge is the sum of both. It shrinks weights less than the draws disturb them, and 8 bits need none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bitlane.contract.draws import GROUP_SETS, STRATUM_BITS, DrawSet
from bitlane.contract.precision import Precision
from bitlane.quantization.row_table import dense_rows
from bitlane.quantization.scaling import Matrix, Scaling
from bitlane.support.user_warnings import warn_user

from .learning_rate import bounded_rise, draw_variance
from .objective import Objective
from .options import TrainingOptions

ROWS = 512  # looked at
BITS = 8  # from which on there is no ridge
COVERAGE = 1.2  # the least eigenvalue of a table is up to 1.11 times the norm of a random matrix below 0
CURVATURE = {  # of the loss, at typical margins and residuals, or `bounded_rise` if that is less
    **{"squared_error": 1.0, "log_loss": 0.25, "hinge": 0.5, "squared_hinge": 1.0, "modified_huber": 1.0},
    **{"huber": 1.0, "epsilon_insensitive": np.inf, "squared_epsilon_insensitive": 2.0},
}
BIAS = {"log_loss": 0.04, "hinge": 0.1, "squared_hinge": 0.2, "modified_huber": 0.2}  # E[-z slope''(z)] / 2, or 0
WIDE = 1.6  # the bias is divided by 1 + WIDE * V: about pi / 8 * |w|^2 for weights of length 2
ROOM = 0.9  # of the change of a weight in a batch that the hardware can make
GROWTH = 1.0  # natural logarithm of the growth of weights above which a training without its ridge warns
# Correlation of two draws of a value anywhere in its interval, by the exclusive or of their strata.
CORRELATION = np.array([1.0, 1 / 4, -1 / 2, -1 / 2])


def draw_ridges(
    options: TrainingOptions, precisions: Sequence[Precision], X: Matrix, y: Matrix, scaling: Scaling
) -> list[float]:
    """Return the strength of the ridge, 0 or more, in scaled units, for each of several precisions.

    It does not depend on the epochs, so that a resumed training has that of one that never stopped.

    Parameters
    ----------
    options : TrainingOptions
        Its precision aside.
    precisions : sequence of Precision
    X : array [rows, n]
        Up to 1,023 rows, at equal distances, are looked at.
    y : array [rows, targets]
    scaling : Scaling
    """
    loss, some = options.objective.loss, slice(None, None, max(1, len(X) // ROWS))
    values = scaling.values(dense_rows(X[some]))
    curvature = min(CURVATURE[loss], bounded_rise(options.objective, scaling, y[some]))
    ridges = []
    for precision in precisions:
        ridge = 0.0
        if precision.draws and precision.bits < BITS:
            by_feature = draw_variance(values, precision.base_bits)
            total = by_feature.sum()
            variance = (by_feature**2).sum() / max(total, 1e-300)  # features without draws do not count
            disturbed = total / max(variance, 1e-300) / (len(X) / options.shards)
            q = repeated_share(options.draws)
            ridge = variance * COVERAGE * curvature * (q * np.sqrt(2 * disturbed) + q**2 * disturbed / 2)
            ridge += variance * BIAS.get(loss, 0.0) / (1 + WIDE * variance)
        ridges.append(float(ridge))
    return ridges


def class_balances(options: TrainingOptions, y: Matrix) -> list[float]:
    """Return the share of the ridge that each target of y [rows, targets] takes: 1 for losses of residuals.

    For losses of margins it is 4 p (1 - p), with the weighted share p of the rows of a class, times the mean weight,
    as the next power of two, so that classes of a like size share a pass over the data.
    """
    if not options.objective.margins:
        return [1.0] * y.shape[1]
    found = []
    for target, (below, other) in enumerate(map(options.class_weight_of, range(y.shape[1]))):
        positive = float(np.mean(y[:, target] > 0))
        low, high = below * (1 - positive), other * positive
        share = 4 * low * high / max(low + high, 1e-300)
        found.append(2.0 ** np.ceil(np.log2(share)) if share > 0 else 0.0)
    return found


def repeated_share(draws: int | str) -> float:
    """Return q: the standard deviation of the mean product of the errors of both draws over that of a single set."""
    if draws == "epoch":
        return 0.0
    sets = 1 if draws == "once" else int(draws)
    variance = 0.0
    for first in range(0, sets, GROUP_SETS):
        numbers = range(min(GROUP_SETS, sets - first))
        of_first, of_second = (np.array([_stratum(number, high) for number in numbers]) for high in (True, False))
        products = [CORRELATION[strata[:, None] ^ strata] for strata in (of_first, of_second)]
        variance += (products[0] * products[1]).sum() / sets**2
    return float(np.sqrt(variance))


def _stratum(number: int, high: bool) -> int:
    """Return the stratum, 0 to 3, of the first draw (high) or the second one of a set of a group."""
    mask = int(DrawSet(0, number).mask)
    return mask >> max(STRATUM_BITS) - 1 & 3 if high else mask >> min(STRATUM_BITS) & 3


def ridge_that_fits(options: TrainingOptions, ridge: float) -> float:
    """Return the ridge of a training whose learning rate is a number: what the penalty step can hold.

    "auto" chooses a rate that has room for all of it. A rate that is given is not changed; then a part of the ridge is
    left out.
    """
    assert not isinstance(options.learning_rate, str)
    if not options.objective.takes_ridge:
        return 0.0
    room = ROOM * Objective(penalty="l2", alpha=1.0).largest_rate / max(options.learning_rate, 1e-300)
    return min(ridge, max(room - options.objective.strengths[1], 0.0))


def warn_without_ridge(options: TrainingOptions, ridge: float, rows: int) -> None:
    """Warn of an l1 penalty or bounds, which leave no room for a ridge, where the draws can make weights grow."""
    assert not isinstance(options.learning_rate, str)
    if options.objective.takes_ridge:
        return
    decays = (1 - options.decay**options.epochs) / (1 - options.decay) if options.decay < 1 else options.epochs
    if ridge * options.learning_rate * rows / options.batch_size * decays < GROWTH:
        return
    taken = "penalty='l1'" if options.objective.bounds is None else "bounds"
    warn_user(
        f"{options.epochs} epochs of draws need a ridge of {ridge:.2g}, which cannot be added to {taken}: the loss may "
        "rise with the epochs; use fewer epochs, bits=8 or penalty='l2'"
    )
