"""Train a network with an average in each step, and with DiLoCo in float32 and in 4 bits: loss and bytes.

    python -m bitlane.studies.compression.local                     300 steps on CIFAR-10 with 2 ranks
    python -m bitlane.studies.compression.local --every 20 --ranks 4

All ways make equally many inner steps with the same batches and learning rates. The loss and the accuracy are those of
the global parameters on held-out images; the bytes are those that a rank's transport sends after the start.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress.collectives.launch import launch
from bitlane.compress.compressors.dense import QSGD
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.compress.ddp.hook import DDPCompression, attach
from bitlane.compress.local.diloco import DiLoCo
from bitlane.compress.training.experiment import NetworkTraining, accuracy, batches
from bitlane.compress.training.images import Images, load_images
from bitlane.compress.training.networks import network
from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns


@dataclass(frozen=True)
class Setup:
    """The settings of the study.

    Attributes
    ----------
    training : NetworkTraining
        Network, ranks, batch and learning rate, which is constant. The epochs follow from the steps.
    images : str
        A data set of `load_images`.
    steps : int
        Inner steps.
    every : int
        Inner steps between two rounds.
    """

    training: NetworkTraining
    images: str
    steps: int
    every: int


@dataclass(frozen=True)
class LocalTrial:
    """The result of one way on one rank: held-out cross-entropy in nats, accuracy, and bytes sent."""

    loss: float
    accuracy: float
    bytes_sent: int


def _each_step(model: nn.Module, every: int) -> tuple[nn.Module, DDPCompression]:
    ddp = DistributedDataParallel(model)
    return ddp, attach(ddp, Uncompressed())


def _float32(model: nn.Module, every: int) -> tuple[nn.Module, DiLoCo]:
    return model, DiLoCo(model, compressor=Uncompressed(), every=every)


def _four_bits(model: nn.Module, every: int) -> tuple[nn.Module, DiLoCo]:
    return model, DiLoCo(model, compressor=QSGD(bits=4, error_feedback=True), every=every)


WAYS: dict[str, Callable[[nn.Module, int], tuple[nn.Module, DDPCompression | DiLoCo]]] = {
    "average in each step": _each_step,
    "DiLoCo, float32": _float32,
    "DiLoCo, 4 bits": _four_bits,
}


def run_rank(report: Callable[[str], None], setup: Setup) -> list[LocalTrial]:
    """Train one rank in each way; report each when it is done."""
    images, trials = load_images(setup.images), []
    steps_per_epoch = len(images.pixels) // (setup.training.ranks * setup.training.batch)
    setup = replace(setup, training=replace(setup.training, epochs=ceil(setup.steps / steps_per_epoch)))
    for name in WAYS:
        trials.append(_train(name, setup, images))
        report(name)
    return trials


def _train(name: str, setup: Setup, images: Images) -> LocalTrial:
    training, shape = setup.training, images.pixels.shape
    model = network(training.network, shape[1], shape[2], training.seed)
    called, averaging = WAYS[name](model, setup.every)
    optimizer = torch.optim.SGD(model.parameters(), training.rate, training.momentum)
    own_batches = batches(training, len(images.pixels), dist.get_rank())[: setup.steps]
    with averaging:
        before = averaging.transport.sent
        for batch in own_batches:
            optimizer.zero_grad()
            cross_entropy(called(images.pixels[batch]), images.classes[batch]).backward()
            optimizer.step()
            if isinstance(averaging, DiLoCo):
                averaging.step()
        sent = averaging.transport.sent - before
        if isinstance(averaging, DiLoCo):
            averaging.finish()
    return LocalTrial(_loss(model, images), accuracy(model, images), sent)


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch has no types here
def _loss(model: nn.Module, images: Images) -> float:
    """Return the mean cross-entropy of the held-out images, in nats."""
    pairs = zip(images.held_out_pixels.split(500), images.held_out_classes.split(500), strict=True)
    total = sum(float(cross_entropy(model(x), y, reduction="sum")) for x, y in pairs)
    return total / len(images.held_out_classes)


def table(ranks: Sequence[Sequence[LocalTrial]]) -> str:
    """Return the table of the results of all ranks: loss and accuracy of rank 0, the most bytes of any rank."""
    rows = [["way", "held-out loss", "accuracy", "MB sent", "of float32"]]
    for number, name in enumerate(WAYS):
        own, sent = ranks[0][number], max(rank[number].bytes_sent for rank in ranks)
        share = sent / max(rank[0].bytes_sent for rank in ranks)
        rows.append([name, f"{own.loss:.4f}", f"{own.accuracy:.4f}", f"{sent / 1e6:.3f}", f"{share:.5f}"])
    return align_columns(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bitlane.studies.compression.local", description=_SUMMARY)
    add = parser.add_argument
    add("--images", default="cifar10", help="a data set of images (default: %(default)s)")
    add("--network", default="convolutional", help="a network of bitlane train-ddp (default: %(default)s)")
    add("--ranks", type=int, default=2, help="number of ranks, 2 or more (default: %(default)s)")
    add("--steps", type=int, default=300, help="inner steps (default: %(default)s)")
    add("--every", type=int, default=50, help="inner steps between two rounds (default: %(default)s)")
    add("--rate", type=float, default=0.02, help="learning rate of the inner optimizer (default: %(default)s)")
    arguments = parser.parse_args(argv)
    training = NetworkTraining(arguments.network, arguments.ranks, rate=arguments.rate)
    setup = Setup(training, arguments.images, arguments.steps, arguments.every)
    print(table(launch(run_rank, arguments.ranks, setup)))
    return 0


_SUMMARY = "Train a network with an average in each step, and with DiLoCo in float32 and in 4 bits: loss and bytes."

if __name__ == "__main__":
    try:
        sys.exit(main())
    except BitlaneError as error:
        sys.exit(f"error: {error}")
