"""Chooses the bits of an average, again and again: the fastest whose error is small beside the noise of the batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.policies.choices import check_state
from bitlane.policies.protocol import AllGather, ExchangeSample, Observation

from .measured import BFLOAT16, CHOICES, FLOAT32, Floats, Measured, numbers_of

FIRST = 12  # steps before the first choice; "auto" decides on overlap in the first ten
RECENT = 16  # steps at most, whose median time counts
MOST_MEASURING = 0.01  # of the time of all steps
MOST_PERIODS = 10  # between two choices, whatever measuring took
ENTER = 0.8  # of the tolerance: new bits must have less error
GAIN = 0.95  # of the time of a step: new bits must take less
ROUNDS = 4  # between ranks for a choice: three to measure the latency, and one with the numbers


def fastest(seconds: Floats, ratios: Floats, current: int, tolerance: float) -> int:
    """Return the index of the fastest choice whose error is allowed.

    So that choices do not alternate, other bits than the current ones must be 5 % faster, with an error of at most
    0.8 times the tolerance; unless the error of the current ones is no longer allowed.

    Parameters
    ----------
    seconds, ratios : float64 [choices]
        Time of a step, and error over noise; that of the last choice is 0. By ascending bits.
    current : int
        Index of the current bits.
    tolerance : float
    """
    allowed = np.flatnonzero(ratios <= ENTER * tolerance)
    best = int(allowed[::-1][np.argmin(seconds[allowed[::-1]])])  # the most bits of those that take as long
    stays = ratios[current] <= tolerance and seconds[best] >= GAIN * seconds[current]
    return current if stays else best


@dataclass(frozen=True, eq=False)
class AutoChoice:
    """The bits that were chosen, and why.

    Attributes
    ----------
    step : int
        Number of compressed steps before it.
    bits : int
        2 to 8 of `QSGD`; 16 for bfloat16 and 32 for float32.
    measuring : float
        Seconds that measuring took, once.
    seconds : float64 [9]
        Predicted time of a step with 2 to 8, 16 and 32 bits.
    ratios : float64 [9]
        Squared error of the average over the squared noise of the batches, for the same bits.
    """

    step: int
    bits: int
    measuring: float
    seconds: NDArray[np.float64]
    ratios: NDArray[np.float64]

    def __str__(self) -> str:
        """Return the choice and its reasons as a line."""
        parts = zip(CHOICES, self.seconds, self.ratios, strict=True)
        each = [f"{name_of(bits)} {1e3 * seconds:.3g} ms {ratio:.2g}" for bits, seconds, ratio in parts]
        told = f"{name_of(self.bits)} from step {self.step} on; time of a step, error over noise: {', '.join(each)}"
        return f"{told}; measuring took {1e3 * self.measuring:.3g} ms"


def name_of(bits: int) -> str:
    """Return the name of a choice: the type that is sent, or `QSGD` with its bits."""
    return {BFLOAT16: "bfloat16", FLOAT32: "float32"}.get(bits, f"QSGD({bits})")


class AutoChooser:
    """The chooser of `Auto`. All ranks compute the same bits from the numbers of all ranks.

    Parameters
    ----------
    tolerance, period
        As in `Auto`.

    Attributes
    ----------
    choice : AutoChoice or None
        The last choice; None before the first.
    """

    def __init__(self, tolerance: float, period: int):
        self._tolerance, self._period = tolerance, period
        self._steps, self._next = 0, FIRST  # that were compressed, and with which the next choice is made
        self._computing: deque[float] = deque(maxlen=RECENT)
        self.choice: AutoChoice | None = None

    @property
    def bits(self) -> int:
        return BFLOAT16 if self.choice is None else self.choice.bits

    def widths(self, groups: int) -> None:
        """Return None: all groups have the same bits."""

    @property
    def sampled_bits(self) -> Sequence[int]:
        return CHOICES if self._steps + 1 == self._next else ()

    def after(self, observed: Observation, all_gather: AllGather) -> None:
        wanted, sample = bool(self.sampled_bits), observed.sample
        if wanted and sample is None:  # the step was averaged uncompressed
            return
        self._steps += 1
        self._computing.append(observed.computing)
        if isinstance(sample, ExchangeSample):
            self._choose(sample, observed.overlapped, all_gather)

    def _choose(self, sample: ExchangeSample, overlapped: bool, all_gather: AllGather) -> None:
        """Choose from the numbers of all ranks; keep the bits if they allow no choice."""
        latency = _latency(all_gather)
        measured = Measured.combined(np.array(all_gather(numbers_of(sample, median(self._computing), latency))))
        self._next = self._steps + self._period
        if measured is None:
            return
        current = CHOICES.index(self.bits)
        seconds = measured.step_seconds(sample, current, overlapped)
        ratios = measured.noise_ratios(sample.average_rounded)
        chosen = fastest(seconds, ratios, current, self._tolerance)
        measuring = measured.measuring + ROUNDS * measured.latency
        self.choice = AutoChoice(self._steps, CHOICES[chosen], measuring, seconds, ratios)
        wait = max(1.0, min(measuring / MOST_MEASURING / max(seconds[chosen], 1e-9) / self._period, MOST_PERIODS))
        self._next = self._steps + ceil(wait * self._period)

    def state_dict(self) -> dict[str, Any]:
        none = np.full(len(CHOICES), np.nan)
        told = self.choice or AutoChoice(0, self.bits, 0.0, none, none)
        steps = {"steps": self._steps, "next": self._next, "chosen": told.step, "bits": told.bits}
        return {**steps, "measuring": told.measuring, "seconds": told.seconds, "ratios": told.ratios}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state(state, self.state_dict())
        self._steps, self._next = int(state["steps"]), int(state["next"])
        step, bits, measuring = int(state["chosen"]), int(state["bits"]), float(state["measuring"])
        seconds, ratios = (np.array(state[name], np.float64) for name in ("seconds", "ratios"))
        self.choice = AutoChoice(step, bits, measuring, seconds, ratios) if step else None


def _latency(all_gather: AllGather) -> float:
    """Return the seconds of a round: the shorter of two, after one for which ranks wait for each other."""
    seconds = []
    for _ in range(ROUNDS - 1):
        start = perf_counter()
        all_gather([0.0])
        seconds.append(perf_counter() - start)
    return min(seconds[1:])
