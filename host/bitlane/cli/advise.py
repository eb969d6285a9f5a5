"""`bitlane advise`: recommend a gradient compressor for a model and a link."""

from __future__ import annotations

import argparse

from bitlane.support.optional import require_extra

from .argument_types import positive, seconds
from .command import Command
from .summaries import SUMMARIES


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--network",
        help="perceptron, convolutional, wide, resnet or resnet8, or FILE.py:FUNCTION as in train-ddp: its computing "
        "time is measured, with 32 images of 3 x 32 x 32",
    )
    what.add_argument(
        "--model",
        metavar="MODEL",
        help="gpt2, gpt2-medium, resnet18, resnet50 or lstm; a text file with the shape of a parameter on each line; "
        "or package.module:FUNCTION or FILE.py:FUNCTION, which returns a torch module, or a MeasuredTraining, whose "
        "loss and computing time are measured",
    )
    add("--ranks", type=positive, default=4, help="processes of the training (default: %(default)s)")
    add(
        "--link",
        metavar="RATE",
        help="rate of the network, or rate and delay: 100mbit, 1gbit,0.5ms (default: measured on this machine)",
    )
    add(
        "--compute",
        type=seconds,
        metavar="SECONDS",
        help="computing time of a step, two thirds of it backward (default: measured where it can be)",
    )


def _run(arguments: argparse.Namespace) -> None:
    require_extra("torch", "bitlane advise", "'bitlane[torch]'")
    from bitlane.compress.advice import links, models
    from bitlane.compress.advice.advise import advise
    from bitlane.compress.advice.report import advice_text
    from bitlane.compress.collectives.emulated_links import parse_link
    from bitlane.compress.step_costs import ComputeCosts

    model, compute = models.load_model(arguments.network, arguments.model)
    compute = compute if arguments.compute is None else ComputeCosts.of(arguments.compute)
    link = parse_link(arguments.link) if arguments.link else links.measure_loopback(arguments.ranks)
    print(advice_text(advise(model, link, arguments.ranks, compute, peaks=True)))


COMMAND = Command(
    "advise",
    SUMMARIES["advise"],
    _add_arguments,
    _run,
    description="Recommend how to average gradients: the fastest way that keeps the loss, or plain DDP. Predicts "
    "bytes, time and memory of each way, and with the batches of a training its loss. Needs torch.",
)
