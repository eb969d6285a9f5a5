"""Fitting a calibrator to the scores of held-out rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.registry.held_out import score_held_out
from bitlane.sparse.scoring.calibrators import PLATT, read_calibrator
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.training.windows import measure
from bitlane.support.optional import require_extra

MOST_KNOTS = 500
LEAST_PROBABILITY = 1e-6

Numbers = NDArray[np.float64]
Floats = NDArray[np.float32]


def fit_calibrator(model: FrozenModel, batches: Iterable[Batch], kind: str) -> dict[str, Any]:
    """Fit a calibrator to the scores of a model.

    Parameters
    ----------
    model : FrozenModel
        Without a calibrator.
    batches : iterable of Batch
        Rows that the model has not learned.
    kind : {"platt", "isotonic"}

    Returns
    -------
    dict
        For the manifest: ``kind``; ``slope`` and ``intercept`` of `fit_platt`, or ``scores``, ``probabilities`` and
        ``error`` of `thinned`; ``held_out_rows``; ``before`` and ``after``, each with ``log_loss`` and ``calibration``
        on these rows.

    Raises
    ------
    DataError
        The model is of another loss than log loss, a score is not finite, the rows have one class only, their scores
        are all equal, or higher scores do not have more labels of 1.
    BitlaneError
        scikit-learn is missing.
    """
    check_calibrated_loss(model.spec.loss)
    scored = score_held_out([model], batches)
    scores, labels, weights = scored.scores[0], scored.labels, scored.weights
    _check(scores, labels)
    if kind == PLATT:
        slope, intercept = fit_platt(scores, labels, weights)
        if slope <= 0:
            raise DataError(_falling(len(labels), f"the slope of their fit is {slope:.3g}"))
        fitted: dict[str, Any] = {"slope": slope, "intercept": intercept}
    else:
        knots, probabilities = fit_isotonic(scores, labels, weights)
        if probabilities[0] == probabilities[-1]:
            raise DataError(_falling(len(labels), f"their fit is {probabilities[0]:.3g} everywhere"))
        knots, probabilities, error = thinned(knots, probabilities)
        fitted = {"scores": knots.tolist(), "probabilities": probabilities.tolist(), "error": error}
    calibrator = read_calibrator({"kind": kind, **fitted}, "this model")
    assert calibrator is not None
    before, after = (measure(each, labels, "log_loss", weights) for each in (scores, calibrator(scores)))
    return {
        "kind": kind,
        **fitted,
        "held_out_rows": len(labels),
        "before": {"log_loss": before.log_loss, "calibration": before.calibration},
        "after": {"log_loss": after.log_loss, "calibration": after.calibration},
    }


def check_calibrated_loss(loss: str) -> None:
    """Raise DataError if scores of a loss are no log odds."""
    if loss != "log_loss":
        raise DataError(f"a calibrator needs a model of log_loss; this one has {loss}: publish it without --calibrate")


def fit_platt(scores: Floats, labels: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """Return slope and intercept of Platt's line.

    As in Platt (1999), the target of a label 1 is ``(n1 + 1) / (n1 + 2)`` and that of a label 0 ``1 / (n0 + 2)``, with
    n1 and n0 rows of each: so the fit is finite if scores separate the labels. scikit-learn's logistic regression has
    no targets between 0 and 1, so each row is there twice, with both labels, and the target is its weight.

    Parameters
    ----------
    scores : float32 [rows]
        Not all equal.
    labels : float32 [rows]
        0 or 1, both of them.
    weights : float32 [rows], optional
        How many rows each one counts as, above 0.

    Raises
    ------
    BitlaneError
        scikit-learn is missing.
    """
    models = require_extra("sklearn.linear_model", "--calibrate", "'bitlane[datasets]'")
    positive = labels > 0
    counts = np.ones(len(labels)) if weights is None else weights.astype(np.float64)
    ones, zeros = float(counts[positive].sum()), float(counts[~positive].sum())
    targets = np.where(positive, (ones + 1) / (ones + 2), 1 / (zeros + 2))
    wide = scores.astype(np.float64)
    centre, scale = float(wide.mean()), float(wide.std())
    inputs = ((wide - centre) / scale)[:, None]
    regression = models.LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-9, max_iter=1000)
    regression.fit(
        np.concatenate([inputs, inputs]),
        np.repeat([1, 0], len(labels)),
        sample_weight=np.concatenate([counts * targets, counts * (1 - targets)]),
    )
    slope = float(regression.coef_[0, 0]) / scale
    return slope, float(regression.intercept_[0]) - slope * centre


def fit_isotonic(scores: Floats, labels: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the knots of the function of scores that never falls and is nearest to the labels.

    Zadrozny and Elkan (2002). Rows of one score count as one with their mean label. Probabilities are at least half a
    label among all rows, ``1 / (2 (rows + 1))``, or 1e-6 if that is more, and at most 1 minus that: log odds are
    finite.

    Parameters
    ----------
    scores : float32 [rows]
    labels : float32 [rows]
        0 or 1.
    weights : float32 [rows], optional
        How many rows each one counts as, above 0.

    Returns
    -------
    scores : float32 [knots]
        First and last ones of each block of equal probability, ascending.
    probabilities : float32 [knots]

    Raises
    ------
    BitlaneError
        scikit-learn is missing.
    """
    isotonic = require_extra("sklearn.isotonic", "--calibrate", "'bitlane[datasets]'")
    wide = None if weights is None else weights.astype(np.float64)
    fitted = isotonic.IsotonicRegression().fit(scores.astype(np.float64), labels.astype(np.float64), wide)
    rows = len(labels) if wide is None else wide.sum()
    least = max(0.5 / (rows + 1), LEAST_PROBABILITY)
    probabilities = np.clip(fitted.y_thresholds_, least, 1 - least)
    return fitted.X_thresholds_.astype(np.float32), probabilities.astype(np.float32)


def thinned(scores: Floats, probabilities: Floats, most: int = MOST_KNOTS) -> tuple[Floats, Floats, float]:
    """Return at most so many of the knots, the next one always where the function is furthest off.

    Parameters
    ----------
    scores, probabilities : float32 [knots]
        Of `fit_isotonic`.
    most : int, default=500
        At least 2.

    Returns
    -------
    scores, probabilities : float32 [kept]
    error : float
        The most by which the logarithm of the probability of label 1, or of label 0, is off at any score; 0 if all
        knots are kept. Between two knots both functions are lines, and the ratio of two lines is largest at an end.
    """
    x, p = scores.astype(np.float64), probabilities.astype(np.float64)
    if len(x) <= most:
        return scores, probabilities, 0.0
    kept = np.zeros(len(x), np.bool_)
    kept[[0, -1]] = True
    for _ in range(most - 2):
        kept[np.argmax(_errors(x, p, kept))] = True
    return scores[kept], probabilities[kept], float(_errors(x, p, kept).max())


def _errors(x: Numbers, p: Numbers, kept: NDArray[np.bool_]) -> Numbers:
    near = np.interp(x, x[kept], p[kept])
    errors: Numbers = np.maximum(np.abs(np.log(near / p)), np.abs(np.log1p(-near) - np.log1p(-p)))
    return errors


def _check(scores: Floats, labels: Floats) -> None:
    finite = np.isfinite(scores)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DataError(f"the score of held-out row {row} is {scores[row]:g}: the model cannot be calibrated")
    if labels.min() == labels.max():
        raise DataError(
            f"the {len(labels):,} held-out rows all have label {labels[0]:g}: a calibrator needs both labels; give "
            "other rows"
        )
    if scores.min() == scores.max():
        raise DataError(
            f"the scores of the {len(labels):,} held-out rows are all {scores[0]:g}: there is nothing to calibrate; "
            "give other rows, or publish without --calibrate"
        )


def _falling(rows: int, fit: str) -> str:
    return (
        f"higher scores do not mean more labels of 1 on the {rows:,} held-out rows, {fit}: give other rows, or publish "
        "without --calibrate"
    )
