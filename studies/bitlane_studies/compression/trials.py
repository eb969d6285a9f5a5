"""Compare the losses that a trial of `bitlane advise` predicts with those of trainings with each compressor.

    python -m bitlane_studies.compression.trials                   text, a causal transformer, AdamW, 2 ranks, 3 seeds
    python -m bitlane_studies.compression.trials images --rate 0.004

All trainings of a seed have the same weights and batches. The predicted change is that of the last 40 of 60 steps; the
trained ones are those of the held-out loss after 60 steps and after `--steps`, over that of exact averages.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from bitlane.compress.advice.averages import RankAverages
from bitlane.compress.advice.candidates import PLAIN, Candidate, parse_candidate
from bitlane.compress.advice.layouts import module_layout
from bitlane.compress.advice.trial import JUDGES, STEPS, MeasuredTraining, Model, measure_losses
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.support.one_thread import one_thread
from bitlane.support.text import align_columns

from ..command import run
from .local.tasks import TASKS, ModelTask, load_task

RANKS, BATCH = 2, 32
COMPRESSORS = (
    *("qsgd:bits=8", "qsgd:bits=4", "qsgd:bits=4,error_feedback=True", "qsgd:bits=3", "qsgd:bits=allocation"),
    *("qsgd:bits=2,error_feedback=True", "efsign", "powersgd:rank=4", "lqsgd:rank=4", "lqsgd:rank=1"),
    "topk:density=0.01",
)


def training_of(task: ModelTask, rate: float, steps: int, seed: int) -> MeasuredTraining:
    """Return a training with AdamW, whose batches are indices of training examples."""
    generator = torch.Generator().manual_seed(seed)
    batches = [torch.randint(len(task.inputs), (BATCH,), generator=generator) for _ in range(JUDGES + steps * RANKS)]
    model = task.build_model(seed)
    return MeasuredTraining(model, task.loss, batches, lambda parameters: torch.optim.AdamW(parameters, rate))


def new_averages(candidate: Candidate, training: MeasuredTraining) -> RankAverages:
    """Return the averages of a candidate, on a link of 100 Mb/s that takes all of the time."""
    layout, link = module_layout(training.module), AlphaBetaModel()

    def clock(bits: float) -> tuple[float, float]:
        seconds = link.reduce_scatter_seconds(round(layout[-1].end * bits / 8), RANKS)
        return seconds, seconds

    return RankAverages(candidate, layout, RANKS, link, clock)


def trained(task: ModelTask, training: MeasuredTraining, candidate: Candidate, steps: int) -> tuple[float, float]:
    """Return the held-out losses after `STEPS` and `steps` steps of a training with a candidate."""
    model, averages, layout = Model(training), new_averages(candidate, training), module_layout(training.module)
    batches, early = list(training.batches)[JUDGES:], 0.0
    for step in range(steps):
        own = batches[step * RANKS :][:RANKS]
        pairs = [model.gradient(batch, layout, step * RANKS + rank) for rank, batch in enumerate(own)]
        model.step(averages.average([pair[0] for pair in pairs], pairs[0][1]), layout)
        if step + 1 == STEPS:
            early = task.held_out_loss(model.module)
    return early, task.held_out_loss(model.module)


def changes(
    task: ModelTask, candidates: Sequence[Candidate], rate: float, steps: int, seed: int
) -> NDArray[np.float64]:
    """Return for each candidate the predicted change of the loss and both trained ones, float64 [candidates, 3]."""
    training = training_of(task, rate, steps, seed)
    effects = measure_losses(training, candidates, RANKS, lambda each: new_averages(each, training)).effects
    exact = np.array(trained(task, training, parse_candidate(PLAIN), steps))
    found = [np.array(trained(task, training, each, steps)) / exact - 1 for each in candidates]
    return np.array([[effects[each.name].increase, *own] for each, own in zip(candidates, found, strict=True)])


def table(candidates: Sequence[Candidate], relative: NDArray[np.float64], steps: int) -> str:
    """Format changes, float64 [seeds, candidates, 3], in percent: mean and standard deviation over seeds."""
    rows = [["compressor", "predicted", f"after {STEPS} steps", f"after {steps} steps"]]
    for number, each in enumerate(candidates):
        own = 100 * relative[:, number]
        deviations = own.std(axis=0, ddof=1) if len(own) > 1 else np.zeros(3)
        cells = [
            f"{mean:+.2f} +- {deviation:.2f}" for mean, deviation in zip(own.mean(axis=0), deviations, strict=True)
        ]
        rows.append([each.name, *cells])
    return align_columns(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.compression.trials", description=_SUMMARY)
    parser.add_argument("task", nargs="?", choices=TASKS, default="text", help="(default: %(default)s)")
    parser.add_argument("--compressors", nargs="+", default=COMPRESSORS, help="compressors, as text")
    parser.add_argument("--rate", type=float, default=0.01, help="learning rate (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="steps of a training (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind (default: %(default)s)")
    arguments = parser.parse_args(argv)
    task, candidates = load_task(arguments.task), [parse_candidate(each) for each in arguments.compressors]
    with one_thread():
        seeds = range(arguments.seeds)
        found = [changes(task, candidates, arguments.rate, arguments.steps, seed) for seed in seeds]
    print(table(candidates, np.array(found), arguments.steps))
    return 0


_SUMMARY = "Compare the losses that a trial of bitlane advise predicts with those of trainings."

if __name__ == "__main__":
    run(main)
