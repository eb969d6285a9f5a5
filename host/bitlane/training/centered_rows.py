"""The inner problem of bit centering: some rows stand for all, around a center whose gradient of all rows is known.

C. De Sa et al., "High-accuracy low-precision training", arXiv:1803.03383, take the slopes of a row at the center off
its slopes, and add the gradient of all rows there. On some rows this is the local problem of O. Shamir, N. Srebro and
T. Zhang, "Communication-efficient distributed optimization using an approximate Newton-type method", ICML 2014, eq. 13.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitlane.contract.formats import RESIDUAL
from bitlane.quantization.scaling import Floats

from .conjugate_gradients import conjugate_gradients
from .slopes import losses_of, slopes_and_curvatures

STEPS = 3  # of Newton's method
ITERATIONS = 30  # of conjugate gradients for a step
SETTLED = 1e-3  # of what the first step promises: a further step that promises less is not taken
SHORTEST = 0.05  # share of a step
# Share of the damping that estimates have: more hides directions of little curvature, less shows rounding.
FINITE = 1 / 4
SCORE_LIMIT = -RESIDUAL.minimum * 2.0**-RESIDUAL.fraction


@dataclass(frozen=True, eq=False)
class CenteredRows:
    """Some rows of a table, for one model.

    Parameters
    ----------
    values : float64 array [m, s]
        Scaled values.
    labels : float64 array [m]
        Scaled labels; -1 and 1 for margins.
    penalty : float64 array [s]
        Strength of the L2 penalty of each weight.
    margins : bool
        Log loss; otherwise squares.
    unseen : float
        Share of all rows that are not among these.
    """

    values: Floats
    labels: Floats
    penalty: Floats
    margins: bool
    unseen: float

    def beyond_range(self, center: Floats) -> tuple[float, Floats]:
        """Return what the range of scores of a device, [-8, 8), takes off mean loss and gradient [s], by these rows.

        Log loss and its slope change little beyond it, but for most rows of classes that are easy to separate.
        """
        scores = self.values @ center
        beyond = np.flatnonzero(np.abs(scores) > SCORE_LIMIT)
        far, near = scores[beyond], np.clip(scores[beyond], -SCORE_LIMIT, SCORE_LIMIT)
        labels = self.labels[beyond]
        loss = (losses_of(far, labels, self.margins) - losses_of(near, labels, self.margins)).sum()
        slopes = (slopes_and_curvatures(each, labels, self.margins)[0] for each in (far, near))
        change = next(slopes) - next(slopes)
        return float(loss) / len(scores), self.values[beyond].T @ change / len(scores)

    def step(self, center: Floats, gradient: Floats) -> tuple[Floats, float]:
        """Return about the step that minimises the objective of all rows, and an estimate of what it may fall by.

        With the slopes r of m rows at the center, and the gradient g of all rows there, the step d minimises

            mean(loss(z + v d) - r v d) + g d + (P + unseen trace(V' C V / m) / m) d**2 / 2

        The last part is about what the curvature of some rows is wrong by. The estimate is half of the square of
        Newton's decrement, ``g H**-1 g / 2``, with the share `FINITE` / s of that part in H, so that it stays finite in
        directions that none of these rows shows.

        Parameters
        ----------
        center : float64 array [s]
        gradient : float64 array [s]
            Of the objective of all rows, with its penalty.
        """
        scores = self.values @ center
        slopes, curvatures = slopes_and_curvatures(scores, self.labels, self.margins)
        before = losses_of(scores, self.labels, self.margins)
        damping = self.unseen * float((curvatures @ np.square(self.values)).sum()) / len(scores) ** 2
        newton = self._solved(curvatures, self.penalty + FINITE * damping / len(center), gradient)
        penalty = self.penalty + damping

        def rise(d: Floats) -> float:
            change = self.values @ d
            of_rows = losses_of(scores + change, self.labels, self.margins) - before - slopes * change
            return float(of_rows.mean() + gradient @ d + 0.5 * (penalty * d) @ d)

        d, now, promised = np.zeros_like(center), 0.0, 0.0
        for _ in range(STEPS if self.margins else 1):
            inner, curvatures = slopes_and_curvatures(scores + self.values @ d, self.labels, self.margins)
            left = self.values.T @ (inner - slopes) / len(scores) + gradient + penalty * d
            further = self._solved(curvatures, penalty, left)
            promise, size = float(left @ further), 1.0
            promised = promised or promise
            while size > SHORTEST and not rise(d - size * further) < now:
                size /= 2
            if size <= SHORTEST or promise <= SETTLED * promised:
                break
            d = d - size * further
            now = rise(d)
        return d, 0.5 * float(gradient @ newton)

    def _solved(self, curvatures: Floats, penalty: Floats, gradient: Floats) -> Floats:
        """Return about the solution of ``(V' C V / m + P) x = gradient``, in units in which the diagonal is 1."""
        diagonal = curvatures @ np.square(self.values) / len(self.values) + penalty
        unit = 1 / np.sqrt(np.maximum(diagonal, 1e-300))
        scaled = conjugate_gradients(self.values * unit, curvatures, penalty * unit**2, gradient * unit, ITERATIONS)
        return unit * scaled
