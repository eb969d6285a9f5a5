"""`bitlane sparse diff`: what differs between two versions."""

from __future__ import annotations

import argparse

from bitlane.cli.argument_types import seed
from bitlane.cli.command import Command
from bitlane.support.text import stacked_columns

from .registry import add_registry_argument, open_registry, values_text


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_registry_argument(parser)
    parser.add_argument("old", metavar="OLD", help="a version or a label")
    parser.add_argument("new", metavar="NEW", nargs="?", default="latest", help="another one (default: latest)")
    parser.add_argument("--top", type=seed, default=10, metavar="N", help="number of changes to list (default: 10)")


def _run(arguments: argparse.Namespace) -> None:
    registry = open_registry(arguments)
    from bitlane.sparse.registry.comparing import compare

    difference = compare(registry, registry.resolve(arguments.old), registry.resolve(arguments.new), arguments.top)
    print(
        f"version {difference.old} to version {difference.new}, {difference.rows:,} rows: "
        f"{difference.added:,} added, {difference.changed:,} changed, {difference.deleted:,} deleted"
    )
    if difference.largest:
        rows = [
            [str(each.key), f"{each.distance:.6g}", values_text(each.before), values_text(each.after)]
            for each in difference.largest
        ]
        print("\n" + stacked_columns([["key", "distance", "weights before", "after"], *rows]))


COMMAND = Command(
    "diff",
    "count the rows that differ between two versions, and list the largest changes of weights",
    _add_arguments,
    _run,
)
