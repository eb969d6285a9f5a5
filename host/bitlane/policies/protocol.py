"""The protocols of bit policies, and the policy of fixed bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

AllGather = Callable[[Sequence[float]], Sequence[Sequence[float]]]
"""Sends the numbers of this rank to all ranks, and returns those of all ranks in order; 8 bytes per number."""


@dataclass(frozen=True)
class GroupSample:
    """What a bit policy needs to know of a rank's gradient, before it was rounded, to choose the bits of each group.

    Attributes
    ----------
    lengths : int64 [groups]
        Values in each group.
    peaks : float64 [groups]
        Square of the largest magnitude in each group.
    energy : float
        Sum of the squares of all values.
    sampled_energy : float
        The same, of some of the groups.
    product : float
        Sum of the products of these groups' values with those of the average.
    rounded_peaks : float
        Sum of lengths * peaks of still fewer groups.
    errors : float64 [choices]
        Expected sum of the squared errors of stochastic rounding in these, for each choice of bits.
    average_rounded : float
        Share of the values whose average is rounded, too; the same on all ranks.
    """

    lengths: NDArray[np.int64]
    peaks: NDArray[np.float64]
    energy: float
    sampled_energy: float
    product: float
    rounded_peaks: float
    errors: NDArray[np.float64]
    average_rounded: float

    @classmethod
    def joined(cls, samples: Sequence[GroupSample]) -> GroupSample:
        """Return the sample of a gradient from those of its segments, in their order."""
        return cls(
            np.concatenate([sample.lengths for sample in samples]),
            np.concatenate([sample.peaks for sample in samples]),
            sum(sample.energy for sample in samples),
            sum(sample.sampled_energy for sample in samples),
            sum(sample.product for sample in samples),
            sum(sample.rounded_peaks for sample in samples),
            np.sum([sample.errors for sample in samples], axis=0),
            float(
                np.average(
                    [sample.average_rounded for sample in samples], weights=[sample.lengths.sum() for sample in samples]
                )
            ),
        )


@dataclass(frozen=True)
class ExchangeSample:
    """What a policy needs to know of a rank's exchange, to predict the time and the error of each choice.

    Attributes
    ----------
    gradient : GroupSample
        This rank's gradient, with the errors of the choices that the linear codec has.
    coding : float64 [choices]
        Seconds of encoding and decoding.
    rounds : float64 [choices]
        Exchanges of a step.
    sent : float64 [choices]
        Bytes that a rank sends in them.
    average_rounded : float64 [choices]
        Share of the values whose average is rounded, too.
    exchange : float
        Seconds that the exchanges of a step took, with the bits of this step: a median over the last steps.
    segments : float64 [segments]
        Values in each segment of the gradient.
    measuring : float
        Seconds that this sample took.
    """

    gradient: GroupSample
    coding: NDArray[np.float64]
    rounds: NDArray[np.float64]
    sent: NDArray[np.float64]
    average_rounded: NDArray[np.float64]
    exchange: float
    segments: NDArray[np.float64]
    measuring: float

    @classmethod
    def joined(cls, samples: Sequence[ExchangeSample]) -> ExchangeSample:
        """Return the sample of a gradient from those of its segments, in their order."""
        values = [sample.segments.sum() for sample in samples]
        return cls(
            GroupSample.joined([sample.gradient for sample in samples]),
            np.sum([sample.coding for sample in samples], axis=0),
            np.sum([sample.rounds for sample in samples], axis=0),
            np.sum([sample.sent for sample in samples], axis=0),
            np.average([sample.average_rounded for sample in samples], axis=0, weights=values),
            sum(sample.exchange for sample in samples),
            np.concatenate([sample.segments for sample in samples]),
            sum(sample.measuring for sample in samples),
        )


Sample = GroupSample | ExchangeSample


def joined_sample(samples: Sequence[Sample]) -> Sample:
    """Return the sample of a gradient from those of its segments, which are of one type, in their order."""
    exchanges = [sample for sample in samples if isinstance(sample, ExchangeSample)]
    if exchanges:
        return ExchangeSample.joined(exchanges)
    return GroupSample.joined([sample for sample in samples if isinstance(sample, GroupSample)])


@dataclass(frozen=True)
class Observation:
    """The observation of a completed step on one rank.

    Attributes
    ----------
    loss : float or None
        Mean loss of this rank's batch; None if it was not reported.
    seconds : float
        Duration of the step, from the beginning of its forward pass. Pauses between steps are no part of it.
    rms : callable
        Computes the root mean square of the average gradient.
    has_batch : bool, default: True
        False on a rank that has no more data, and only takes part in the exchanges (`Join`).
    exchange : float, default: 0.0
        Seconds of the step in exchanges with other ranks.
    sample : GroupSample, ExchangeSample or None, default: None
        This rank's gradient, if the chooser asked for it (`GroupBitChooser`) and the step was compressed.
    computing : float, default: 0.0
        Seconds from the beginning of the forward pass to the end of the backward pass, as far as they are known.
    overlapped : bool, default: False
        Whether segments were exchanged during the backward pass.
    """

    loss: float | None
    seconds: float
    rms: Callable[[], float]
    has_batch: bool = True
    exchange: float = 0.0
    sample: Sample | None = None
    computing: float = 0.0
    overlapped: bool = False


class BitPolicy(Protocol):
    """The settings of a bit policy: a frozen dataclass. Ranks compare its repr, so it includes every setting.

    One that chooses the bits of each group has the class attribute `by_group`, True; one whose choices depend on the
    loss or the time of whole steps has `observes_steps`, True.
    """

    @property
    def choices(self) -> Sequence[int]:
        """The allowed bits, ascending."""
        ...

    def start(self) -> BitChooser:
        """Return a chooser for the first step."""
        ...


class BitChooser(Protocol):
    """Chooses the bits on one rank. All ranks make the same choices, from numbers that they exchange."""

    @property
    def bits(self) -> int:
        """Bits of the next step."""
        ...

    def after(self, observed: Observation, all_gather: AllGather) -> None:
        """Process a completed step. All ranks call it after each step.

        Parameters
        ----------
        observed : Observation
            The step.
        all_gather : AllGather
            Exchanges numbers between ranks.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the state that later choices depend on, as arrays and numbers."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`; raise DataError if it is from a policy with other settings."""
        ...


class GroupBitChooser(BitChooser, Protocol):
    """Chooses from samples of the gradient; the bits of each group of values that share a scale, or of all."""

    def widths(self, groups: int) -> NDArray[np.uint8] | None:
        """Return the bits of each group in the next step, uint8 [groups].

        None: all have `bits`, as before the first choice for so many groups.
        """
        ...

    @property
    def sampled_bits(self) -> Sequence[int]:
        """Bits for which the next observation should have a sample; none if it needs no sample."""
        ...


def chooses_groups(chooser: BitChooser) -> TypeGuard[GroupBitChooser]:
    """Return whether a chooser is a `GroupBitChooser`; in every step, so without the slow `isinstance` of protocols."""
    return hasattr(chooser, "sampled_bits")


@dataclass(frozen=True)
class FixedBits:
    """A bit policy with the same bits in every step.

    Parameters
    ----------
    bits : int
        Bits per value.

    Examples
    --------
    >>> from bitlane.compress import FixedBits
    >>> FixedBits(4).start().bits
    4
    """

    bits: int

    @property
    def choices(self) -> Sequence[int]:
        """The bits, as the only choice."""
        return (self.bits,)

    def start(self) -> FixedBits:
        """Return the policy itself: it has no state."""
        return self

    def after(self, observed: Observation, all_gather: AllGather) -> None:
        """Do nothing: the bits are fixed."""

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dictionary: the policy has no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Do nothing: the policy has no state."""
