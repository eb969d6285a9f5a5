"""What searches for many models in step share: where the models are, what they know there, and where they start."""

from __future__ import annotations

import numpy as np

from bitlane.encoded.coded_rows import Floats

from .certificate import bound_of_gradient
from .coded_objective import Chosen, CodedObjective, Evaluation

FLOOR = 1e-3  # of the first objective: below it, an objective is as good as 0
NOISE = 3e-8  # of an objective: what passes round


class ModelSearch:
    """Many models on their way to the optimum of an objective.

    Parameters
    ----------
    objective : CodedObjective
    points : float64 array [models, n]
        Where the models start. They are moved.
    near : float64 array [models, n], optional
        Where the models start if that is better than `points`, which then are the best constant models.

    Attributes
    ----------
    points : float64 array [models, n]
    objectives : float64 array [models]
    gradients : float64 array [models, n]
        Without the L1 part of the penalty.
    decrements : float64 array [models]
        What the next step promises, or what the objective is above its optimum at most.
    estimates : float64 array [models]
        Of what the objective is above its optimum, when a search ends.
    first_decrements, first_estimates : float64 arrays [models]
        The decrements where the models started, and what the objectives were above their optimum there.
    first_objectives : float64 array [models]
        The objectives there.
    first_bounds : float64 array [models]
        What they were at most: `bound_of_gradient`; infinite for hinge, and with an L1 penalty.
    floors : float64 array [models]
        A small share of the objectives at the start.
    slope_sums, slope_sizes : float64 arrays [models]
        Sums of the slopes of the rows at the points, and of their absolute values.
    iterations : int
    """

    def __init__(self, objective: CodedObjective, points: Floats, near: Floats | None = None):
        count = len(points)
        self.objective, self.points, self._near = objective, points, near
        self.objectives, self.decrements, self.estimates = np.full((3, count), np.inf)
        self.first_objectives, self.first_decrements = np.full((2, count), np.inf)
        self.first_estimates, self.first_bounds = np.full((2, count), np.inf)
        self.floors, self.slope_sums, self.slope_sizes = np.zeros((3, count))
        self.gradients, self._steps = np.zeros((2, *points.shape))
        self._lengths, self.iterations = np.ones(count), 0

    def run(self, active: Chosen, tolerances: Floats, max_passes: int, anew: bool = True) -> None:
        """Search until the decrement of each of some models is within its tolerance.

        Parameters
        ----------
        active : int array
            Numbers of the models.
        tolerances : float64 array [models]
            Shares of the objectives, or of `floors` where these are more.
        max_passes : int
            Of the objective in all.
        anew : bool, default=True
            Whether the objective has changed since the last run, or this is the first.
        """
        raise NotImplementedError

    def _start(self, active: Chosen, trials: Floats, anew: bool) -> Floats:
        """Return where a run evaluates the models first, which are `trials` if it goes on."""
        if anew:
            trials, self.objectives[active] = self.points.copy(), np.inf
        if self._near is not None:
            trials, self._near = self._near, None
            self.objectives[:] = self.objective.models.constant_losses(self.objective.smooth_loss)
            self.floors = FLOOR * self.objectives
        return trials

    def _move(self, k: int, point: Floats, at: int, found: Evaluation) -> bool:
        """Move a model to a point that was evaluated; return whether that is its first."""
        first = bool(np.isinf(self.first_decrements[k]))
        self.points[k], self.objectives[k], self.gradients[k] = point, found.values[at], found.gradients[at]
        self.slope_sums[k], self.slope_sizes[k] = found.slope_sums[at], found.slope_sizes[at]
        if first:
            self.first_objectives[k] = found.values[at]
            self.floors[k] = max(self.floors[k], FLOOR * found.values[at])
        return first

    def _mean_curvature(self, k: int) -> float:
        """Return the mean second derivative of the loss of a model where it was last evaluated."""
        return float(self.objective.curvatures[k].sum(dtype=np.float64)) / float(self.objective.totals[k])

    def _bound(self, k: int) -> float:
        """Return what the objective of a model with an L2 penalty is above its optimum at most."""
        ridge = self.objective.penalty.ridge[k]
        return float(bound_of_gradient(self.gradients[k], ridge, self._mean_curvature(k)))
