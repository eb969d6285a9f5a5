"""The objectives of many models over coded rows: values and gradients by passes, in units of codes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import CodedRows, Codes, Floats

from .linear_models import LinearModels
from .losses import SmoothLoss
from .passes import PassModels, PassSums, RowOutputs, run_pass
from .penalty import Penalty
from .reference_pass import Singles

# Of a search for a length: in powers of `SCALES` down to a tiny one, then between two of them.
SCALES, TINIEST, HALVINGS = 16.0, 2.0**-60, 20

Chosen = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Center:
    """A point from which the parameters of all models count, with what exact rows say about it.

    Attributes
    ----------
    point : float64 array [models, n]
    scores : sequence of float32 arrays [rows]
        Of the exact rows at the point; one a model.
    tilts : float64 array [models, n]
        Gradient of the exact rows at the point, less that of the coded rows with these scores.
    """

    point: Floats
    scores: list[Singles]
    tilts: Floats


class Evaluation(NamedTuple):
    """What a pass says about models.

    Attributes
    ----------
    values : float64 array [models]
        The objectives.
    gradients : float64 array [models, n]
        Without the L1 part of the penalty.
    slope_sums, slope_sizes : float64 arrays [models]
        Sums of the slopes of the rows, and of their absolute values.
    codes : int8 array [kept, m]
    """

    values: Floats
    gradients: Floats
    slope_sums: Floats
    slope_sizes: Floats
    codes: Codes


class CodedObjective:
    """What models minimise, as a function of parameters in units of codes.

    The parameters [n] of a model are ``unit * coefficient`` of each column and, if there is one, the intercept for
    codes, which has the centers of the columns in it.

    Parameters
    ----------
    rows : CodedRows
    models : LinearModels
    threads : int

    Attributes
    ----------
    passes : int
        How often all rows were read.
    penalty : Penalty
    totals : float64 array [models]
        Sums of the weights of the rows.
    curvatures : list of float32 arrays [rows]
        Of each model where it was last evaluated, with the weights of the rows.
    scores : list of float32 arrays [rows], or None
        Of hinge: as the curvatures.
    """

    def __init__(self, rows: CodedRows, models: LinearModels, threads: int = 1):
        self.rows, self.models, self.threads = rows, models, threads
        self.smooth_loss, self.center, self.passes = models.smooth_loss, None, 0
        scale, columns = rows.scale, rows.shape[1]
        self.units = scale.unit
        self.middles = scale.center / scale.unit + 0.5  # what a code lacks to a value, in units of codes
        n = columns + models.intercept
        ridge, lasso = np.zeros((2, len(models), n))
        ridge[:, :columns] = (models.alpha * (1 - models.l1_ratio))[:, None] / scale.unit**2
        lasso[:, :columns] = (models.alpha * models.l1_ratio)[:, None] / scale.unit
        self.penalty, self.totals = Penalty(ridge, lasso), models.totals()
        self.curvatures = [np.ones(rows.shape[0], np.float32) for _ in range(len(models))]
        hinge = models.smooth_loss.name == "hinge"
        self.scores = [np.empty(rows.shape[0], np.float32) for _ in range(len(models))] if hinge else None

    smooth_loss: SmoothLoss
    center: Center | None

    def evaluate(
        self, points: Floats, chosen: Chosen, kept: Chosen | None = None, reaches: Floats | None = None
    ) -> Evaluation:
        """Read all rows once for some models.

        Parameters
        ----------
        points : float64 array [chosen, n]
        chosen : int array [chosen]
            Numbers of the models.
        kept : int array [kept], optional
            Numbers of rows, rising.
        reaches : float64 array [chosen], optional
            Of hinge, as of `PassModels`.

        Returns
        -------
        Evaluation
        """
        kept = np.zeros(0, np.intp) if kept is None else kept
        codes = np.empty((len(kept), self.rows.shape[1]), np.int8)
        curvatures = [self.curvatures[k] for k in chosen]
        scores = None if self.scores is None else [self.scores[k] for k in chosen]
        outputs = RowOutputs(scores=scores, curvatures=curvatures, kept=kept, kept_codes=codes)
        sums = self.read(points, chosen, outputs, reaches=reaches)
        penalty, whole = self.penalty.of(chosen), self.whole(points, chosen)
        values = sums.losses / self.totals[chosen] + penalty.total(whole)
        gradients = self.slopes(sums, chosen) + penalty.ridge * whole
        if self.center is not None:
            values = values + (self.center.tilts[chosen] * points).sum(axis=1)
            gradients = gradients + self.center.tilts[chosen]
        return Evaluation(values, gradients, sums.slopes, sums.sizes, codes)

    def read(
        self,
        points: Floats,
        chosen: Chosen,
        outputs: RowOutputs | None = None,
        certificate: Floats | None = None,
        reaches: Floats | None = None,
    ) -> PassSums:
        """Return the sums of a pass: see `run_pass`."""
        self.passes += 1
        targets, weights = self.models.arrays(chosen)
        offsets = None if self.center is None else [self.center.scores[k] for k in chosen]
        models = PassModels(*self.for_codes(points), targets, weights, offsets, reaches)
        return run_pass(self.rows, models, self.smooth_loss, outputs, certificate, threads=self.threads)

    def slopes(self, sums: PassSums, chosen: Chosen) -> Floats:
        """Return the gradients of the mean losses by the parameters, float64 [chosen, n]."""
        if self.models.intercept:
            found = np.c_[sums.gradients, sums.slopes]
        else:
            found = sums.gradients + sums.slopes[:, None] * self.middles
        return np.asarray(found / self.totals[chosen, None])

    def best_length(self, k: int, scores: Singles, point: Floats, step: Floats) -> float:
        """Return the length, 0 to 1, of a step of a model from a point with these scores at which its value is least.

        `self.scores` are those at the end of the step. The slope along a step rises, since the objective is convex.
        """
        assert self.scores is not None
        targets, weights = self.models.arrays(np.array([k]))
        start, y = scores.astype(np.float64), targets[0].astype(np.float64)
        change = self.scores[k] - start
        of_rows = change / self.totals[k] if weights is None else change * weights[0] / self.totals[k]
        penalty, tilt = self.penalty.of(np.array([k])), 0.0
        if self.center is not None:
            point, tilt = point + self.center.point[k], float(self.center.tilts[k] @ step)

        def rises(length: float) -> bool:
            v = point + length * step
            of_penalty = penalty.ridge[0] * v + penalty.lasso[0] * np.sign(v)
            slope = of_rows @ self.smooth_loss.exact(start + length * change, y)[1] + of_penalty @ step + tilt
            return bool(slope >= 0)

        high = 1.0
        while rises(high / SCALES) and high > TINIEST:
            high /= SCALES
        low = high / SCALES
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if rises(middle) else (middle, high)
        return low

    def whole(self, points: Floats, chosen: Chosen) -> Floats:
        """Return the parameters with those of the center."""
        return points if self.center is None else points + self.center.point[chosen]

    def for_codes(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the weights of codes and the score at codes of 0."""
        columns = self.rows.shape[1]
        return points[:, :columns], points[:, columns] if self.models.intercept else points @ self.middles

    def coefficients(self, points: Floats) -> tuple[Floats, Floats]:
        """Return coefficients of values [models, m] and intercepts [models] in user units."""
        weights = points[:, : self.rows.shape[1]]
        if not self.models.intercept:
            return weights / self.units, np.zeros(len(points))
        return weights / self.units, points[:, -1] - weights @ self.middles

    def parameters(self, coefficients: Floats, intercepts: Floats) -> Floats:
        """Return what `coefficients` returns coefficients of."""
        weights = coefficients * self.units
        return np.c_[weights, intercepts + weights @ self.middles] if self.models.intercept else weights

    def smoothed(self, width: float) -> None:
        """Set the width of the smooth part of hinge."""
        self.smooth_loss = replace(self.smooth_loss, width=width)
