"""What rounding costs a step of a training, in nats, beside what the step gains.

    python -m bitlane_studies.papers.mqgrad.rounding_cost              the settings of `bit_widths`, 2 and 3 bits
    python -m bitlane_studies.papers.mqgrad.rounding_cost --only 6 --seeds 1

The error e of the average of a step, with exact gradients as a comparison, moves the weights by -rate / (1 - momentum)
times e in the end. Errors of many steps add up to a displacement d, to which the gradient responds with H d. So
<d, gradient> / <d, d> is the mean curvature h along errors: the gradients of later batches do not depend on d
otherwise. A step's rounding then costs

    h / 2 * (rate / (1 - momentum))**2 * <e, e>

The displacement begins anew every 20 steps. The response to a single error drowns in the noise of batches.
The share is this cost over what a step would gain without it, the fall of the loss plus the cost: of 1 or more,
training with so few bits makes no progress.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitlane.compress.codecs.wire import CodecId
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.compressor import Compressor, Layout, Reducer
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.compress.training.experiment import NetworkTraining, TrainingHistory, train
from bitlane.compress.training.images import Images, load_images
from bitlane.policies.choices import BIT_CHOICES
from bitlane.policies.protocol import FixedBits
from bitlane.support.text import align_columns

from ...command import run
from .bit_widths import Setting, add_arguments, chosen_settings, compressor_of, data_of, training_of
from .race import smooth

WINDOW = 20  # steps after which the displacement begins anew
FIRST, LAST = 20, 100  # the steps of the table: the loss falls, but no longer as at the very beginning


class Watch:
    """Records the errors of the averages of a training.

    Parameters
    ----------
    training : NetworkTraining
        For its rate and momentum.
    steps : int
        Steps of the training; the rate falls to 0.

    Attributes
    ----------
    responses, lengths : list of float
        <d, gradient> and <d, d> of each step.
    moves : list of float
        (rate / (1 - momentum))**2 <e, e> of each step.
    """

    def __init__(self, training: NetworkTraining, steps: int):
        self.responses: list[float] = []
        self.lengths: list[float] = []
        self.moves: list[float] = []
        self._training, self._steps = training, steps
        self._velocity = self._displacement = torch.zeros(0)

    def add(self, rounding_error: Tensor, gradient: Tensor, step: int) -> None:
        """Record a step: the error of its average and the exact average, float32 [n]."""
        rate, momentum = self._training.rate * (1 - step / self._steps), self._training.momentum
        if step % WINDOW == 0:
            self._velocity, self._displacement = torch.zeros_like(rounding_error), torch.zeros_like(rounding_error)
        self.responses.append(float(self._displacement @ gradient))
        self.lengths.append(float(self._displacement @ self._displacement))
        self.moves.append((rate / (1 - momentum)) ** 2 * float(rounding_error @ rounding_error))
        self._velocity.mul_(momentum).add_(rounding_error)
        self._displacement.sub_(self._velocity, alpha=rate)

    def cost(self, window: slice) -> float:
        """Return the mean cost of rounding in the steps of a window, in nats."""
        curvature = sum(self.responses[window]) / sum(self.lengths[window])
        return curvature / 2 * float(np.mean(self.moves[window]))


@dataclass(frozen=True)
class Watched:
    """A compressor without a bit policy whose errors rank 0 records."""

    compressor: Compressor
    watch: Watch
    policy: None = None

    @property
    def codec(self) -> CodecId:
        """The codec of the compressor."""
        return self.compressor.codec

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> Reducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        reducer, exact = (each.reducer(layout, link, model, device) for each in (self.compressor, Uncompressed()))
        compressed = reducer.average

        def average(vector: Tensor, step: int) -> None:
            gradient = vector.clone()
            exact.average(gradient, step)
            compressed(vector, step)
            if link.rank == 0:
                self.watch.add(vector - gradient, gradient, step)

        reducer.average = average  # type: ignore[method-assign]
        return reducer


def watched(setting: Setting, bits: int, images: Images, seed: int) -> tuple[TrainingHistory, Watch]:
    """Train with fixed bits, and watch their errors."""
    some = data_of(setting, images)
    training = training_of(setting, some, seed)
    watch = Watch(training, setting.steps)
    return train(training, Watched(compressor_of(setting, FixedBits(bits), seed), watch), some), watch


def row(setting: Setting, bits: int, images: Images, seeds: int) -> list[str]:
    """Return a row of the table: means over seeds, and the standard deviation of the cost."""
    pairs = [watched(setting, bits, images, seed) for seed in range(seeds)]
    ends = [float(smooth(history)[-1]) for history, _ in pairs]
    if not np.isfinite(ends).all():
        return [f"{bits}", "diverges", "", "", ""]
    falls = [history.losses[FIRST : FIRST + WINDOW] - history.losses[LAST - WINDOW : LAST] for history, _ in pairs]
    costs = [watch.cost(slice(FIRST, LAST)) for _, watch in pairs]
    fall, cost = float(np.mean(falls)) / (LAST - FIRST - WINDOW), float(np.mean(costs))
    spread = f" +- {1e3 * np.std(costs, ddof=1):.2f}" if seeds > 1 else ""
    share = f"{cost / (fall + cost):.2f}"
    return [f"{bits}", f"{1e3 * fall:.2f}", f"{1e3 * cost:.2f}{spread}", share, f"{np.mean(ends):.4f}"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.papers.mqgrad.rounding_cost", description=_SUMMARY)
    add_arguments(parser)
    parser.add_argument(
        "--bits", type=int, nargs="+", choices=BIT_CHOICES, default=[2, 3], help="fixed bits (default: 2 3)"
    )
    arguments = parser.parse_args(argv)
    for setting in chosen_settings(arguments):
        images = load_images(setting.images)
        rows = [row(setting, bits, images, arguments.seeds) for bits in arguments.bits]
        print(f"{setting.text}\n{align_columns([HEADINGS, *rows])}\n", flush=True)
    return 0


HEADINGS = ["bits", "fall of the loss, 0.001 nats a step", "cost of rounding", "its share", "final loss"]
_SUMMARY = "Measure what rounding costs a step of a training, in nats, beside what the step gains."

if __name__ == "__main__":
    run(main)
