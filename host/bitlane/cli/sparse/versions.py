"""`bitlane sparse versions`: what is in a registry."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from bitlane.cli.command import Command
from bitlane.errors import DataError
from bitlane.support.text import stacked_columns

from .registry import add_registry_argument, number_text, open_registry
from .summary import NONE

if TYPE_CHECKING:
    from bitlane.sparse.registry.manifest import Manifest
    from bitlane.sparse.registry.registry import ModelRegistry

DAMAGED = "damaged"
LEARNED_UNTIL = "learned until (UTC)"
HEADER = (
    "version",
    "kind",
    "parent",
    "created (UTC)",
    "AUC",
    "validation",
    LEARNED_UNTIL,
    "labels, readers",
    "rows",
    "changed",
    "deleted",
    "MB",
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_registry_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the manifests, labels and readers as JSON")


def _run(arguments: argparse.Namespace) -> None:
    registry = open_registry(arguments)
    from bitlane.sparse.registry.overview import overview

    found = overview(registry)
    versions, labels, readers = found.versions, found.labels, found.readers
    if arguments.json:
        manifests = [_without_digests(json.loads(manifest.to_bytes())) for manifest in versions]
        damage = [vars(each) for each in found.damage]
        record = {"versions": manifests, "labels": labels, "readers": readers, "damage": damage}
        print(json.dumps(record, indent=1))
        return
    used: dict[int, list[str]] = {}
    for name, version in labels.items():
        used.setdefault(version, []).append(name)
    for name, version in readers.items():
        used.setdefault(version, []).append(f"read by {name}")
    rows = {
        each.version: _row(each, *_measured(registry, each.version), used.get(each.version, [])) for each in versions
    }
    for each in found.damage:
        if each.version is not None:
            rows[each.version] = _damaged_row(each.version, used.get(each.version, []))
    table = [list(HEADER), *(rows[version] for version in sorted(rows))]
    at = HEADER.index(LEARNED_UNTIL)
    if all(row[at] == NONE for row in table[1:]):
        table = [row[:at] + row[at + 1 :] for row in table]
    print(stacked_columns(table, left=2))
    for each in found.damage:
        print(f"damaged: {each.reason}")
    if found.damage:
        print(f"see bitlane sparse repair {registry.uri}")


COMMAND = Command(
    "versions",
    "list the versions of a model, and which of them labels and readers use",
    _add_arguments,
    _run,
)


def _measured(registry: ModelRegistry, version: int) -> tuple[str, str]:
    """Return the AUC of the last validation of a version, and what it has concluded on which data."""
    from bitlane.sparse.registry.validation import read_validation

    try:
        validation = read_validation(registry, version)
    except DataError:
        return NONE, DAMAGED
    if validation is None:
        return NONE, NONE
    state = "passed" if validation.passed else "rejected"
    return number_text(validation.metrics.get("auc")), f"{state} on {validation.held_out}"


def _learned_until(manifest: Manifest) -> str:
    """Return the time of the last row that a version has learned."""
    from bitlane.sparse.registry.learned import utc_text
    from bitlane.sparse.training.run_folder import sample_of

    try:
        sample = sample_of(manifest.description.data)
    except DataError:
        return DAMAGED
    return NONE if sample is None or sample.times is None else utc_text(sample.times[1])


def _without_digests(record: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest without the digests of its sample of rows, which are of no use to people."""
    learned = record["data"].get("learned")
    if learned is not None:
        record["data"]["learned"] = {name: learned[name] for name in ("rows", "times")}
    return record


def _damaged_row(version: int, used: list[str]) -> list[str]:
    row = [str(version), DAMAGED, *[NONE] * (len(HEADER) - 2)]
    row[HEADER.index("labels, readers")] = ", ".join(used) or NONE
    return row


def _row(manifest: Manifest, auc: str, state: str, used: list[str]) -> list[str]:
    return [
        str(manifest.version),
        manifest.kind,
        NONE if manifest.parent is None else str(manifest.parent),
        manifest.created[:16].replace("T", " "),
        auc,
        state,
        _learned_until(manifest),
        ", ".join(used) or NONE,
        f"{manifest.rows:,}",
        f"{manifest.changed:,}",
        f"{manifest.deleted:,}",
        f"{manifest.nbytes / 1e6:,.2f}",
    ]
