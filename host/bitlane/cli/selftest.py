"""`bitlane selftest`: check every block of a device and print a report."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from bitlane.contract.layout import PORT_WIDTHS
from bitlane.selftest import examine

from .argument_types import positive, seed
from .command import Command
from .output import check_file
from .training_arguments import DEFAULTS, opened_device


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--device", default=DEFAULTS["device"], help="device to check; see bitlane devices (default: %(default)s)")
    add(
        "--width",
        type=int,
        choices=PORT_WIDTHS,
        default=DEFAULTS["width"],
        help="bits of the memory port of a simulated device (default: %(default)s)",
    )
    add(
        "--outputs",
        type=positive,
        default=DEFAULTS["outputs"],
        help="models that a simulated device trains together (default: %(default)s)",
    )
    add("--seed", type=seed, help="seed of the random inputs (default: a fresh one, which the report shows)")
    add("--out", type=Path, metavar="FILE", help="write the report: text, or JSON if the name ends with .json")


def _run(arguments: argparse.Namespace) -> None:
    out: Path | None = arguments.out
    if out is not None:
        check_file(out)
    first = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    with opened_device(arguments) as device:
        report = examine(device, first, say=lambda line: print(line, flush=True))
    if out is not None:
        report.write(out)
        print(f"written to {out}")
    if not report.passed:
        raise SystemExit(1)


COMMAND = Command(
    "selftest",
    "check every block of a device and print a report",
    _add_arguments,
    _run,
    description="Check every block of a device against the numpy reference, bit for bit, and print a report. Exit "
    "status 1 if a check fails.",
)
