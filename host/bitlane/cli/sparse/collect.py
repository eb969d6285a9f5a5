"""`bitlane sparse collect`: remove the versions that nobody needs."""

from __future__ import annotations

import argparse

from bitlane.cli.argument_types import positive
from bitlane.cli.command import Command

from .mirror import add_mirror_argument, update_mirror
from .registry import add_registry_argument, open_registry

KEEP = 3


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_registry_argument(parser)
    parser.add_argument(
        "--keep",
        type=positive,
        default=KEEP,
        metavar="N",
        help=f"keep the newest N versions, and those reachable by the last N roll-backs of a label (default: {KEEP})",
    )
    add_mirror_argument(parser)


def _run(arguments: argparse.Namespace) -> None:
    registry = open_registry(arguments)
    from bitlane.sparse.registry.upkeep import collect

    removed = collect(registry, arguments.keep)
    versions = ", ".join(map(str, removed.versions)) or "none"
    print(f"removed versions: {versions}; {removed.bytes / 1e6:,.2f} MB")
    update_mirror(arguments, registry)


COMMAND = Command(
    "collect",
    "remove the versions to which no label, no reader and no possible roll-back leads",
    _add_arguments,
    _run,
)
