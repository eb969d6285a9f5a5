"""What all ranks have measured, combined: the time of a step and the noise of its average, for each choice of bits.

The error of an average is compared with its noise, the squared difference that other batches would make. For g_i, the
gradient of rank i of n, and g, the average as it was rounded, let

    A = mean of |g_i|**2,  X = mean of <g_i, g>,  r = squared error of rounding g_i / A

Rounding is unbiased, so X estimates the square of the exact average, whose noise is (A - X) / (n - 1). The error is
q = r A / n, and if the average is rounded, too, as in reduce-scatter and all-gather, q + r (X + q).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.policies.protocol import ExchangeSample

from ..codecs import linear
from ..collectives.cost_model import AlphaBetaModel
from ..step_costs import ComputeCosts, StepCosts

BFLOAT16, FLOAT32 = 16, 32  # bits that stand for values of these types
CHOICES = (*linear.BITS, BFLOAT16, FLOAT32)
BFLOAT16_ERROR = 2.0**-14 / 12  # squared error over the square of a value: at most, on average over a step of 2**-7
TIMES, SUMS = 4, 5

Floats = NDArray[np.float64]


def numbers_of(sample: ExchangeSample, computing: float, latency: float) -> list[float]:
    """Return what a rank sends to the others, in the order in which `Measured.combined` reads it."""
    gradient = sample.gradient
    times = [computing, latency, sample.exchange, sample.measuring]
    peaks = float(gradient.lengths @ gradient.peaks)
    sums = [gradient.energy, gradient.sampled_energy, gradient.product, gradient.rounded_peaks, peaks]
    return [*times, *sums, *gradient.errors.tolist(), *sample.coding.tolist()]


@dataclass(frozen=True)
class Measured:
    """What all ranks have measured; the same on all of them.

    Attributes
    ----------
    computing : float
        Seconds of the forward and the backward pass.
    latency : float
        Seconds of a round without data (alpha).
    exchange : float
        Seconds of all exchanges with the bits of this step.
    measuring : float
        Seconds that measuring took.
    rounding : float64 [choices]
        Squared error of rounding a rank's gradient over its square (r).
    share : float
        Square of the average over that of a rank's gradient (X / A).
    coding : float64 [choices]
        Seconds of encoding and decoding.
    ranks : int
        Number of ranks.
    """

    computing: float
    latency: float
    exchange: float
    measuring: float
    rounding: Floats
    share: float
    coding: Floats
    ranks: int

    @classmethod
    def combined(cls, ranks: Floats) -> Measured | None:
        """Return the medians of the times, and the means of the sums, of all ranks.

        Parameters
        ----------
        ranks : float64 [ranks, numbers]
            Those of `numbers_of`.

        Returns
        -------
        Measured or None
            None if a number is not finite, a median is negative, or the gradients are zero: then there is no choice.
        """
        if not np.isfinite(ranks).all():
            return None
        sums, medians = ranks[:, TIMES : -len(CHOICES)].mean(axis=0), np.median(ranks, axis=0)
        times, coding = medians[:TIMES], medians[-len(CHOICES) :]
        energy, sampled_energy, product, rounded_peaks, peaks = sums[:SUMS]
        if min(times.min(), coding.min()) < 0 or min(energy, sampled_energy, rounded_peaks) <= 0:
            return None
        by_codec = sums[SUMS:] / rounded_peaks * peaks / energy
        share = min(max(product / sampled_energy, 1 / len(ranks)), 1.0)
        computing, latency, exchange, measuring = times.tolist()
        rounding = np.array([*by_codec, BFLOAT16_ERROR, 0.0])
        return cls(computing, latency, exchange, measuring, rounding, float(share), coding, len(ranks))

    def link(self, rounds: float, sent: float) -> AlphaBetaModel:
        """Return the link on which this many rounds and bytes take the measured time."""
        seconds = max(self.exchange - rounds * self.latency, 1e-9)
        return AlphaBetaModel(self.latency, max(sent, 1.0) / seconds)

    def step_seconds(self, sample: ExchangeSample, current: int, overlapped: bool) -> Floats:
        """Return the seconds of a step for each choice, float64 [choices]; `current` is the one that was measured."""
        link, compute = self.link(sample.rounds[current], sample.sent[current]), ComputeCosts.of(self.computing)
        shares = tuple(sample.segments / sample.segments.sum()) if overlapped else (1.0,)
        parts = zip(self.coding, sample.rounds, sample.sent, strict=True)
        costs = [StepCosts(coding, rounds, sent, sent, shares=shares) for coding, rounds, sent in parts]
        return np.array([each.step_seconds(compute, link) for each in costs])

    def noise_ratios(self, average_rounded: Floats) -> Floats:
        """Return the squared error of the average over its squared noise, float64 [choices].

        `average_rounded` is that of `ExchangeSample`. Without noise, as with one rank, all errors are infinite but 0.
        """
        first = self.rounding / self.ranks
        errors = first + average_rounded * self.rounding * (self.share + first)
        noise = (1 - self.share) / max(self.ranks - 1, 1)
        return np.divide(errors, noise, out=np.where(errors > 0, np.inf, 0.0), where=noise > 0)
