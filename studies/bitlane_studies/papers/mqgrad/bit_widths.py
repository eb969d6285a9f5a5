"""Time to a loss with fixed bits and with bit policies, also where few bits fail.

    python -m bitlane_studies.papers.mqgrad.bit_widths              six settings, three seeds: more than an hour
    python -m bitlane_studies.papers.mqgrad.bit_widths --only 3 --seeds 1

Values share a scale in groups of 512 (`QSGD`), or in a whole parameter as in MQGrad's experiments (`OneScale`). The
target is a mean loss of 20 steps within 5 % of the lowest one with 8 bits. The times of a step are as in `pace`:
computing and coding are measured in the first minute, in which the machine should be quiet, and sending follows from
the link. One scale counts as groups do. Policies see these times; `BitAllocation` chooses the bits of each group, or of
each parameter.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from bitlane.compress.compressor import Compressor
from bitlane.compress.compressors.dense import QSGD
from bitlane.compress.training.experiment import NetworkTraining, TrainingHistory, layout_of, train
from bitlane.compress.training.images import Images, load_images
from bitlane.compress.training.networks import network
from bitlane.errors import DataError
from bitlane.policies.allocation import BitAllocation
from bitlane.policies.mqgrad import MQGrad
from bitlane.policies.protocol import BitPolicy, FixedBits
from bitlane.support.text import align_columns

from ...command import run
from .one_scale import OneScale
from .pace import LINKS, RANKS, StepTimes, measure_step_times, with_allocation
from .race import WITHIN, seconds_to, smooth

WIDTHS = (2, 3, 4, 6, 8)
LinkRuns = Sequence[tuple[StepTimes, Sequence[TrainingHistory]]]  # of each link: its times, and the runs of all seeds


@dataclass(frozen=True)
class Setting:
    """A training: the images, the network, the images of a rank and step, the initial rate, and who shares a scale."""

    images: str
    network: str
    batch: int
    rate: float
    steps: int
    groups: bool

    @property
    def text(self) -> str:
        """The setting as a heading."""
        scales = "groups of 512" if self.groups else "one scale a parameter"
        return f"{self.images}, {self.network}, batch {self.batch}, rate {self.rate:g}, {self.steps} steps, {scales}"


SETTINGS = (
    Setting("mnist", "perceptron", 32, 0.1, 300, True),
    Setting("mnist", "perceptron", 32, 0.1, 300, False),
    Setting("fashion_mnist", "perceptron", 128, 0.1, 200, True),
    Setting("mnist", "convolutional", 32, 0.05, 200, True),
    Setting("cifar10", "convolutional", 32, 0.05, 250, True),
    Setting("cifar10", "wide", 32, 0.05, 200, True),
)


def data_of(setting: Setting, images: Images) -> Images:
    """Return the images of a training: all, if it needs more."""
    used = setting.steps * RANKS * setting.batch
    return Images(images.pixels[:used], images.classes[:used], images.held_out_pixels, images.held_out_classes)


def training_of(setting: Setting, images: Images, seed: int) -> NetworkTraining:
    """Return the settings of a training with these images."""
    epochs = ceil(setting.steps * RANKS * setting.batch / len(images.pixels))
    return NetworkTraining(setting.network, RANKS, setting.batch, epochs, setting.rate, seed=seed)


def compressor_of(setting: Setting, policy: BitPolicy, seed: int) -> Compressor:
    """Return the compressor of a setting."""
    return QSGD(policy, seed=seed) if setting.groups else OneScale(policy, seed)


def trained(setting: Setting, policy: BitPolicy, images: Images, seed: int, pace: StepTimes) -> TrainingHistory:
    """Train with a policy; it sees the times of `pace`."""
    some = data_of(setting, images)
    return train(training_of(setting, some, seed), compressor_of(setting, policy, seed), some, clock=pace.clock)


@dataclass(frozen=True)
class Times:
    """The times of a setting's steps on each link: with the same bits in all groups, and with `BitAllocation`."""

    plain: Sequence[StepTimes]
    allocated: Sequence[StepTimes]

    @classmethod
    def measured(cls, setting: Setting) -> Times:
        """Measure them; other work on the machine disturbs this."""
        channels, side = (3, 32) if setting.images == "cifar10" else (1, 28)
        plain = measure_step_times(setting.network, channels, side, setting.batch)
        layout = layout_of(list(network(setting.network, channels, side, 0).parameters()))
        return cls(plain, with_allocation(plain, layout))


def measure(setting: Setting, times: Times, seeds: int, log: Callable[[str], None]) -> list[list[str]]:
    """Return the rows of the table of a setting: seconds to the target on each link, bits, final loss, accuracy."""
    images = load_images(setting.images)
    runs: dict[str, LinkRuns] = {}
    for bits in WIDTHS:
        log(f"{setting.text}: {bits} bits")
        fixed = [trained(setting, FixedBits(bits), images, seed, times.plain[0]) for seed in range(seeds)]
        runs[f"{bits} bits"] = [(pace, fixed) for pace in times.plain]
    policies: Mapping[str, tuple[Callable[[int], BitPolicy], Sequence[StepTimes]]] = {
        "MQGrad": (lambda seed: MQGrad(seed=seed), times.plain),
        "BitAllocation": (lambda seed: BitAllocation(), times.allocated),
    }
    for name, (policy, own) in policies.items():
        log(f"{setting.text}: {name}")
        runs[name] = [
            (pace, [trained(setting, policy(seed), images, seed, pace) for seed in range(seeds)]) for pace in own
        ]
    return rows(runs, [WITHIN * float(smooth(history).min()) for history in runs["8 bits"][0][1]])


def rows(runs: Mapping[str, LinkRuns], targets: Sequence[float]) -> list[list[str]]:
    """Return the rows of a setting from its runs, by name, and the targets of the seeds."""
    table = []
    for name, links in runs.items():
        times = [
            [seconds_to(target, history, pace) for target, history in zip(targets, own, strict=True)]
            for pace, own in links
        ]
        every = [history for _, own in links for history in own]
        ends = [float(smooth(history)[-1]) for history in every]
        numbers = (
            f"{np.mean([history.step_bits.mean() for history in every]):.2f}",
            f"{np.mean(ends):.4f}",
            f"{np.mean([history.accuracy for history in every]):.3f}",
        )
        table.append([name, *map(_seconds, times), *numbers])
    return table


def _seconds(times: Sequence[float]) -> str:
    """Return the mean, or how many seeds missed the target."""
    missed = sum(not np.isfinite(each) for each in times)
    return f"missed by {missed} of {len(times)}" if missed else f"{np.mean(times):.2f}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for seeds and settings."""
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind (default: %(default)s)")
    parser.add_argument("--only", type=int, metavar="N", help=f"one setting, 1 to {len(SETTINGS)} (default: all)")


def chosen_settings(arguments: argparse.Namespace) -> Sequence[Setting]:
    """Return the settings that the options name; raise DataError for wrong numbers."""
    if arguments.seeds < 1 or not 1 <= (arguments.only or 1) <= len(SETTINGS):
        raise DataError(
            f"--seeds must be 1 or more and --only 1 to {len(SETTINGS)}; got {arguments.seeds} and {arguments.only}"
        )
    return SETTINGS if arguments.only is None else (SETTINGS[arguments.only - 1],)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.papers.mqgrad.bit_widths", description=_SUMMARY)
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    chosen = chosen_settings(arguments)
    for setting, times in [(setting, Times.measured(setting)) for setting in chosen]:
        table = measure(setting, times, arguments.seeds, _log)
        headings = ["", *(f"{link}: s" for link in LINKS), "mean bits", "final loss", "accuracy"]
        print(f"{setting.text}\n{align_columns([headings, *table], left=1)}\n", flush=True)
    return 0


def _log(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


_SUMMARY = "Measure the time to a loss with fixed bits and with bit policies, also where few bits fail."

if __name__ == "__main__":
    run(main)
