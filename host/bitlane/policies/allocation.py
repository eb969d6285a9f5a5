"""A bit policy that gives each group of values its own bits: more where rounding costs more, for the same bytes.

Values that share a scale s are rounded to levels that are s / (2**(b - 1) - 1) apart, so the error of a group is about
c(b) * length * s**2. Each group takes the b with the least

    c(b) * s + price * b

which gives the least sum of errors over s for given bytes (reverse water-filling: Cover and Thomas, Elements of
Information Theory, section 10.3; for integer bits: Shoham and Gersho, 1988). With s**2 the sum of errors itself would
be least; but groups with small gradients then have 2 bits, and trainings needed more steps for the same sum.

The price follows from the time of a step. With the noise Q of rounding, a step advances the training
about 1 / (1 + w Q / X) times as much as without, where X is the square of the average gradient with the noise of its
batches. So the policy takes the price with the least

    (seconds of all else + seconds of a bit * mean bits) * (1 + w Q / X)

All of it is measured in the training. For g_i, the gradient of rank i of n, and g, the average as it was rounded:

    s**2: its mean over ranks,  c(b): of some groups,  A: mean square of g_i,  X / A: mean of <g_i, g> / A

because rounding is unbiased. With r = sum of c(b) length s**2 / A, that of the gradients is q = r A / n. An average
that is rounded, too, as in reduce-scatter and all-gather, has Q = q + r (X + q); otherwise Q = q. The weight w and the
power of s were fitted to trainings of networks on MNIST and CIFAR-10 by four ranks;
`bitlane_studies.papers.mqgrad.bit_widths` shows where the choice is good, and where not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .choices import BIT_CHOICES, check_choices, check_period, check_state
from .protocol import AllGather, GroupSample, Observation

SCALE_BITS = 1 / 16  # a value: a scale of 4 bytes for each group of 512
SMOOTHING = 0.5  # weight of new times
PRICES = 512  # that are tried

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BitAllocation:
    """A bit policy that measures rounding and the link, and chooses the bits of each group; for `QSGD`.

    Rounding must be unbiased, so error feedback is refused.

    Parameters
    ----------
    start_bits : int, default: 4
        Bits of the first two steps.
    choices : sequence of int, default: 2 to 8
        The allowed bits, ascending.
    period : int, default: 20
        Steps between two choices, and before after the second, fourth, eighth step and so on. For each choice a rank
        sends 8 bytes a group to every other rank.
    weight : float, default: 0.2
        How much the noise of rounding delays the training (w).

    Examples
    --------
    >>> from bitlane.compress import QSGD, BitAllocation
    >>> compressor = QSGD(bits=BitAllocation())  # doctest: +SKIP
    """

    by_group: ClassVar[bool] = True
    observes_steps: ClassVar[bool] = True

    start_bits: int = 4
    choices: Sequence[int] = BIT_CHOICES
    period: int = 20
    weight: float = 0.2

    def __post_init__(self) -> None:
        check_choices(self.choices)
        check_period(self.period, 2)
        if self.start_bits not in self.choices:
            raise DataError(f"start_bits must be one of choices={self.choices!r}; got {self.start_bits!r}")
        if not (isfinite(self.weight) and self.weight > 0):
            raise DataError(f"weight must be finite and above 0; got {self.weight!r}")

    def start(self) -> BitAllocationChooser:
        """Return a chooser for the first step."""
        return BitAllocationChooser(self)


class BitAllocationChooser:
    """The chooser of `BitAllocation`. All ranks compute the same bits from the numbers of all ranks."""

    def __init__(self, allocation: BitAllocation):
        self.settings = allocation
        self._steps = 0  # that were compressed
        self._widths = np.zeros(0, np.uint8)  # none before the first choice
        self._times = np.full(2, np.nan)  # seconds of all else, and of a bit

    @property
    def bits(self) -> int:
        return self.settings.start_bits

    def widths(self, groups: int) -> NDArray[np.uint8] | None:
        return self._widths if len(self._widths) == groups else None

    @property
    def sampled_bits(self) -> Sequence[int]:
        ended = self._steps + 1  # with this step
        early = 2 <= ended < self.settings.period and ended & (ended - 1) == 0
        return self.settings.choices if early or ended % self.settings.period == 0 else ()

    def after(self, observed: Observation, all_gather: AllGather) -> None:
        wanted, sample = bool(self.sampled_bits), observed.sample
        if wanted and sample is None:  # the step was averaged uncompressed
            return
        self._steps += 1
        if isinstance(sample, GroupSample):
            own = [observed.seconds, observed.exchange, *_numbers(sample)]
            self._choose(np.array(all_gather(own)), sample.lengths, sample.average_rounded)

    def _choose(self, ranks: Floats, lengths: NDArray[np.int64], average_rounded: float) -> None:
        """Choose from the numbers of all ranks, float64 [ranks, numbers]; keep the bits if there is no gradient.

        `lengths` and `average_rounded` are those of `GroupSample`.
        """
        means = ranks.mean(axis=0)
        energy, sampled_energy, product, rounded_peaks = means[2:6]
        if not (np.isfinite(means).all() and sampled_energy > 0 and rounded_peaks > 0):
            return
        errors, peaks = np.split(means[6:], [len(self.settings.choices)])
        curve = allocation_curve(lengths, peaks, errors / rounded_peaks, self.settings.choices)
        share = min(max(product / sampled_energy, 1 / len(ranks)), 1.0)  # X / A
        rounding = curve.errors / energy  # r
        first = rounding / len(ranks)  # q / A
        noise = (first + average_rounded * rounding * (share + first)) / share  # Q / X
        self._measure_times(ranks[:, 0].max(), ranks[:, 1].min(), lengths)
        seconds = self._times[0] + self._times[1] * (curve.bits + SCALE_BITS)
        self._widths = curve.widths(int(np.argmin(seconds * (1 + self.settings.weight * noise))))

    def _measure_times(self, seconds: float, exchange: float, lengths: NDArray[np.int64]) -> None:
        """Update the times with those of a step, and of the exchanges of the rank that waited least for others."""
        widths = self.widths(len(lengths))
        bits = self.bits if widths is None else float(np.average(widths, weights=lengths))
        new = np.array([seconds - exchange, exchange / (bits + SCALE_BITS)])
        self._times = new if np.isnan(self._times).any() else SMOOTHING * new + (1 - SMOOTHING) * self._times

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps, "widths": self._widths.copy(), "times": self._times.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state({**state, "widths": ()} if "widths" in state else state, {**self.state_dict(), "widths": ()})
        self._steps, self._widths = int(state["steps"]), np.array(state["widths"], np.uint8)
        self._times = np.array(state["times"], np.float64)


def _numbers(sample: GroupSample) -> list[float]:
    """Return what is exchanged of a sample, in the order in which `_choose` reads it."""
    sums = [sample.energy, sample.sampled_energy, sample.product, sample.rounded_peaks]
    return [*sums, *sample.errors.tolist(), *sample.peaks.tolist()]


@dataclass(frozen=True)
class AllocationCurve:
    """The best bits of each group for some mean numbers of bits.

    Attributes
    ----------
    bits : float64 [prices]
        Mean bits a value.
    errors : float64 [prices]
        Sum of the squared errors of all groups.
    cuts : int64 [prices, choices - 1]
        How many of the groups, by ascending peak, have fewer bits than each choice but the first.
    order : int64 [groups]
        The groups, by ascending peak.
    choices : sequence of int
    """

    bits: Floats
    errors: Floats
    cuts: NDArray[np.int64]
    order: NDArray[np.int64]
    choices: Sequence[int]

    def widths(self, number: int) -> NDArray[np.uint8]:
        """Return the bits of each group at one point of the curve, uint8 [groups]."""
        ranked = np.searchsorted(self.cuts[number], np.arange(len(self.order)), side="right")
        widths = np.empty(len(self.order), np.uint8)
        widths[self.order] = np.array(self.choices, np.uint8)[ranked]
        return widths


def allocation_curve(
    lengths: NDArray[np.int64], peaks: Floats, relative: Floats, choices: Sequence[int]
) -> AllocationCurve:
    """Return the curve with the least sums of the groups' errors over their scales.

    Parameters
    ----------
    lengths : int64 [groups]
    peaks : float64 [groups]
        Square of the scale of each group; at least one is not 0.
    relative : float64 [choices]
        Squared error of a value over its group's peak (c).
    choices : sequence of int
        Bits a value, ascending.
    """
    order = np.argsort(peaks, kind="stable")
    ranked, scales = peaks[order], np.sqrt(peaks[order])
    values = np.concatenate([[0], np.cumsum(lengths[order])])
    levels = np.concatenate([[0.0], np.cumsum(lengths[order] * ranked)])
    gains, steps = -np.diff(relative), np.diff(choices)
    with np.errstate(divide="ignore"):
        # A group takes a choice once its scale is at least this many times the price.
        least = np.maximum.accumulate(np.where(gains > 0, steps / gains, np.inf))
    usable, positive = least[np.isfinite(least)].tolist() or [1.0], scales[scales > 0].tolist()
    # From a price at which all groups have the most bits to one at which all have the fewest.
    prices = np.geomspace(positive[0] / usable[-1] / 2, positive[-1] / usable[0] * 2, PRICES)
    cuts = np.asarray(np.searchsorted(scales, prices[:, None] * least), np.int64)
    bits = choices[0] + ((values[-1] - values[cuts]) * steps).sum(axis=1) / values[-1]
    errors = relative[0] * levels[-1] - ((levels[-1] - levels[cuts]) * gains).sum(axis=1)
    return AllocationCurve(bits, errors, cuts, order, choices)
