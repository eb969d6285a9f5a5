"""Anderson acceleration of a fixed-point iteration.

D. G. Anderson, "Iterative procedures for nonlinear integral equations", J. ACM 12 (1965); in the form of H. F. Walker
and P. Ni, "Anderson acceleration for fixed-point iterations", SIAM J. Numer. Anal. 49 (2011), eq. 2.2.
"""

from __future__ import annotations

import numpy as np

from bitlane.quantization.scaling import Floats

SMALLEST = 1e-8  # singular value of the differences that counts, over the largest one


class Anderson:
    """The points and steps of an iteration ``x <- x + step(x)``, and the next point.

    Parameters
    ----------
    memory : int, default=8
        Points that are kept.

    Attributes
    ----------
    mixed : bool
        Whether the last next point was made of several points.
    """

    def __init__(self, memory: int = 8):
        self._memory = memory
        self._points: list[Floats] = []
        self._steps: list[Floats] = []
        self.mixed = False

    def next_point(self, point: Floats, step: Floats) -> Floats:
        """Return the next point, float64 [s], after a point [s] and its step [s].

        It is the combination of the points behind their steps, with coefficients whose sum is 1, in which the same
        combination of the steps is shortest.
        """
        self._points = [*self._points, point][-self._memory :]
        self._steps = [*self._steps, step][-self._memory :]
        self.mixed = len(self._points) > 1
        behind = point + step
        if not self.mixed:
            return behind
        differences = np.stack([step - other for other in self._steps[:-1]], axis=1)
        shares = np.linalg.lstsq(differences, step, rcond=SMALLEST)[0]
        others = np.stack([behind - (x + d) for x, d in zip(self._points[:-1], self._steps[:-1], strict=True)], axis=1)
        return np.asarray(behind - others @ shares)

    def forget(self) -> None:
        """Forget all points but the last."""
        self._points, self._steps, self.mixed = self._points[-1:], self._steps[-1:], False
