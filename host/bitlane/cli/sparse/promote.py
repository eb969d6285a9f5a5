"""`bitlane sparse promote`: let a label name a version."""

from __future__ import annotations

import argparse

from bitlane.cli.command import Command
from bitlane.cli.companions import check_companions, given_options
from bitlane.errors import DataError

from .mirror import add_mirror_argument, update_mirror
from .registry import add_label_arguments, add_registry_argument, open_registry
from .validating import COMPANIONS, add_validation_arguments, number_of, run_validation, validation_text


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_registry_argument(parser)
    parser.add_argument("version", metavar="VERSION", help="a version, another label, or latest")
    add_label_arguments(parser)
    parser.add_argument("--force", action="store_true", help="skip the validation")
    add_validation_arguments(parser, required=False)
    add_mirror_argument(parser)


def _run(arguments: argparse.Namespace) -> None:
    check_companions(arguments, given_options(arguments), COMPANIONS)
    registry = open_registry(arguments)
    from bitlane.sparse.registry.validation import promote, report_name

    if arguments.force and arguments.held_out:
        raise DataError("use either --force or --held-out, not both")
    before, version = registry.label(arguments.label), number_of(registry, arguments.version)
    if arguments.held_out:
        validation = run_validation(arguments, registry, version)
        print(validation_text(validation, report_name(registry, version)))
        if not validation.passed:
            raise SystemExit(1)
    move = promote(registry, arguments.label, version, arguments.reason, force=arguments.force)
    print(f"{arguments.label}: version {move.version}" + ("" if before is None else f", before it version {before}"))
    update_mirror(arguments, registry)


COMMAND = Command(
    "promote",
    "let a label name a version that was validated, such as production",
    _add_arguments,
    _run,
    description="Move a label to a version that has passed validation against the currently labelled "
    "version. With --held-out, validate it first.",
)
