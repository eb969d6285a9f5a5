"""`bitlane sparse repair`: what is damaged in a registry, and setting it aside."""

from __future__ import annotations

import argparse

from bitlane.cli.command import Command

from .registry import add_registry_argument, open_registry


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_registry_argument(parser)
    parser.add_argument("--mend", action="store_true", help="move what is damaged aside; nothing is deleted")


def _run(arguments: argparse.Namespace) -> None:
    registry = open_registry(arguments, new=True)
    from bitlane.sparse.registry.damage import find_damage
    from bitlane.sparse.registry.mending import mend
    from bitlane.sparse.registry.overview import overview

    if not arguments.mend:
        damage = find_damage(registry)
        print(*(each.reason for each in damage), sep="\n", end="\n" if damage else "")
        print(
            f"{len(damage)} damaged: add --mend to set them aside" if damage else f"{registry.uri}: nothing is damaged"
        )
        raise SystemExit(1 if damage else 0)
    before = overview(registry).labels
    mended = mend(registry)
    for each in mended.damage:
        print(f"{each.reason}; now in {mended.folder}/{each.place}")
    for each in mended.left:
        print(f"{each.reason}; left")
    after = overview(registry).labels
    for label in sorted({*before, *after}):
        if before.get(label) != after.get(label):
            print(f"{label}: version {after[label]}" if label in after else f"{label}: names no version")
    print(f"{registry.uri}: {len(mended.damage)} set aside")


COMMAND = Command(
    "repair",
    "show what is damaged in a registry; set it aside, so that the rest can be used",
    _add_arguments,
    _run,
    description="Read all files of a registry and show what is damaged; exit status 1 if anything is. With --mend, "
    "move damaged versions, the deltas above them, and damaged records to a folder below REGISTRY/damaged. A label "
    "whose last move is set aside names the version that it named before.",
)
