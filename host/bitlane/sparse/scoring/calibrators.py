"""Calibrators: maps of log odds to log odds that agree with the labels of held-out rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

PLATT, ISOTONIC = CALIBRATORS = ("platt", "isotonic")

Floats = NDArray[np.float32]


class Calibrator(Protocol):
    """What a `FrozenModel` needs to calibrate its scores."""

    def __call__(self, scores: Floats) -> Floats:
        """Return calibrated log odds of log odds, float32 [rows]. NaN and infinite ones stay as they are."""
        ...


class PlattCalibrator:
    """A line through the log odds: ``slope * score + intercept``.

    Platt, "Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods", 1999.

    Parameters
    ----------
    slope : float
        Above 0: the order of the rows stays.
    intercept : float

    Raises
    ------
    DataError
        One is out of range.
    """

    def __init__(self, slope: float, intercept: float):
        if not (math.isfinite(slope) and slope > 0 and math.isfinite(intercept)):
            raise DataError(f"slope must be above 0 and finite, intercept finite; got {slope:g} and {intercept:g}")
        self._slope, self._intercept = slope, intercept

    def __call__(self, scores: Floats) -> Floats:
        """Return calibrated log odds, see `Calibrator`. None is beyond the largest float32."""
        largest = np.finfo(np.float32).max
        found = np.clip(self._slope * scores.astype(np.float64) + self._intercept, -largest, largest)
        return _finite_only(scores, found)


class IsotonicCalibrator:
    """A function that never falls: lines between the probabilities of some scores, and flat outside them.

    Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass probability estimates", 2002.

    Parameters
    ----------
    scores : float32 [knots]
        Log odds, ascending.
    probabilities : float32 [knots]
        Above 0 and below 1, never falling.

    Raises
    ------
    DataError
        They are no such knots.
    """

    def __init__(self, scores: Floats, probabilities: Floats):
        self._scores, self._probabilities = scores.astype(np.float64), probabilities.astype(np.float64)
        inside = (self._probabilities > 0) & (self._probabilities < 1)
        if not (
            self._scores.shape == self._probabilities.shape == (max(1, self._scores.size),)
            and np.isfinite(self._scores).all()
            and (np.diff(self._scores) > 0).all()
            and inside.all()
            and (np.diff(self._probabilities) >= 0).all()
        ):
            raise DataError("its scores must ascend, and its probabilities be above 0, below 1 and never fall")

    def __call__(self, scores: Floats) -> Floats:
        """Return calibrated log odds, see `Calibrator`."""
        found = np.interp(scores.astype(np.float64), self._scores, self._probabilities)
        return _finite_only(scores, np.log(found) - np.log1p(-found))


def read_calibrator(record: Mapping[str, Any] | None, version: str) -> Calibrator | None:
    """Return the calibrator of a record; None if there is none.

    Parameters
    ----------
    record : mapping or None
        ``kind``, and ``slope`` and ``intercept``, or ``scores`` and ``probabilities``.
    version : str
        Whose it is, for messages.

    Raises
    ------
    DataError
        The record is damaged, or of an unknown kind.
    """
    if record is None:
        return None
    try:
        kind = record["kind"]
        if kind == PLATT:
            return PlattCalibrator(float(record["slope"]), float(record["intercept"]))
        if kind == ISOTONIC:
            return IsotonicCalibrator(*(np.asarray(record[each], np.float32) for each in ("scores", "probabilities")))
    except (KeyError, TypeError, ValueError, DataError) as error:
        raise DataError(f"the calibrator of {version} is damaged: {error}") from error
    raise DataError(f"the calibrator of {version} is of kind {kind!r}; known are {', '.join(CALIBRATORS)}")


def _finite_only(scores: Floats, calibrated: NDArray[np.float64]) -> Floats:
    """Return calibrated scores, but those that were not finite as they were: checks must see them."""
    return np.asarray(np.where(np.isfinite(scores), calibrated, scores), np.float32)
