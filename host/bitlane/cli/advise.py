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
        "--parameters",
        type=positive,
        metavar="N",
        help="a square matrix of this many values; for a model of several layers, low-rank compressors send more",
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
        help="computing time of a step, two thirds of it backward (default: that of --network, 0 with --parameters)",
    )


def _run(arguments: argparse.Namespace) -> None:
    require_extra("torch", "bitlane advise", "'bitlane[torch]'")
    from bitlane.compress import advise
    from bitlane.compress.collectives import emulated_links
    from bitlane.compress.costs import ComputeCosts

    layout, compute = advise.measure_model(arguments.network, arguments.parameters)
    compute = compute if arguments.compute is None else ComputeCosts.of(arguments.compute)
    model = emulated_links.parse_link(arguments.link) if arguments.link else advise.measure_loopback(arguments.ranks)
    print(advise.advice_text(advise.advise(layout, compute, model, arguments.ranks)))


COMMAND = Command(
    "advise",
    SUMMARIES["advise"],
    _add_arguments,
    _run,
    description="Recommend the compressor with the shortest step, or none. The computing time of the model, the speed "
    "of the compressors and the link are measured on this machine. Needs torch.",
)
