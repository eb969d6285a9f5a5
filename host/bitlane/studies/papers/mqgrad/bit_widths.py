"""Find the settings in which few bits fail: time to a loss with fixed bits and with MQGrad.

    python -m bitlane.studies.papers.mqgrad.bit_widths              six settings, three seeds: an hour
    python -m bitlane.studies.papers.mqgrad.bit_widths --only 3 --seeds 1

Values share a scale in groups of 512 (`QSGD`), or in a whole parameter as in MQGrad's experiments (`OneScale`). The
target is a mean loss of 20 steps within 5 % of the lowest one with 8 bits. The times of a step are as in `pace`:
computing and coding are measured, and sending follows from the link. One scale counts as groups do.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from bitlane.compress.compressor import Compressor
from bitlane.compress.compressors.dense import QSGD
from bitlane.compress.training.experiment import NetworkTraining, TrainingHistory, train
from bitlane.compress.training.images import Images, load_images
from bitlane.errors import DataError
from bitlane.policies.mqgrad import MQGrad
from bitlane.policies.protocol import BitPolicy, FixedBits
from bitlane.support.text import align_columns

from ...command import run
from .one_scale import OneScale
from .pace import LINKS, RANKS, StepTimes, measure_step_times
from .race import WITHIN, seconds_to, smooth

WIDTHS = (2, 3, 4, 6, 8)


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
    Setting("mnist", "convolutional", 32, 0.05, 200, False),
    Setting("cifar10", "convolutional", 32, 0.05, 250, False),
)


def trained(setting: Setting, policy: BitPolicy, images: Images, seed: int, pace: StepTimes) -> TrainingHistory:
    """Train with a policy; it sees the times of `pace`."""
    used = setting.steps * RANKS * setting.batch
    some = Images(images.pixels[:used], images.classes[:used], images.held_out_pixels, images.held_out_classes)
    epochs = ceil(used / len(some.pixels))
    training = NetworkTraining(setting.network, RANKS, setting.batch, epochs, setting.rate, seed=seed)
    compressor: Compressor = QSGD(policy, seed=seed) if setting.groups else OneScale(policy, seed)
    return train(training, compressor, some, clock=pace.seconds)


def measure(setting: Setting, seeds: int, log: Callable[[str], None]) -> list[list[str]]:
    """Return the rows of the table of a setting: seconds to the target on each link, bits, final loss, accuracy."""
    images = load_images(setting.images)
    _, channels, side, _ = images.pixels.shape
    paces = measure_step_times(setting.network, channels, side, setting.batch)
    histories: dict[str, list[list[TrainingHistory]]] = {}  # by link, then by seed
    for bits in WIDTHS:
        log(f"{setting.text}: {bits} bits")
        fixed = [trained(setting, FixedBits(bits), images, seed, paces[0]) for seed in range(seeds)]
        histories[f"{bits} bits"] = [fixed] * len(paces)
    log(f"{setting.text}: MQGrad")
    histories["MQGrad"] = [
        [trained(setting, MQGrad(seed=seed), images, seed, pace) for seed in range(seeds)] for pace in paces
    ]
    targets = [WITHIN * float(smooth(history).min()) for history in histories["8 bits"][0]]
    return rows(histories, targets, paces)


def rows(
    histories: dict[str, list[list[TrainingHistory]]], targets: Sequence[float], paces: Sequence[StepTimes]
) -> list[list[str]]:
    """Return the rows of a setting from its histories, by name, link and seed, and the targets of the seeds."""
    found = []
    for name, links in histories.items():
        times = [
            [seconds_to(target, history, pace) for target, history in zip(targets, own, strict=True)]
            for own, pace in zip(links, paces, strict=True)
        ]
        every = [history for own in links for history in own]
        ends = [float(smooth(history)[-1]) for history in every]
        numbers = (
            f"{np.mean([history.bits.mean() for history in every]):.2f}",
            f"{np.mean(ends):.4f}",
            f"{np.mean([history.accuracy for history in every]):.3f}",
        )
        found.append([name, *map(_seconds, times), *numbers])
    return found


def _seconds(times: Sequence[float]) -> str:
    """Return the mean, or how many seeds missed the target."""
    missed = sum(not np.isfinite(each) for each in times)
    return f"missed by {missed} of {len(times)}" if missed else f"{np.mean(times):.2f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bitlane.studies.papers.mqgrad.bit_widths", description=_SUMMARY)
    parser.add_argument("--seeds", type=int, default=3, help="trainings with each policy (default: %(default)s)")
    parser.add_argument("--only", type=int, metavar="N", help=f"one setting, 1 to {len(SETTINGS)} (default: all)")
    arguments = parser.parse_args(argv)
    if arguments.seeds < 1 or not 1 <= (arguments.only or 1) <= len(SETTINGS):
        raise DataError(
            f"--seeds must be 1 or more and --only 1 to {len(SETTINGS)}; got {arguments.seeds} and {arguments.only}"
        )
    chosen = SETTINGS if arguments.only is None else (SETTINGS[arguments.only - 1],)
    for setting in chosen:
        table = measure(setting, arguments.seeds, _log)
        headings = ["", *(f"{link}: s" for link in LINKS), "mean bits", "final loss", "accuracy"]
        print(f"{setting.text}\n{align_columns([headings, *table], left=1)}\n", flush=True)
    return 0


def _log(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


_SUMMARY = "Find the settings in which few bits fail: time to a loss with fixed bits and with MQGrad."

if __name__ == "__main__":
    run(main)
