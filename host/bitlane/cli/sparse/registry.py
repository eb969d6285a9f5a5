"""The registry that a command of `bitlane sparse` names."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bitlane.errors import DataError
from bitlane.support.file_names import names_beside
from bitlane.support.text import near_names

from . import data
from .summary import NONE

if TYPE_CHECKING:
    from bitlane.sparse.registry.manifest import Manifest
    from bitlane.sparse.registry.registry import ModelRegistry

PRODUCTION = "production"


def add_registry_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a registry."""
    parser.add_argument("registry", metavar="REGISTRY", help="folder or URI of a model's versions, such as models/ctr")


def add_label_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a move of a label."""
    parser.add_argument(
        "--label", default=PRODUCTION, metavar="NAME", help=f"the label to move (default: {PRODUCTION})"
    )
    parser.add_argument("--reason", default="", metavar="TEXT", help="reason, for the history of the label")


def open_registry(arguments: argparse.Namespace, *, new: bool = False) -> ModelRegistry:
    """Return the registry that the arguments name.

    Raises
    ------
    BitlaneError
        A library is missing.
    DataError
        It has no version, and may not be a `new` one.
    """
    data.require_libraries("a registry of models")
    from bitlane.sparse.registry.registry import ModelRegistry

    registry = ModelRegistry(arguments.registry)
    if not new and not registry.numbers():
        path = Path(arguments.registry)
        hint = "" if path.exists() else near_names(path.name, names_beside(path))
        raise DataError(f"{arguments.registry} has no version: publish one{hint}")
    return registry


def manifest_text(manifest: Manifest) -> str:
    """Return a new version as a line."""
    what = f"{manifest.kind} of {manifest.rows:,} rows"
    if manifest.kind == "delta":
        what = f"delta of version {manifest.parent}: {manifest.changed:,} rows changed, {manifest.deleted:,} deleted"
    return f"version {manifest.version}, {what}, {manifest.nbytes / 1e6:,.2f} MB"


def quantization_text(manifest: Manifest) -> str:
    """Return what a base in few bits has lost, as a line."""
    from bitlane.sparse.registry.quantizing import losses_text

    record = manifest.description.quantization or {}
    refused = "; ".join(f"{bits} bits would lose {losses_text(lost)}" for bits, lost in record["refused"].items())
    lost = f" lose {losses_text(record['lost'])}" if record["lost"] else " lose nothing"
    text = f"{record['bits']} bits{lost} on {record['held_out_rows']:,} held-out rows; bound {record['max_loss']:g}"
    return text + (f"; {refused}" if refused else "")


def calibrator_text(manifest: Manifest) -> str:
    """Return what a new calibrator does, as a line."""
    record = manifest.description.calibrator or {}
    figures = (
        f"{name} {number_text(record['before'][key])} -> {number_text(record['after'][key])}"
        for name, key in (("calibration", "calibration"), ("log loss", "log_loss"))
    )
    return f"{record['kind']}: {', '.join(figures)} on the {record['held_out_rows']:,} held-out rows it was fitted to"


def number_text(value: float | None) -> str:
    """Return a metric as text."""
    return NONE if value is None else f"{value:.4f}"


def values_text(values: Sequence[float]) -> str:
    """Return a few weights as text."""
    shown = ", ".join(f"{value:.4g}" for value in values[:4])
    return shown + (", ..." if len(values) > 4 else "")
