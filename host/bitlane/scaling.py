"""Columns and labels in [-1, 1], and weights back in the user's units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .contract import LABEL
from .errors import DataError

Floats = NDArray[np.float64]
Table = NDArray[Any]  # of any integer or float type: images need not be copied into floats


@dataclass(frozen=True, eq=False)
class Scaling:
    """How a table became scaled values, `v = (x - center) / scale`.

    Columns that hold one value only carry no information: they have scale 0, are left out of the scaled
    values, and get weight 0. `n` counts all columns, `active` are the others.

    Parameters
    ----------
    center: float64 [n], user units; the column means when an intercept is fitted, 0 otherwise.
    scale: float64 [n], user units of one scaled unit.
    label_center, label_scale: likewise for the labels; label_scale 0 where all labels are equal.
    fit_intercept: whether an intercept is fitted.
    """

    center: Floats
    scale: Floats
    label_center: float
    label_scale: float
    fit_intercept: bool = True

    @property
    def active(self) -> NDArray[np.intp]:
        """Columns that are not constant: int [m]."""
        return np.flatnonzero(self.scale)

    @property
    def label_unit(self) -> float:
        """User units of a residual of 1.0: labels reach 32767 / 32768."""
        return self.label_scale * (LABEL.maximum + 1) / LABEL.maximum

    def values(self, X: Table) -> Floats:
        """Rows [r, n] in user units as scaled values float64 [r, m] of the active columns, in [-1, 1]."""
        active = self.active
        columns = X if len(active) == X.shape[1] else X[:, active]
        values: Floats = columns - self.center[active]
        values /= self.scale[active]
        return values

    def labels(self, y: Table) -> NDArray[np.int16]:
        """Labels [r] in user units as int16 [r], in units of `2**-15`."""
        if self.label_scale == 0:
            return np.zeros(len(y), np.int16)
        scaled = (y - np.float64(self.label_center)) / self.label_scale
        units = np.rint(LABEL.maximum * scaled)
        labels: NDArray[np.int16] = np.clip(units, -LABEL.maximum, LABEL.maximum).astype(np.int16)
        return labels

    def coefficients(self, weights: Floats) -> tuple[Floats, float]:
        """Scaled weights [m] of the active columns as user coefficients [n] and intercept."""
        coef = np.zeros(len(self.scale))
        coef[self.active] = weights * self.label_unit / self.scale[self.active]
        intercept = self.label_center - float(coef @ self.center) if self.fit_intercept else 0.0
        return coef, intercept

    def weights(self, coef: Floats) -> Floats:
        """Scaled weights [m] that stand for user coefficients [n]; the intercept follows from the centers."""
        active = self.active
        if self.label_unit == 0:
            return np.zeros(len(active))
        return np.asarray(coef[active] * self.scale[active] / self.label_unit)

    def expand(self, weights: Floats) -> Floats:
        """Scaled weights [..., m] of the active columns as [..., n], 0 for the constant ones."""
        full = np.zeros((*weights.shape[:-1], len(self.scale)))
        full[..., self.active] = weights
        return full


def fit_scaling(X: Table, y: Table, fit_intercept: bool = True, limit: float = 1.0) -> Scaling:
    """The scaling that brings a table into `[-limit, limit]` and labels into [-1, 1].

    Parameters
    ----------
    X: integers or floats [rows, n], finite.
    y: integers or floats [rows], finite.
    fit_intercept: whether to centre columns and labels on their means; no intercept feature is needed then.
    limit: `Precision.limit`; the factor `1 - 2**-bits` of naive sampling, which the scales absorb.

    Raises
    ------
    DataError: values so large that their range is not finite.
    """
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    center = np.zeros(X.shape[1])
    label_center = 0.0
    if fit_intercept:
        with np.errstate(over="ignore", invalid="ignore"):
            center = np.clip(X.mean(axis=0, dtype=np.float64), low, high)
            label_center = float(y.mean(dtype=np.float64))
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.maximum(high - center, center - low) / limit
        label_scale = float(np.abs(y - np.float64(label_center)).max())
    if not (np.isfinite(scale).all() and np.isfinite(label_scale)):
        raise DataError("X or y holds values so large that their range overflows: divide them by a constant")
    if fit_intercept and y.min() == y.max():
        label_center, label_scale = float(y[0]), 0.0
    return Scaling(center, scale, label_center, label_scale, fit_intercept)
