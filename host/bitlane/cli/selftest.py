"""`bitlane selftest`: check every block of a device and print a report."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from bitlane.selftest import examine

from .argument_types import seed
from .command import Command
from .companions import check_companions, given_options
from .output import check_file
from .summaries import SUMMARIES
from .training_arguments import BUILD, DEFAULTS, add_build_arguments, fill, opened_device

SELFTEST_DEFAULTS: dict[str, Any] = {
    **{name: DEFAULTS[name] for name in ("device", "width", "outputs")},
    "level_slots": 0,
    "random_rounding": False,
    "seed": None,
    "out": None,
}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_build_arguments(parser)
    add = parser.add_argument
    add("--seed", type=seed, help="seed of the random inputs (default: a new one, shown in the report)")
    add("--out", type=Path, metavar="FILE", help="write the report: JSON if the name ends with .json, otherwise text")


def _run(arguments: argparse.Namespace) -> None:
    given = given_options(arguments)
    fill(arguments, SELFTEST_DEFAULTS)
    check_companions(arguments, given, [BUILD])
    out: Path | None = arguments.out
    if out is not None:
        check_file(out)
    first = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    with opened_device(arguments, arguments.level_slots, arguments.random_rounding) as device:
        report = examine(device, first, lambda line: print(line, flush=True))
    if out is not None:
        report.write(out)
        print(f"written to {out}")
    if not report.passed:
        raise SystemExit(1)


COMMAND = Command(
    "selftest",
    SUMMARIES["selftest"],
    _add_arguments,
    _run,
    description="Check every block of a device against the numpy reference, bit for bit, and print a report. A board "
    "has the build of its bitstream; build options apply to simulated devices only. The exit status is 1 if a "
    "check fails.",
    suppress_defaults=True,
)
