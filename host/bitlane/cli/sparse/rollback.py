"""`bitlane sparse rollback`: let a label name the version that it named before."""

from __future__ import annotations

import argparse

from bitlane.cli.command import Command

from .mirror import add_mirror_argument, update_mirror
from .registry import add_label_arguments, add_registry_argument, open_registry


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_registry_argument(parser)
    add_label_arguments(parser)
    add_mirror_argument(parser)


def _run(arguments: argparse.Namespace) -> None:
    registry = open_registry(arguments)
    before = registry.label(arguments.label)
    move = registry.roll_back(arguments.label, arguments.reason)
    print(f"{arguments.label}: version {move.version}, before it version {before}")
    update_mirror(arguments, registry)


COMMAND = Command(
    "rollback",
    "let a label name the version that it named before its last move",
    _add_arguments,
    _run,
)
