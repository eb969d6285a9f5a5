"""Columns and labels in [-1, 1], and weights back in the user's units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.formats import LABEL
from bitlane.contract.precision import Precision
from bitlane.errors import DataError

Floats = NDArray[np.float64]
Matrix = NDArray[Any]  # of any integer or float type: images need not be copied into floats


@dataclass(frozen=True, eq=False)
class Scaling:
    """How a table became scaled values, `v = (x - center) / scale`, and a model user coefficients.

    Columns that hold one value only carry no information: they have scale 0, are left out of the scaled
    values, and get weight 0. `n` counts all columns, `active` are the others. A fitted intercept either
    follows from the centers, or is the weight of one more stored feature, the last, which is always `one`.

    Parameters
    ----------
    center: float64 [n], user units; the column means when an intercept is fitted, 0 otherwise.
    scale: float64 [n], user units of one scaled unit.
    label_center, label_scale: float64 [targets], likewise for the labels of each target; label_scale 0 where all
        of them are equal.
    fit_intercept: whether an intercept is fitted.
    margins: whether labels are -1 and 1 and scores are margins, which have no unit.
    one: value of the intercept's feature; 0: none is stored.
    """

    center: Floats
    scale: Floats
    label_center: Floats
    label_scale: Floats
    fit_intercept: bool = True
    margins: bool = False
    intercept_value: float = 0.0

    @property
    def active(self) -> NDArray[np.intp]:
        """Columns that are not constant: int [m]."""
        return np.flatnonzero(self.scale)

    @property
    def stored_features(self) -> int:
        """Features that are stored, s: the active columns, and the intercept's where there is one."""
        return len(self.active) + (self.intercept_value != 0)

    @property
    def label_unit(self) -> Floats:
        """User units of a residual of 1.0, float64 [targets]: labels reach 32767 / 32768. 1 for margins."""
        if self.margins:
            return np.ones(len(self.label_scale))
        return np.asarray(self.label_scale * (LABEL.maximum + 1) / LABEL.maximum)

    def values(self, X: Matrix) -> Floats:
        """Rows [r, n] in user units as scaled values float64 [r, s] of the stored features, in [-1, 1]."""
        active = self.active
        columns = X if len(active) == X.shape[1] else X[:, active]
        if not self.intercept_value:
            values: Floats = columns - self.center[active]
            values /= self.scale[active]
            return values
        values = np.full((len(X), len(active) + 1), self.intercept_value)
        np.subtract(columns, self.center[active], out=values[:, :-1])
        values[:, :-1] /= self.scale[active]
        return values

    def columns(self, values: Floats) -> Floats:
        """Scaled values [..., s] of the stored features as [..., n] of all columns in user units: `values` undone."""
        return self.center + self.scale * self.expand(values)

    def labels(self, y: Matrix) -> NDArray[np.int16]:
        """Labels [r, targets] in user units as int16 [r, targets], in units of `2**-15`."""
        scale = np.where(self.label_scale == 0, np.inf, self.label_scale)
        units = np.rint(LABEL.maximum * ((y - self.label_center) / scale))
        labels: NDArray[np.int16] = np.clip(units, -LABEL.maximum, LABEL.maximum).astype(np.int16)
        return labels

    def coefficients(self, weights: Floats) -> tuple[Floats, Floats]:
        """Scaled weights [..., targets, s] as user coefficients [..., targets, n] and intercepts [..., targets]."""
        active, unit = self.active, self.label_unit
        coef = np.zeros((*weights.shape[:-1], len(self.scale)))
        coef[..., active] = weights[..., : len(active)] * unit[:, None] / self.scale[active]
        if not self.fit_intercept:
            return coef, np.zeros(weights.shape[:-1])
        intercept = self.label_center - (coef * self.center).sum(axis=-1)
        return coef, intercept + unit * self.intercept_value * weights[..., -1] if self.intercept_value else intercept

    def weights(self, coef: Floats, intercept: Floats) -> Floats:
        """Scaled weights [targets, s] of coefficients [targets, n] and intercepts [targets] in user units.

        An intercept that is not stored follows from the centers, whatever is given.
        """
        active = self.active
        unit = np.where(self.label_unit == 0, np.inf, self.label_unit)
        weights: Floats = coef[:, active] * self.scale[active] / unit[:, None]
        if not self.intercept_value:
            return weights
        constant = (intercept - self.label_center + (coef * self.center).sum(axis=-1)) / (unit * self.intercept_value)
        return np.column_stack([weights, constant])

    def expand(self, weights: Floats) -> Floats:
        """Numbers [..., s] of the stored features as [..., n] of all columns, 0 for the constant ones."""
        full = np.zeros((*weights.shape[:-1], len(self.scale)))
        full[..., self.active] = weights[..., : len(self.active)]
        return full

    def for_targets(self, targets: NDArray[np.intp], outputs: int) -> Scaling:
        """The scaling of some targets alone, and then of spare ones up to `outputs`, whose labels are 0."""
        spare = (0, outputs - len(targets))
        return replace(
            self,
            label_center=np.pad(self.label_center[targets], spare),
            label_scale=np.pad(self.label_scale[targets], spare),
        )


def intercept_value(precision: Precision) -> float:
    """The largest value that this precision reads exactly as it was: 1, or the outermost middle."""
    return 1.0 if precision.draws else 1.0 - 2.0**-precision.bits


def fit_scaling(
    X: Matrix,
    y: Matrix,
    fit_intercept: bool = True,
    limit: float = 1.0,
    *,
    margins: bool = False,
    intercept_value: float = 0.0,
) -> Scaling:
    """The scaling that brings a table into `[-limit, limit]` and labels into [-1, 1].

    Parameters
    ----------
    X: integers or floats [rows, n], finite.
    y: integers or floats [rows, targets], finite; each target is scaled by itself.
    fit_intercept: whether to centre columns, and labels that are not margins, on their means.
    limit: `Precision.limit`; the factor `1 - 2**-bits` of naive sampling, which the scales absorb.
    margins, one: as `Scaling` has them.

    Raises
    ------
    DataError: values so large that their range is not finite.
    """
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    center = np.zeros(X.shape[1])
    label_center, label_scale = np.zeros(y.shape[1]), np.ones(y.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        if fit_intercept:
            center = np.clip(X.mean(axis=0, dtype=np.float64), low, high)
        scale = np.maximum(high - center, center - low) / limit
        if not margins:
            label_center, label_scale = _label_scaling(y, fit_intercept)
    if not (np.isfinite(scale).all() and np.isfinite(label_scale).all()):
        raise DataError("X or y holds values so large that their range overflows: divide them by a constant")
    return Scaling(
        center, scale, label_center, label_scale, fit_intercept, margins, intercept_value if fit_intercept else 0.0
    )


def _label_scaling(y: Matrix, fit_intercept: bool) -> tuple[Floats, Floats]:
    """Centers and scales [targets] of labels [rows, targets]."""
    center = np.zeros(y.shape[1])
    if fit_intercept:
        center = np.array([column.mean(dtype=np.float64) for column in np.ascontiguousarray(y.T)])
    scale = np.abs(y - center).max(axis=0)
    if fit_intercept:  # the mean of equal numbers may differ from them
        equal = y.min(axis=0) == y.max(axis=0)
        center, scale = np.where(equal, y[0], center), np.where(equal, 0.0, scale)
    return center, scale
