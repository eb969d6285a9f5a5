"""Losses of linear models over exact rows, with gradients and Hessians, summed by parts of the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .solution import Floats
from .standard_rows import StandardRows

Singles = NDArray[np.float32]


class Curve(NamedTuple):
    """Losses of margins, their slopes by the margin and their second derivatives, float32 of one shape."""

    loss: Singles
    slope: Singles
    bend: Singles


def _log_loss(margin: Singles) -> Curve:
    small = np.exp(-np.abs(margin))
    share: Singles = np.reciprocal(1 + small)
    bend = small * share
    wrong = np.where(margin >= 0, bend, share)
    bend *= share
    loss = np.log1p(small, out=small)
    loss -= np.minimum(margin, 0)
    return Curve(loss, np.negative(wrong, out=wrong), bend)


def _squared_hinge(margin: Singles) -> Curve:
    short = np.maximum(1 - margin, 0)
    return Curve(short * short, -2 * short, (2 * (short > 0)).astype(np.float32))


CURVES: dict[str, Callable[[Singles], Curve]] = {"log_loss": _log_loss, "squared_hinge": _squared_hinge}


class RowSums(NamedTuple):
    """Sums over each part of the rows, with their weights, for points [sets, targets].

    Attributes
    ----------
    values : float64 array [parts, sets, targets]
    gradients : float64 array [parts, sets, targets, n]
    hessians : float64 array [parts, sets, targets, n, n], or None if they were not wanted
    """

    values: Floats
    gradients: Floats
    hessians: Floats | None


class ExactSums:
    """The losses of some targets as functions of points.

    A point [n] has the coefficients of the m standardised columns and the intercept. Without an intercept n is m, and
    the score of a row whose columns are all 0 is 0.

    Parameters
    ----------
    rows : StandardRows
    targets : float32 array [rows, targets]
        -1 and 1.
    loss : {"log_loss", "squared_hinge"}
    weights : float32 array [rows, targets], optional
    fit_intercept : bool, default=True

    Attributes
    ----------
    reads : int
        How often all rows were read.
    totals : float64 array [parts, targets]
        Sums of the weights.
    """

    def __init__(
        self,
        rows: StandardRows,
        targets: Singles,
        loss: str,
        weights: Singles | None = None,
        fit_intercept: bool = True,
    ):
        self.rows, self.targets, self.weights = rows, targets, weights
        self.fit_intercept, self.reads, self._curve = fit_intercept, 0, CURVES[loss]
        spans = [slice(*ends) for ends in zip(rows.ends[:-1], rows.ends[1:], strict=True)]
        counts = [np.full(targets.shape[1], float(span.stop - span.start)) for span in spans]
        self.totals = np.stack(counts if weights is None else [weights[span].sum(0, np.float64) for span in spans])
        m = rows.shape[1]
        self._whole = np.eye(m + fit_intercept, m + 1)  # from a point to weights of the columns and the constant
        if not fit_intercept:
            self._whole[:, m] = rows.mean / rows.spread

    def read(self, points: Floats, hessians: bool = True) -> RowSums:
        """Read all rows once, for points [sets, targets, n]."""
        self.reads += 1
        sets, targets, columns = *points.shape[:2], self._whole.shape[1]
        parts = len(self.totals)
        values, gradients = np.zeros((parts, sets * targets)), np.zeros((parts, sets * targets, columns))
        bends = np.zeros((parts if hessians else 0, sets * targets, columns, columns))
        weights = (points @ self._whole).reshape(-1, columns).T.astype(np.float32)
        for part, span, tile in self.rows.tiles(sets * targets):
            labels = _repeated(self.targets[span], sets)
            loss, slope, bend = self._curve(tile @ weights * labels)
            slope *= labels
            if self.weights is not None:
                of_rows = _repeated(self.weights[span], sets)
                loss, slope, bend = loss * of_rows, slope * of_rows, bend * of_rows
            values[part] += loss.sum(axis=0, dtype=np.float64)
            gradients[part] += slope.T @ tile
            if hessians:
                for k, root in enumerate(np.sqrt(bend).T):
                    scaled = tile * root[:, None]
                    bends[part, k] += scaled.T @ scaled
        shape = parts, sets, targets
        n = points.shape[2]
        return RowSums(
            values.reshape(shape),
            (gradients @ self._whole.T).reshape(*shape, n),
            (self._whole @ bends @ self._whole.T).reshape(*shape, n, n) if hessians else None,
        )

    def largest_scores(self, points: Floats) -> Floats:
        """Return the largest absolute scores [targets] of points [targets, n], after one more read.

        Rows without weight are left out.
        """
        self.reads += 1
        found, weights = np.zeros(len(points)), (points @ self._whole).T.astype(np.float32)
        for _, span, tile in self.rows.tiles(len(points)):
            scores = np.abs(tile @ weights)
            if self.weights is not None:
                scores *= self.weights[span] > 0
            found = np.maximum(found, scores.max(axis=0, initial=0.0))
        return found


def _repeated(columns: Singles, times: int) -> Singles:
    return columns if times == 1 else np.tile(columns, times)
