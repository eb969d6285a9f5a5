"""Losses of linear models over exact rows, with gradients and Hessians, summed by parts of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .reference_pass import Singles
from .solution import Floats
from .standard_rows import StandardRows

KEPT = 0.5  # of the second derivative of a row, that counts as no loss


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
        self._whole = np.eye(m + fit_intercept, m + 1)  # from a point to weights of values of a tile, and a constant
        self._whole[:m, :m] *= rows.scale
        self._whole[:m, m] = (0 if fit_intercept else rows.mean / rows.spread) - rows.shift * rows.scale

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
            loss, slope, bend = self._curve(_scores(tile, weights) * labels)
            slope *= labels
            if self.weights is not None:
                of_rows = _repeated(self.weights[span], sets)
                loss, slope, bend = loss * of_rows, slope * of_rows, bend * of_rows
            values[part] += loss.T.sum(axis=1)
            gradients[part, :, :-1] += slope.T @ tile
            gradients[part, :, -1] += slope.T.sum(axis=1)
            if hessians:
                for k, root in enumerate(np.sqrt(bend).T):
                    _add_products(bends[part, k], tile, root)
        shape = parts, sets, targets
        n = points.shape[2]
        return RowSums(
            values.reshape(shape),
            (gradients @ self._whole.T).reshape(*shape, n),
            (self._whole @ bends @ self._whole.T).reshape(*shape, n, n) if hessians else None,
        )

    def lost_curvature(self, points: Floats, others: Sequence[Floats]) -> Floats:
        """Return what Hessians at some points owe to rows whose second derivative is less at others, in one more read.

        Parameters
        ----------
        points : float64 array [targets, n]
        others : sequence of float64 arrays [targets, n]

        Returns
        -------
        float64 array [targets, n, n], the sum over rows that keep less than `KEPT` of their second derivative at one
        of the others
        """
        self.reads += 1
        targets, columns = len(points), self._whole.shape[1]
        weights = (np.concatenate([points, *others]) @ self._whole).T.astype(np.float32)
        lost = np.zeros((targets, columns, columns))
        for _, span, tile in self.rows.tiles(weights.shape[1]):
            labels = _repeated(self.targets[span], 1 + len(others))
            bend, *bends = np.split(self._curve(_scores(tile, weights) * labels).bend, 1 + len(others), axis=1)
            less = ~np.logical_and.reduce([each >= KEPT * bend for each in bends])
            for k in np.flatnonzero(less.any(axis=0)):
                rows = np.flatnonzero(less[:, k])
                of_rows = bend[rows, k] if self.weights is None else bend[rows, k] * self.weights[span][rows, k]
                _add_products(lost[k], tile[rows], np.sqrt(of_rows))
        return np.asarray(self._whole @ lost @ self._whole.T)


def _scores(tile: Singles, weights: Singles) -> Singles:
    """Return scores [r, points] of rows [r, m] for weights [m + 1, points], of which the last are constants."""
    scores: Singles = tile @ weights[:-1]
    scores += weights[-1]
    return scores


def _add_products(total: Floats, tile: Singles, root: Singles) -> None:
    """Add the products of each two columns of rows [r, m] and a column of ones to a sum [m + 1, m + 1].

    Rows are multiplied by the roots [r] of their weights.
    """
    scaled = tile * root[:, None]
    total[:-1, :-1] += scaled.T @ scaled
    with_ones = root @ scaled
    total[:-1, -1] += with_ones
    total[-1, :-1] += with_ones
    total[-1, -1] += np.square(root, dtype=np.float64).sum()


def _repeated(columns: Singles, times: int) -> Singles:
    return columns if times == 1 else np.tile(columns, times)
