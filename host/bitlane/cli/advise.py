"""`bitlane advise`: recommend a gradient compressor for a model and a link."""

from __future__ import annotations

import argparse

from bitlane.support.optional import require_extra

from .argument_types import positive
from .command import Command


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--network", help="perceptron, convolutional, wide or resnet: its computing time is measured")
    what.add_argument("--parameters", type=positive, metavar="N", help="a model of one matrix with this many values")
    add("--ranks", type=positive, default=4, help="ranks of the training (default: %(default)s)")
    add("--link", metavar="RATE", help="a network: 100mbit, 1gbit, 1gbit,0.5ms (default: measured on this machine)")
    add("--compute", type=float, metavar="SECONDS", help="computing time of a step, if you have measured it")


def _run(arguments: argparse.Namespace) -> None:
    require_extra("torch", "bitlane advise", "'bitlane[torch]'")
    from bitlane.compress import advise
    from bitlane.compress.collectives import emulated_links

    layout, compute = advise.model_of(arguments.network, arguments.parameters)
    compute = compute if arguments.compute is None else arguments.compute
    model = emulated_links.parse_link(arguments.link) if arguments.link else advise.loopback(arguments.ranks)
    print(advise.advice_text(advise.advise(layout, compute, model, arguments.ranks)))


COMMAND = Command(
    "advise",
    "recommend a gradient compressor for a model and a link",
    _add_arguments,
    _run,
    description="Measure a model and the compressors on this machine, and the link between its processes unless one is "
    "given, and recommend the compressor with the shortest step, or none. Needs torch.",
)
