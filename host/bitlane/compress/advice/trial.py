"""What each candidate costs a training, in nats, measured in a few steps of it.

The steps are those of exact averages. In each step every candidate averages the same gradients of the ranks, with its
own residuals and bits, and a copy of the model and its optimizer steps with that average instead of the exact one.
After `WINDOW` steps both models have a loss for the same batches, and, but for the first window,

    cost = loss of the copy - loss of the model

which is the first and second order of the loss along the errors that the optimizer accumulated. Its share of what the
model has gained in these steps tells whether a training still advances: the study of MQGrad found that this share names
the best bits, while the error beside the gradient does not (docs/results.md, "What rounding costs"; there the curvature
along the errors follows from gradients, here from losses). Then the copies begin anew from the model, because the loss
is no parabola for long. The first window only fills the optimizer and the residuals: at the very beginning of a
training the loss falls so fast that any delay seems to cost much.

A copy sees the gradients of the model, not its own, so that one backward pass a rank serves all candidates. Rounds of
`DiLoCo` have gradients of their own: that training is made as it is, from the end of the first window on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bitlane.errors import DataError

from ..compressor import Layout, vector_length
from ..local.fragments import trained_parameters
from ..local.outer import nesterov
from ..seeded import seeded
from .averages import RankAverages
from .candidates import Candidate
from .layouts import module_layout

STEPS, WINDOW = 60, 20
COUNTED = STEPS - WINDOW  # steps behind the first window
JUDGES = 8  # batches whose losses are compared; no step uses them
KEPT = 2  # last steps whose gradients are kept, to measure coding

Losses = NDArray[np.float64]
NewAverages = Callable[[Candidate], RankAverages]


@dataclass(frozen=True)
class MeasuredTraining:
    """A training whose first steps show what candidates cost.

    Attributes
    ----------
    module : torch.nn.Module
        The model, on a CPU. It is copied, and does not change.
    loss : callable
        Takes a module and a batch, and returns the mean loss of the batch, a tensor.
    batches : iterable
        Batches of one rank each, in any form that `loss` takes; `JUDGES` and the number of ranks at least. With fewer
        than `STEPS` a rank they are used again.
    optimizer : callable
        Takes a list of parameters, and returns their torch optimizer, with the learning rate of these steps.

    Examples
    --------
    >>> from bitlane.compress import MeasuredTraining
    >>> training = MeasuredTraining(
    ...     model,
    ...     lambda module, batch: cross_entropy(module(batch[0]), batch[1]),
    ...     loader,
    ...     lambda parameters: torch.optim.AdamW(parameters, 3e-4),
    ... )  # doctest: +SKIP
    """

    module: nn.Module
    loss: Callable[[nn.Module, Any], Tensor]
    batches: Iterable[Any]
    optimizer: Callable[[list[Tensor]], torch.optim.Optimizer]


@dataclass(frozen=True)
class LossEffect:
    """What a candidate costs a training, beside exact averages.

    Attributes
    ----------
    increase : float
        Loss at the end of the trial over that of exact averages, minus 1. For compressors the costs of all windows but
        the first.
    standard_error : float
        That of `increase`, as far as it follows from the batches.
    cost : float
        Nats a step.
    share : float
        `cost` over what a step gains with exact averages: of 1 or more, the training makes no progress.
    noise_ratio : float or None
        Squared error of the average over the squared noise of the exact average, which follows from the differences
        between ranks; inf without noise, None for `DiLoCo`.
    delays : bool
        Whether a part of the gradients is sent in later steps. What that costs may grow after the trial.
    """

    increase: float
    standard_error: float
    cost: float
    share: float
    noise_ratio: float | None
    delays: bool


@dataclass(frozen=True)
class LossTrial:
    """The result of a trial.

    Attributes
    ----------
    effects : dict of str to LossEffect
        For each candidate by name; none for `DiLoCo` with a period longer than the trial.
    gradients : list of Tensor, float32 [n]
        Gradients of the first rank in the last steps.
    widths : dict of str to uint8 [groups]
        The bits that policies chose in the end, for each group.
    """

    effects: dict[str, LossEffect]
    gradients: list[Tensor]
    widths: dict[str, NDArray[np.uint8]]


class Model:
    """A copy of the module with its optimizer.

    Parameters
    ----------
    training : MeasuredTraining
    """

    def __init__(self, training: MeasuredTraining):
        self.module = deepcopy(training.module)
        self.parameters = list(trained_parameters(self.module).values())
        self.optimizer = training.optimizer(self.parameters)
        self._loss = training.loss

    def gradient(self, batch: Any, layout: Layout, seed: int) -> tuple[Tensor, float]:
        """Return the gradient of a batch, float32 [n], and its loss; `seed` is that of dropout and the like."""
        with seeded(seed):
            self.module.zero_grad()
            loss = self._loss(self.module, batch)
            loss.backward()
        vector = torch.zeros(vector_length(layout))
        for span, parameter in zip(layout, reversed(self.parameters), strict=True):
            if parameter.grad is not None:
                span.view(vector).copy_(parameter.grad)
        return vector, float(loss.detach())

    def step(self, vector: Tensor, layout: Layout) -> None:
        """Let the optimizer step with a gradient, float32 [n]."""
        self.set_gradient(vector, layout)
        self.optimizer.step()

    def set_gradient(self, vector: Tensor, layout: Layout) -> None:
        """Set the gradients of the parameters, from float32 [n]."""
        for span, parameter in zip(layout, reversed(self.parameters), strict=True):
            parameter.grad = span.view(vector).to(parameter.dtype, copy=True)

    def minus(self, subtrahend: Model) -> Tensor:
        """Return the difference of the parameters, float32 [n] in the order of a gradient."""
        pairs = zip(reversed(self.parameters), reversed(subtrahend.parameters), strict=True)
        return torch.cat([(a.detach() - b.detach()).float().flatten() for a, b in pairs])

    def take(self, origin: Model) -> None:
        """Take the parameters and buffers of another copy, and the state of its optimizer."""
        self.module.load_state_dict(origin.module.state_dict())
        self.optimizer.load_state_dict(deepcopy(origin.optimizer.state_dict()))

    def take_parameters(self, origin: Model) -> None:
        """Take the parameters of another copy, without its buffers."""
        with torch.no_grad():
            for own, each in zip(self.parameters, origin.parameters, strict=True):
                own.copy_(each)

    def losses(self, batches: Sequence[Any]) -> Losses:
        """Return the loss of each batch, float64 [batches]."""
        losses = []
        for seed, batch in enumerate(batches):
            with torch.no_grad(), seeded(seed):
                losses.append(float(self._loss(self.module, batch)))
        return np.array(losses, np.float64)


class Shadow:
    """A copy of the model that steps with the averages of a candidate, and what they cost.

    Parameters
    ----------
    training : MeasuredTraining
    averages : RankAverages
        Those of the candidate.
    """

    def __init__(self, training: MeasuredTraining, averages: RankAverages):
        self.model, self.averages = Model(training), averages
        self.squared_error, self.costs = 0.0, np.zeros(JUDGES)

    def step(self, gradients: Sequence[Tensor], exact: Tensor, loss: float, layout: Layout) -> None:
        """Average the gradients of the ranks, and let the copy step; `exact` is the exact average, float32 [n]."""
        average = self.averages.average(gradients, loss)
        self.squared_error += _squares(average - exact)
        self.model.step(average, layout)

    def effect(self, losses: Losses, gain: float, noise: float) -> LossEffect:
        """Return the result, for the final losses and the gain of exact averages, and the sum of their noise."""
        ratio = self.squared_error / noise if noise else float("inf") if self.squared_error else 0.0
        return _effect(self.costs, losses, gain, ratio, self.averages.has_residual)


def _effect(costs: Losses, losses: Losses, gain: float, ratio: float | None, delays: bool) -> LossEffect:
    if not np.isfinite(costs).all():
        return LossEffect(np.inf, np.inf, np.inf, np.inf, ratio, delays)
    cost, error = float(costs.mean()), float(costs.std(ddof=1)) / len(costs) ** 0.5
    scale = abs(float(losses.mean())) or np.finfo(np.float32).tiny
    share = cost / gain if gain > 0 else np.inf
    return LossEffect(cost / scale, error / scale, cost / COUNTED, share, ratio, delays)


def measure_losses(
    training: MeasuredTraining, candidates: Sequence[Candidate], ranks: int, new_averages: NewAverages
) -> LossTrial:
    """Measure what candidates cost a training of `ranks` ranks, in `STEPS` steps.

    The memory is that of a model and an optimizer for each candidate, and of the compressors of all ranks.

    Parameters
    ----------
    training : MeasuredTraining
    candidates : sequence of Candidate
    ranks : int
        Number of ranks, 2 or more.
    new_averages : callable
        Returns new `RankAverages` for a candidate.

    Raises
    ------
    DataError
        If there are too few batches, or a loss of exact averages is not finite.
    """
    needed = JUDGES + STEPS * ranks
    batches = list(islice(training.batches, needed))
    if len(batches) < JUDGES + ranks:
        raise DataError(
            f"the training has {len(batches)} batches; to measure losses it needs {JUDGES + ranks} or more, "
            f"{JUDGES} to compare losses and one for each of {ranks} ranks"
        )
    judges, own = batches[:JUDGES], list(islice(cycle(batches[JUDGES:]), STEPS * ranks))
    steps = [own[begin : begin + ranks] for begin in range(0, len(own), ranks)]
    layout, model = module_layout(training.module), Model(training)
    shadows = {each.name: Shadow(training, new_averages(each)) for each in candidates if not each.every}
    start, before, noise, kept = Model(training), np.zeros(0), 0.0, list[Tensor]()
    for number, batch_of_ranks in enumerate(steps):
        if number == WINDOW:
            start.take(model)
            before = model.losses(judges)
        if number % WINDOW == 0:
            for shadow in shadows.values():
                shadow.model.take(model)
        pairs = [model.gradient(batch, layout, number * ranks + rank) for rank, batch in enumerate(batch_of_ranks)]
        gradients, loss = [pair[0] for pair in pairs], sum(pair[1] for pair in pairs) / ranks
        exact = torch.stack(gradients).double().mean(0).float()
        if not (np.isfinite(loss) and bool(torch.isfinite(exact).all())):
            raise DataError(f"the loss or gradient is not finite in step {number + 1} of the trial: lower the rate")
        noise += sum(_squares(each - exact) for each in gradients) / (ranks - 1) / ranks
        for shadow in shadows.values():
            shadow.step(gradients, exact, loss, layout)
        kept = [*kept, gradients[0]][-KEPT:]
        model.step(exact, layout)
        if (number + 1) % WINDOW == 0 and number >= WINDOW:
            after = model.losses(judges)
            for shadow in shadows.values():
                shadow.costs += shadow.model.losses(judges) - after
    gain = float((before - after).mean())
    effects = {name: shadow.effect(after, gain, noise) for name, shadow in shadows.items()}
    for each in candidates:
        if each.every and each.every <= COUNTED:
            rounds = _Rounds(training, start, each.every, new_averages(each))
            effects[each.name] = _effect(rounds.losses(steps[WINDOW:], judges) - after, after, gain, None, True)
    chosen = {name: shadow.averages.widths for name, shadow in shadows.items()}
    return LossTrial(effects, kept, {name: widths for name, widths in chosen.items() if widths is not None})


@dataclass(frozen=True)
class _Rounds:
    """A training with `DiLoCo` in this process, rank after rank.

    Attributes
    ----------
    training : MeasuredTraining
    start : Model
        Where all ranks begin.
    every : int
        Steps of a round.
    averages : RankAverages
    """

    training: MeasuredTraining
    start: Model
    every: int
    averages: RankAverages

    def losses(self, steps: Sequence[Sequence[Any]], judges: Sequence[Any]) -> Losses:
        """Return the losses of the judges after these steps, and a round at their end."""
        layout, ranks = module_layout(self.training.module), len(steps[0])
        models, shared = [Model(self.training) for _ in range(ranks)], Model(self.training)
        for each in (*models, shared):
            each.take(self.start)
        outer = nesterov(shared.parameters)
        for begin in range(0, len(steps), self.every):
            learned, loss = [], 0.0
            for rank, model in enumerate(models):
                for number, batches in enumerate(steps[begin : begin + self.every], begin + WINDOW):
                    vector, loss = model.gradient(batches[rank], layout, number * ranks + rank)
                    model.step(vector, layout)
                learned.append(shared.minus(model))
            if not all(bool(torch.isfinite(each).all()) for each in learned):
                return np.full(len(judges), np.inf)
            average = self.averages.average(learned, loss)
            shared.set_gradient(average, layout)
            outer.step()
            for model in models:
                model.take_parameters(shared)
        return models[0].losses(judges)


def _squares(vector: Tensor) -> float:
    return float(vector.double().square().sum())
