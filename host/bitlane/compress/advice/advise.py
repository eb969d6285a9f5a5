"""Recommend how to average the gradients of a model over a link: `bitlane advise`.

Computing and coding are measured on this machine. Sending follows from the alpha-beta cost model and from what the code
of a step sends. A step is a pipeline: while the backward pass computes a segment of the gradient, the one before is
coded and sent. Compressors that select from the whole gradient begin at its end, as with `overlap="auto"`. With the
batches of a training, what each candidate costs its loss is measured, too (`trial.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from bitlane.errors import DataError
from bitlane.policies.protocol import FixedBits

from ..collectives.cost_model import AlphaBetaModel
from ..compressor import Compressor, Layout, vector_length
from ..costs import measure_compute, measure_peaks, measure_step_costs, ring_costs
from ..step_costs import ComputeCosts, StepCosts
from .averages import RankAverages
from .candidates import BFLOAT16, CANDIDATES, HARMLESS, PLAIN, Candidate, parse_candidate
from .layouts import module_layout
from .trial import LossEffect, LossTrial, MeasuredTraining, measure_losses

NEAR_FASTEST = 1.05  # a candidate within this factor of the shortest step is fast enough
MOST_INCREASE = 0.01  # of the loss, of what is recommended
SCALE_BITS = 1 / 16  # a value: the scales of QSGD
OUTER_BYTES = 8  # a value: the global copy of DiLoCo, and the momentum of its outer optimizer
UNKNOWN = ComputeCosts(0.0, 0.0)


@dataclass(frozen=True)
class CandidatePrediction:
    """What a step of a candidate costs.

    Attributes
    ----------
    candidate : Candidate
    costs : StepCosts
        Of an average: of each step, or of a round of `DiLoCo`.
    peak : int or None
        Bytes of memory at most, as `measure_peaks` returns them; None if that was not measured.
    effect : LossEffect or None
        What it costs the training; None if that was not measured.
    """

    candidate: Candidate
    costs: StepCosts
    peak: int | None
    effect: LossEffect | None = None

    def step_seconds(self, compute: ComputeCosts, model: AlphaBetaModel) -> float:
        """Return the predicted seconds of a step; rounds of `DiLoCo` are spread over their steps."""
        if self.candidate.every is None:
            return self.costs.step_seconds(compute, model)
        return compute.total + (self.costs.codec + self.costs.link_seconds(model)) / self.candidate.every

    @property
    def sent(self) -> float:
        """Bytes that the socket of a rank carries to others in a step."""
        return self.costs.sent / (self.candidate.every or 1)


@dataclass(frozen=True)
class Advice:
    """The predictions for all candidates, and the recommendation.

    Attributes
    ----------
    predictions : sequence of CandidatePrediction
        Ordered by how little the candidates change a training.
    compute : ComputeCosts
        Computing time of a step.
    model : AlphaBetaModel
        The link.
    ranks : int
        Number of ranks.
    measured : bool
        Whether the losses were measured.
    """

    predictions: Sequence[CandidatePrediction]
    compute: ComputeCosts
    model: AlphaBetaModel
    ranks: int
    measured: bool

    def step_seconds(self, name: str) -> float:
        """Return the predicted seconds of a step of a candidate."""
        return self[name].step_seconds(self.compute, self.model)

    def __getitem__(self, name: str) -> CandidatePrediction:
        """Return the prediction for a candidate."""
        return next(each for each in self.predictions if each.candidate.name == name)

    def keeps_loss(self, name: str) -> bool:
        """Return whether a candidate costs at most 1 % of the loss: measured and with its error, or else in studies."""
        effect = self[name].effect
        if name == PLAIN or not self.measured:
            return name in HARMLESS
        return effect is not None and effect.increase + effect.standard_error <= MOST_INCREASE

    @property
    def chosen(self) -> str:
        """The recommendation: of those that keep the loss for sure, the first within 5 % of the shortest step."""
        kept = [name for name in self.names if self.keeps_loss(name) and not self._delays(name)]
        shortest = min(map(self.step_seconds, kept))
        return next(name for name in kept if self.step_seconds(name) <= NEAR_FASTEST * shortest)

    @property
    def faster(self) -> list[str]:
        """The names of candidates that kept the loss in the trial and are faster, but may cost more after it."""
        limit = self.step_seconds(self.chosen) / NEAR_FASTEST
        kept = [name for name in self.names if self.keeps_loss(name) and self.step_seconds(name) < limit]
        return sorted(kept, key=self.step_seconds)

    @property
    def names(self) -> list[str]:
        """The names of all candidates."""
        return [each.candidate.name for each in self.predictions]

    def _delays(self, name: str) -> bool:
        effect = self[name].effect
        return effect is not None and effect.delays

    @property
    def frontier(self) -> list[str]:
        """The names of candidates that no other beats in both time and loss, by time; of those with a known loss."""
        known = [each for each in self.predictions if each.effect is not None]
        known.sort(key=lambda each: each.step_seconds(self.compute, self.model))
        best, names = float("inf"), []
        for each in known:
            if each.effect is not None and each.effect.increase < best:
                best = each.effect.increase
                names.append(each.candidate.name)
        return names


def advise(
    of: nn.Module | MeasuredTraining | Layout,
    model: AlphaBetaModel,
    ranks: int,
    compute: ComputeCosts | None = None,
    names: Sequence[str] = CANDIDATES,
    peaks: bool = False,
) -> Advice:
    """Predict the bytes, the time and the loss of each candidate.

    Parameters
    ----------
    of : torch.nn.Module, MeasuredTraining or Layout
        The model. With a `MeasuredTraining` the losses are measured, in 60 steps of exact averages.
    model : AlphaBetaModel
        The link between the ranks.
    ranks : int
        Number of ranks, 2 or more.
    compute : ComputeCosts or None, default: None
        Computing time of a step. None: measured with a `MeasuredTraining`, and unknown otherwise.
    names : sequence of str, default: CANDIDATES
        Candidates as `parse_candidate` takes them, ordered by how little they change a training. `plain` and `bf16` are
        always there.
    peaks : bool, default: False
        Whether to measure the peaks of memory, in a new process: call it under `if __name__ == "__main__":` then.

    Returns
    -------
    Advice
        The predictions; `advice_text` formats them.

    Raises
    ------
    DataError
        For a single rank, a model without parameters, a wrong candidate; or as `measure_losses`.

    Examples
    --------
    >>> from bitlane.compress import MeasuredTraining, advice_text, advise
    >>> from bitlane.compress.collectives.emulated_links import parse_link
    >>> training = MeasuredTraining(model, loss, batches, optimizer)  # doctest: +SKIP
    >>> print(advice_text(advise(training, parse_link("1gbit"), ranks=4)))  # doctest: +SKIP
    """
    if ranks < 2:
        raise DataError(f"--ranks must be 2 or more, because a single rank sends nothing; got {ranks}")
    candidates = [parse_candidate(name) for name in dict.fromkeys((PLAIN, BFLOAT16, *names))]
    training = of if isinstance(of, MeasuredTraining) else None
    module = of.module if isinstance(of, MeasuredTraining) else of
    layout = module_layout(module) if isinstance(module, nn.Module) else module
    if not vector_length(layout):
        raise DataError("the model has no parameters: there is nothing to average")
    if training is not None and compute is None:
        compute = _measured_compute(training)
    compute, trial = compute or UNKNOWN, LossTrial({}, [], {})
    if training is not None:
        clock = _Clock(vector_length(layout), ranks, model, compute.total)
        trial = measure_losses(training, candidates, ranks, lambda e: RankAverages(e, layout, ranks, model, clock))
    else:
        candidates = [each for each in candidates if not each.allocates]
    compressors = [_with_bits(each, trial) for each in candidates]
    memory = measure_peaks(compressors, layout, ranks, model) if peaks else [None] * len(candidates)
    predictions = []
    for each, compressor, peak in zip(candidates, compressors, memory, strict=True):
        if compressor is None:
            costs = ring_costs(layout, ranks, each.dtype)
        elif each.every is None:
            costs = measure_step_costs(compressor, layout, ranks, model, gradients=trial.gradients)
        else:
            costs = measure_step_costs(compressor, layout, ranks, model, overlap=False)
            outer = OUTER_BYTES * vector_length(layout)
            costs, peak = replace(costs, state_bytes=costs.state_bytes + outer), None if peak is None else peak + outer
        predictions.append(CandidatePrediction(each, costs, peak, trial.effects.get(each.name)))
    return Advice(predictions, compute, model, ranks, training is not None)


def _measured_compute(training: MeasuredTraining) -> ComputeCosts:
    batch = next(iter(training.batches), None)
    if batch is None:
        raise DataError("the training has no batches")
    module = deepcopy(training.module)
    return measure_compute(module, lambda: training.loss(module, batch))


@dataclass(frozen=True)
class _Clock:
    """The times that a bit policy would see, as a `StepTimer`: those of computing and of sending QSGD's codes."""

    values: int
    ranks: int
    model: AlphaBetaModel
    compute: float

    def __call__(self, bits: float) -> tuple[float, float]:
        body, model = round(self.values * (bits + SCALE_BITS) / 8), self.model
        exchange = min(model.all_gather_seconds(body, self.ranks), model.reduce_scatter_seconds(body, self.ranks))
        return self.compute + exchange, exchange


@dataclass(frozen=True)
class ChosenBits(FixedBits):
    """The bits that a policy has chosen for each group, as a policy that keeps them."""

    by_group: ClassVar[bool] = True
    sampled_bits: ClassVar[Sequence[int]] = ()
    of_groups: NDArray[np.uint8]

    def widths(self, _: int) -> NDArray[np.uint8]:
        """Return the bits of each group."""
        return self.of_groups


def _with_bits(candidate: Candidate, trial: LossTrial) -> Compressor | None:
    """Return the compressor, with the bits of the trial instead of a policy that chooses those of each group."""
    if candidate.compressor is None or candidate.name not in trial.widths:
        return candidate.compressor
    return replace(candidate.compressor, bits=ChosenBits(2, trial.widths[candidate.name]))  # type: ignore[type-var]
