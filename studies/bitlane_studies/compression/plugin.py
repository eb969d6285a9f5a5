"""`bitlane bench-compress`: measure the speed of gradient codecs on this machine."""

from __future__ import annotations

import argparse

from bitlane.cli.argument_types import positive, tensor_sizes, words
from bitlane.cli.command import Command
from bitlane.cli.output import progress
from bitlane.support.optional import require_extra

CODECS = ["linear-2", "linear-4", "linear-8", "sign", "log-4", "select-0.001", "select-0.01", "top-0.01"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--codecs",
        type=words,
        default=CODECS,
        help="a list of sign, linear-2 to linear-8, log-2 to log-8, select-DENSITY and top-DENSITY "
        f"(default: {','.join(CODECS)})",
    )
    add(
        "--size",
        type=tensor_sizes,
        default=[2**19, 2**26],
        metavar="MIB",
        help="sizes of the tensors in MiB, a list (default: 0.5,64)",
    )
    add("--threads", type=positive, default=1, help="threads of the copy; a codec uses one (default: %(default)s)")
    add(
        "--repeat",
        type=positive,
        default=15,
        help="number of measurements, of which the median is taken (default: %(default)s)",
    )
    add("--gpu", action="store_true", help="measure on the GPU")


def _run(arguments: argparse.Namespace) -> None:
    require_extra("torch", "bitlane bench-compress", "'bitlane[torch,fast]'")
    from .codec_speed import measure_codecs, speed_table

    chosen = (arguments.codecs, arguments.size, arguments.threads, arguments.repeat, arguments.gpu)
    with progress("measuring", len(arguments.codecs) * len(arguments.size), unit="codec") as advance:
        rows = measure_codecs(*chosen, advance or (lambda: None))
    print(speed_table(rows))


COMMAND = Command(
    "bench-compress",
    "measure the speed of gradient codecs on this machine",
    _add_arguments,
    _run,
    description="Measure the speed of gradient codecs, and compare it with a copy of the same tensor. Needs torch: pip "
    "install 'bitlane[torch,fast]'. Without the extra `fast` the numpy codecs are measured.",
)
