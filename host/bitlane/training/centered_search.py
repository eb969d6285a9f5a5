"""The search for the optimum of one model, from point to point with known objective and gradient."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bitlane.quantization.scaling import Floats

from .anderson import Anderson

NOISE = 1e-7  # of an objective: a larger rise is stepped back from, and only a larger fall is a gain
IDLE = 8  # points without a gain, after which rounding is all that is left
SHORTEST = 1 / 64  # share of a step, below which rounding hides what it gains
FLOOR = 1e-3  # of the objective at the first point


class CenteredSearch:
    """A search with steps, which Anderson acceleration joins, and a way back where the objective rises.

    Parameters
    ----------
    step_from : callable
        ``step_from(point, gradient)`` returns a step [s], and an estimate of what the objective may fall by.
    point : float64 array [s]
        The first one.
    tol : float
        How far above its optimum the objective may end, as a share of it, or of a thousandth of the first one.

    Attributes
    ----------
    point : float64 array [s]
        Where objective and gradient are needed next.
    best : float64 array [s]
        The best point so far, with its `objective` and the `estimate` of what this may fall by.
    """

    def __init__(self, step_from: Callable[[Floats, Floats], tuple[Floats, float]], point: Floats, tol: float):
        self.point = self.best = point
        self.objective = self.estimate = np.inf
        self._step_from, self._tol, self._floor = step_from, tol, 0.0
        self._anderson = Anderson()
        self._step = np.zeros_like(point)
        self._share, self._idle = 1.0, 0

    @property
    def converged(self) -> bool:
        """Whether the estimate is within half of the tolerance."""
        return self.estimate < np.inf and self.estimate <= 0.5 * self._tol * max(self.objective, self._floor)

    @property
    def finished(self) -> bool:
        """Whether no further point is to be tried."""
        return self.converged or self._share < SHORTEST or self._idle >= IDLE

    def take(self, point: Floats, objective: float, gradient: Floats) -> bool:
        """Take objective and gradient [s] at a point, and choose the next one; return whether it is the best so far.

        A point with a larger objective is left for a step of the best one without acceleration, then for shorter ones.
        """
        self._idle = 0 if objective < self.objective * (1 - NOISE) else self._idle + 1
        if objective > self.objective * (1 + NOISE):
            if not self._anderson.mixed:
                self._share /= 2
            self._anderson.forget()
            self.point = self.best + self._share * self._step
            return False
        self._floor = self._floor or FLOOR * objective
        self.best, self.objective, self._share = point, objective, 1.0
        self._step, self.estimate = self._step_from(point, gradient)
        self.point = self._anderson.next_point(point, self._step)
        return True
