"""The settings that are advised: a training and a link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bitlane.compress.advice.trial import JUDGES, STEPS, MeasuredTraining
from bitlane.compress.seeded import seeded
from bitlane.errors import BitlaneError

from ..local.tasks import LENGTH, ModelTask, load_task
from ..local.text import load_text, windows
from ..local.transformer import BYTE_VALUES, ByteTransformer

BATCH = 32  # examples of a rank in a step
FALLING = 0.25  # share of the steps in which the rate falls to 0


class ByteLSTM(nn.Module):
    """Predicts each next byte of a text from those before, by a recurrent network.

    Parameters
    ----------
    width : int, default: 96
        Size of its state.
    """

    def __init__(self, width: int = 96):
        super().__init__()
        self.bytes = nn.Embedding(BYTE_VALUES, width // 3)
        self.recurrent = nn.LSTM(width // 3, width, batch_first=True)
        self.head = nn.Linear(width, BYTE_VALUES)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of the next bytes, [batch, length, 256], for bytes, int64 [batch, length]."""
        logits: Tensor = self.head(self.recurrent(self.bytes(x))[0])
        return logits


def _seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    with seeded(seed):
        return build()


def _text(build: Callable[[], nn.Module]) -> ModelTask:
    text = load_text()
    return ModelTask(
        lambda seed: _seeded(build, seed), *windows(text.training, LENGTH), *windows(text.held_out, LENGTH)
    )


@dataclass(frozen=True)
class AdvisedTask:
    """A task with AdamW and its rate.

    Attributes
    ----------
    load : callable
        Returns the data and the model.
    rate : float
        Largest rate of AdamW.
    """

    load: Callable[[], ModelTask]
    rate: float


TASKS = {
    "transformer": AdvisedTask(lambda: _text(lambda: ByteTransformer(width=64, length=LENGTH)), 6e-3),
    "resnet8": AdvisedTask(lambda: load_task("images"), 4e-3),
    "lstm": AdvisedTask(lambda: _text(ByteLSTM), 1e-2),
}


@dataclass(frozen=True)
class AdvisedSetting:
    """A task of `TASKS` on a link, as `parse_link` takes it, with a number of ranks and of steps.

    Raises
    ------
    BitlaneError
        A task that does not exist, or fewer steps than the trial of an advice has.
    """

    task: str
    link: str
    ranks: int = 2
    steps: int = 400

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise BitlaneError(f"unknown task {self.task!r}: choose one of {', '.join(TASKS)}")
        if self.steps < STEPS or self.ranks < 2:
            raise BitlaneError(f"at least {STEPS} steps and 2 ranks are needed; got {self.steps} and {self.ranks}")

    def factor(self, step: int) -> float:
        """Return the share of the largest rate in a step, from 0: 1, then a line to 0."""
        return min(1.0, (self.steps - step) / max(1.0, FALLING * self.steps))

    def batches(self, examples: int, seed: int) -> Tensor:
        """Return the indices of the batches of all steps, int64 [steps, ranks, BATCH], and of those to compare losses.

        The latter are the last JUDGES / ranks steps, rounded up.
        """
        generator = torch.Generator().manual_seed(seed)
        shape = self.steps - (-JUDGES // self.ranks), self.ranks, BATCH
        return torch.randint(examples, shape, generator=generator)

    def measured_training(self, seed: int) -> MeasuredTraining:
        """Return the first steps of the training, as `advise` takes them."""
        task, rate = TASKS[self.task].load(), TASKS[self.task].rate
        batches = self.batches(len(task.inputs), seed).flatten(0, 1)
        order = [*batches[self.steps * self.ranks :][:JUDGES], *batches[: STEPS * self.ranks]]
        return MeasuredTraining(task.build_model(seed), task.loss, order, lambda each: torch.optim.AdamW(each, rate))
