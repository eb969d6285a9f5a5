"""The loss that SGD will have after each epoch, computed before a training from the moments of its table.

With squared errors the weights of a training scatter around a mean path, and both follow from second and fourth moments
of the rows. Along a direction in which the mean square of the data is a, with rate g and B rows in a batch, one step
changes the distance d of the mean to the optimum, and the variance v of the weights, to

    d' = (1 - g a) d,    v' = (1 - g a)^2 v + g^2 (batch + draws) / B.

`batch` is the mean of (r z)^2 over rows, with the residual r and the component z of a row. Rows come in one order in
all epochs, so that their noise adds up to nothing over an epoch, but for what an epoch forgets. `draws` is the noise of
double sampling with both orders averaged (ZipML, eq. 6): with independent errors of variance V in the samples, and
n = sum of w_j^2 V_j over features, it is (V L + a n + V n) / 2 at a loss L. An epoch that reads the draws of an earlier
one repeats its errors, so that they add up instead of cancelling, where they are not forgotten.

Directions with similar curvature are one group, whose distances shrink alike. So an epoch costs microseconds, and
thousands of plans can be tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.quantization.scaling import Floats

GROUPS_OF_OCTAVE = 2
FLAT = 1e-9  # of the largest curvature: directions below it hold no data
FOURTH_ROWS = 2_048  # looked at for fourth moments
FIRST_SECTIONS = 6  # of the first epoch, in which the loss changes most


@dataclass(frozen=True)
class EpochSteps:
    """The steps of an epoch.

    Attributes
    ----------
    bits : int
    rate : float
        Learning rate.
    batch_size : int
    is_first : bool, default=False
        Whether it is the first epoch: its loss changes much, so that it is computed in sections.
    earlier_rate : float, default=0.0
        Learning rate of the last epoch with the same draws, over that of this one; 0 if there is none.
    rates_since : float, default=0.0
        Sum of the learning rates from that epoch to this one, over that of this one.
    """

    bits: int
    rate: float
    batch_size: int
    is_first: bool = False
    earlier_rate: float = 0.0
    rates_since: float = 0.0


@dataclass(frozen=True, eq=False)
class Spread:
    """Where a training stands: how far its weights are from the optimum.

    Attributes
    ----------
    remaining : ndarray of float64, shape (groups,)
        Share of the first distance that is left, along the directions of each group.
    variance : ndarray of float64, shape (groups,)
        Variance of the weights, summed over the directions of each group and over targets.
    """

    remaining: Floats
    variance: Floats


class TableMoments:
    """The moments of a table that decide how fast SGD trains on it, and how much noise is left.

    Parameters
    ----------
    values : ndarray of float64, shape (rows, m)
        Scaled stored features of the rows looked at, all of them or evenly chosen.
    labels : ndarray of float64, shape (rows, targets)
        Scaled labels.
    draw_variance : mapping of int to ndarray of float64, shape (m,)
        Variance of the draws of each feature, by the bits of a sample; 0 for bits that are not in it.
    rows : int
        Rows of the table.
    alpha : float, default=0.0
        Strength of an l2 penalty.
    """

    def __init__(
        self,
        values: Floats,
        labels: Floats,
        draw_variance: Mapping[int, Floats],
        rows: int,
        alpha: float = 0.0,
    ):
        own, directions = np.linalg.eigh(values.T @ values / len(values))
        own = np.maximum(own, 0.0) + alpha
        filled = own > FLAT * own[-1]
        along = directions.T @ (values.T @ labels / len(values))
        optimum = np.where(filled[:, None], along / np.where(filled, own, 1.0)[:, None], 0.0)
        errors = labels - values @ (directions @ optimum)
        unseen = len(values) / max(len(values) - len(own), 1) if len(values) < rows else 1.0
        self.rows = rows
        self.least_loss = float((errors**2).sum() / len(values)) * unseen

        group = np.minimum(np.log2(own[-1] / np.maximum(own, 1e-300)) * GROUPS_OF_OCTAVE, 99).astype(np.intp)
        members = np.eye(100)[:, group][np.unique(group)]  # [groups, m], 0 and 1
        self._count = members.sum(axis=1)
        self.curvature: Floats = members @ own / self._count
        squares = optimum**2
        self._distance: Floats = members @ squares.sum(axis=1)

        some = slice(None, None, max(1, len(values) // FOURTH_ROWS))
        components = (values[some] @ directions) ** 2
        energy = components @ members.T  # [rows, groups]
        self._batch: Floats = (errors[some] ** 2).sum(axis=1) @ energy / len(energy)
        self._fourth_distance = energy.T @ (components @ (members * squares.sum(axis=1)).T) / len(energy)
        self._fourth = energy.T @ energy / len(energy) / self._count

        self._draws: dict[int, Floats] = {}
        self._noise: dict[int, NDArray[np.float64]] = {}
        for bits, variance in draw_variance.items():
            self._draws[bits] = members @ (directions**2).T @ variance
            paths = np.stack([directions @ (members * target).T for target in optimum.T])  # [targets, m, groups]
            self._noise[bits] = np.einsum("tjg,j,tjh->gh", paths, variance, paths)

    def start(self) -> Spread:
        """Return where a training with weights 0 starts."""
        return Spread(np.ones_like(self.curvature), np.zeros_like(self.curvature))

    def loss(self, spread: Spread) -> float:
        """Return the mean loss, summed over targets, in squares of scaled labels."""
        distance = self._distance * spread.remaining**2 + spread.variance
        return self.least_loss + float(self.curvature @ distance)

    def after_epoch(self, spread: Spread, epoch: EpochSteps) -> Spread:
        """Return where a training stands after one more epoch."""
        sections = FIRST_SECTIONS if epoch.is_first else 1
        for _ in range(sections):
            spread = self._after(spread, epoch, self.rows / epoch.batch_size / sections)
        return spread

    def _after(self, spread: Spread, epoch: EpochSteps, steps: float) -> Spread:
        """Return where a training stands after some steps, with the noise at its start."""
        remaining, variance = spread.remaining, spread.variance
        batch = self._batch + self._fourth_distance @ remaining**2 + self._fourth @ variance
        batch -= self.curvature**2 * self._distance * remaining**2  # the mean gradient is no noise
        factor = np.minimum(np.abs(1.0 - epoch.rate * self.curvature), 1.0)
        decay = factor**steps
        left = 1.0 - factor
        alone = np.where(left > 1e-12, (1.0 - decay**2) / np.maximum(1.0 - factor**2, 1e-12), steps)
        together = np.where(left > 1e-12, (1.0 - decay) / np.maximum(left, 1e-12), steps) ** 2 / steps
        batch_sum = np.maximum(batch, 0.0) * (alone if epoch.is_first else np.maximum(alone - together, 0.0))
        repeated = 1.0 + 2.0 * epoch.earlier_rate * decay**epoch.rates_since
        draws_sum = self._draw_noise(spread, epoch.bits) * alone * repeated
        grown = variance * decay**2 + epoch.rate**2 / epoch.batch_size * (batch_sum + draws_sum)
        return Spread(remaining * decay, np.minimum(grown, 1e6))

    def _draw_noise(self, spread: Spread, bits: int) -> Floats:
        """Return the noise of the draws of a row, summed over the directions of each group."""
        if bits not in self._draws:
            return np.zeros_like(self.curvature)
        own, reached = self._draws[bits], 1.0 - spread.remaining
        label_noise = float(reached @ self._noise[bits] @ reached + own / self._count @ spread.variance)
        noise: Floats = 0.5 * (own * (self.loss(spread) + label_noise) + self.curvature * self._count * label_noise)
        return noise
