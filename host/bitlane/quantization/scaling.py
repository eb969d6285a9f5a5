"""Scaling of columns and labels to [-1, 1], and of weights back to user units."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.formats import LABEL, WEIGHT
from bitlane.contract.precision import Precision
from bitlane.errors import DataError

from .columns import ColumnUnits, plain_columns
from .ranges import Ranges, TableRanges
from .row_table import dense_pieces

Floats = NDArray[np.float64]
Matrix = NDArray[Any]  # of any integer or float type: images need not be copied into floats

WEIGHT_LIMIT = -float(WEIGHT.minimum) * 2.0**-WEIGHT.fraction  # stored weights lie within it
RECIPROCAL_BITS = 24  # significant bits of 1 / scale: times a float32 it is exact in float64
LEAST_SCALE = 2.0**-900  # below it, 1 / scale times any precision may overflow


@dataclass(frozen=True, eq=False)
class Scaling:
    """The scaling of a table, ``v = (x - center) / scale``, and of a model back to user units.

    A column that holds one value carries no information: it has scale 0, is not stored, and gets weight 0. A fitted
    intercept either follows from the centers, or is the weight of one more stored feature, the last, with a constant
    value. Values beyond the scale of their column are stored as -1 or 1.

    Attributes
    ----------
    center : float64 array [n]
        User units: where an intercept is fitted the column means, or the centers of `ColumnUnits`; otherwise 0.
    scale : float64 array [n]
        User units of one scaled unit, the reciprocal of a number with 24 significant bits; 0 for a constant column.
    label_center, label_scale : float64 arrays [targets]
        The same for the labels of each target; `label_scale` is 0 if all labels are equal.
    fit_intercept : bool
    margins : bool
        Whether labels are -1 and 1 and scores are margins, which have no unit.
    intercept_value : float
        Value of the stored feature of the intercept; 0 if none is stored.
    weight_exponent : int
        Stored weights count ``2**weight_exponent`` times.
    clipped : float64 array [n], optional
        Share of the values of each column that are beyond its scale; None if no column was clipped.
    """

    center: Floats
    scale: Floats
    label_center: Floats
    label_scale: Floats
    fit_intercept: bool = True
    margins: bool = False
    intercept_value: float = 0.0
    weight_exponent: int = 0
    clipped: Floats | None = None

    @property
    def active(self) -> NDArray[np.intp]:
        """Indices of the columns that are not constant: int [m]."""
        return np.flatnonzero(self.scale)

    @property
    def stored_features(self) -> int:
        """Number of stored features, s: the active columns, and the feature of the intercept if it is stored."""
        return len(self.active) + (self.intercept_value != 0)

    @property
    def label_unit(self) -> Floats:
        """User units of a residual of 1.0, float64 [targets]; 1 for margins. Labels reach 32767 / 32768."""
        if self.margins:
            return np.ones(len(self.label_scale))
        return np.asarray(self.label_scale * (LABEL.maximum + 1) / LABEL.maximum)

    @property
    def weight_limit(self) -> float:
        """What scaled weights lie within."""
        return math.ldexp(WEIGHT_LIMIT, self.weight_exponent)

    def values(self, X: Matrix) -> Floats:
        """Return rows [r, n] in user units as scaled values, float64 [r, s], in [-1, 1]."""
        X, active = np.asarray(X), self.active
        columns = X if len(active) == X.shape[1] else X[:, active]
        values = np.full((len(X), self.stored_features), self.intercept_value)
        of_columns = values[:, : len(active)]
        with np.errstate(over="ignore"):
            np.subtract(columns, self.center[active], out=of_columns)
            of_columns /= self.scale[active]
        np.clip(of_columns, -1.0, 1.0, out=of_columns)
        return values

    def clipped_shares(self, X: Matrix, features: Ranges, limit: float) -> Floats | None:
        """Return the share of the values of each column of X [rows, n] that are beyond its scale; None if none is.

        Parameters
        ----------
        X : array or RowTable of integers or floats
        features : Ranges
            Of X, or of more rows.
        limit : float
            `Precision.limit`.
        """
        reach = (1.0 + 2.0**-RECIPROCAL_BITS) * limit * self.scale
        farthest = np.maximum(features.high - self.center, self.center - features.low)
        beyond = np.flatnonzero((self.scale > 0) & (farthest > reach))
        if not len(beyond):
            return None
        shares = np.zeros(len(self.scale))
        for piece in dense_pieces(X):
            shares[beyond] += (np.abs(piece[:, beyond] - self.center[beyond]) > reach[beyond]).sum(axis=0)
        return shares / len(X)

    def columns(self, values: Floats) -> Floats:
        """Return scaled values [..., s] as columns [..., n] in user units: the inverse of `values`."""
        return self.center + self.scale * self.expand(values)

    def labels(self, y: Matrix) -> NDArray[np.int16]:
        """Return labels [r, targets] in user units as int16 [r, targets], in units of ``2**-15``."""
        scale = np.where(self.label_scale == 0, np.inf, self.label_scale)
        units = np.rint(LABEL.maximum * ((y - self.label_center) / scale))
        labels: NDArray[np.int16] = np.clip(units, -LABEL.maximum, LABEL.maximum).astype(np.int16)
        return labels

    def coefficients(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return stored weights as coefficients and intercepts in user units.

        Parameters
        ----------
        weights : float64 array [..., targets, s]

        Returns
        -------
        coefficients : float64 array [..., targets, n]
        intercepts : float64 array [..., targets]
        """
        active, unit = self.active, np.ldexp(self.label_unit, self.weight_exponent)
        coef = np.zeros((*weights.shape[:-1], len(self.scale)))
        coef[..., active] = weights[..., : len(active)] * unit[:, None] / self.scale[active]
        if not self.fit_intercept:
            return coef, np.zeros(weights.shape[:-1])
        intercept = self.label_center - (coef * self.center).sum(axis=-1)
        return coef, intercept + unit * self.intercept_value * weights[..., -1] if self.intercept_value else intercept

    def weights(self, coef: Floats, intercept: Floats) -> Floats:
        """Return the stored weights [targets, s] of coefficients [targets, n] and intercepts [targets] in user units.

        An intercept that is not stored follows from the centers, and its value here is not used.
        """
        active = self.active
        unit = np.ldexp(np.where(self.label_unit == 0, np.inf, self.label_unit), self.weight_exponent)
        weights: Floats = coef[:, active] * self.scale[active] / unit[:, None]
        if not self.intercept_value:
            return weights
        constant = (intercept - self.label_center + (coef * self.center).sum(axis=-1)) / (unit * self.intercept_value)
        return np.column_stack([weights, constant])

    def expand(self, weights: Floats) -> Floats:
        """Return numbers [..., s] of the stored features as [..., n] of all columns, 0 for constant columns."""
        full = np.zeros((*weights.shape[:-1], len(self.scale)))
        full[..., self.active] = weights[..., : len(self.active)]
        return full

    def for_targets(self, targets: NDArray[np.intp], outputs: int) -> Scaling:
        """Return the scaling of some targets, padded to `outputs` targets with labels of 0."""
        spare = (0, outputs - len(targets))
        return replace(
            self,
            label_center=np.pad(self.label_center[targets], spare),
            label_scale=np.pad(self.label_scale[targets], spare),
        )


def intercept_value(precision: Precision, centered: bool = False) -> float:
    """Return the value of the feature of an intercept, which this precision stores exactly.

    It is the largest such value: 1, or the outermost middle. Where labels and most columns are centred on their means,
    the intercept is small, and a value near 1/2 does: then this feature does not limit the learning rate.
    """
    half = 2.0**-precision.base_bits
    if centered and precision.base_bits >= 2:
        return 0.5 if precision.draws else 0.5 + half
    return 1.0 if precision.draws else 1.0 - half


def fit_scaling(
    X: Matrix,
    y: Matrix,
    fit_intercept: bool = True,
    limit: float = 1.0,
    *,
    margins: bool = False,
    intercept_value: float = 0.0,
) -> Scaling:
    """Return the scaling that brings a table into ``[-limit, limit]`` and its labels into [-1, 1].

    Parameters
    ----------
    X : array of integers or floats [rows, n]
        Finite.
    y : array of integers or floats [rows, targets]
        Finite. Each target has a separate scale.
    fit_intercept : bool, default=True
        Whether columns, and labels that are not margins, are centered on their means.
    limit : float, default=1.0
        `Precision.limit`. For naive sampling it is below 1, and the scales include this factor.
    margins : bool, default=False
    intercept_value : float, default=0.0
        As in `Scaling`.

    Returns
    -------
    Scaling

    Raises
    ------
    DataError
        The range of some values is not finite, or too small.
    """
    return scaling_from(TableRanges.of(X, y), fit_intercept, limit, margins=margins, intercept_value=intercept_value)


def scaling_from(
    ranges: TableRanges,
    fit_intercept: bool = True,
    limit: float = 1.0,
    *,
    margins: bool = False,
    intercept_value: float = 0.0,
    units: ColumnUnits | None = None,
) -> Scaling:
    """Return the scaling of all tables within these ranges; parameters and errors as of `fit_scaling`.

    `units` are centers and reaches other than means and ranges. Where they are not on means, the intercept must be
    stored.
    """
    label_center, label_scale = np.zeros(len(ranges.labels.low)), np.ones(len(ranges.labels.low))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        units = units or plain_columns(ranges.features, fit_intercept)
        scale = _short_scale(units.reach / limit)
        if not margins:
            label_center, label_scale = _label_scaling(ranges.labels, fit_intercept)
    if not (np.isfinite(scale).all() and np.isfinite(label_scale).all()):
        raise DataError("X or y holds values so large that their range overflows: divide them by a constant")
    if (small := scale[(scale != 0) & (scale < LEAST_SCALE)]).size:
        raise DataError(f"the range of a column of X is too small ({small[0]:g}): multiply X by a constant")
    one = intercept_value if fit_intercept else 0.0
    return Scaling(units.center, scale, label_center, label_scale, fit_intercept, margins, one)


def reciprocal(scale: Floats) -> Floats:
    """Return 1 / scale with 24 significant bits, float64 [m], for scales [m] of a `Scaling` that are not 0."""
    return _short(1.0 / scale, np.rint)


def _short_scale(scale: Floats) -> Floats:
    """Return the next scales [n] upwards whose reciprocals have 24 significant bits; 0 and tiny ones as they are."""
    usable = scale >= LEAST_SCALE
    return np.where(usable, 1.0 / _short(1.0 / np.where(usable, scale, 1.0), np.floor), scale)


def _short(numbers: Floats, rounding: np.ufunc) -> Floats:
    """Return numbers with 24 significant bits, rounded by `np.rint` or `np.floor`."""
    mantissa, exponent = np.frexp(numbers)
    rounded: Floats = np.ldexp(rounding(np.ldexp(mantissa, RECIPROCAL_BITS)), exponent - RECIPROCAL_BITS)
    return rounded


def _label_scaling(labels: Ranges, fit_intercept: bool) -> tuple[Floats, Floats]:
    """Return centers and scales [targets] of labels."""
    center = labels.mean if fit_intercept else np.zeros(len(labels.low))
    return center, np.maximum(labels.high - center, center - labels.low)
