"""`bitlane sparse compact`: a base from a base and its deltas."""

from __future__ import annotations

import argparse

from bitlane.cli.command import Command

from .registry import add_registry_argument, manifest_text, open_registry


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_registry_argument(parser)
    parser.add_argument("version", metavar="VERSION", nargs="?", default="latest", help="or a label (default: latest)")


def _run(arguments: argparse.Namespace) -> None:
    registry = open_registry(arguments)
    from bitlane.sparse.registry.upkeep import compact

    print(manifest_text(compact(registry, registry.resolve(arguments.version))))


COMMAND = Command(
    "compact",
    "publish a base with the content of a delta, so that it loads without the versions before it",
    _add_arguments,
    _run,
)
