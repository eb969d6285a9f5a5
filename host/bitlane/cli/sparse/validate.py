"""`bitlane sparse validate`: check a version before a label names it."""

from __future__ import annotations

import argparse

from bitlane.cli.command import Command
from bitlane.cli.companions import check_companions, given_options

from .registry import PRODUCTION, add_registry_argument, open_registry
from .validating import COMPANIONS, add_validation_arguments, number_of, run_validation, validation_text


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_registry_argument(parser)
    parser.add_argument("version", metavar="VERSION", help="a version, a label, or latest")
    parser.add_argument(
        "--label",
        default=PRODUCTION,
        metavar="NAME",
        help=f"compare with the version that this label names (default: {PRODUCTION})",
    )
    add_validation_arguments(parser, required=True)


def _run(arguments: argparse.Namespace) -> None:
    check_companions(arguments, given_options(arguments), COMPANIONS)
    registry = open_registry(arguments)
    from bitlane.sparse.registry.validation import report_name

    validation = run_validation(arguments, registry, number_of(registry, arguments.version))
    print(validation_text(validation, report_name(registry, validation.version)))
    if not validation.passed:
        raise SystemExit(1)


COMMAND = Command(
    "validate",
    "check a version before a label names it: files, weights, quality, answers, latency, your hooks",
    _add_arguments,
    _run,
    description="Check a version before a label moves to it: files, checksums, weights, AUC, log loss and calibration "
    "on held-out rows against the currently labelled version, answers and latency of recorded requests, and your "
    "hooks. The result and a report are stored in the registry. Exit status: 0 passed, 1 rejected.",
)
