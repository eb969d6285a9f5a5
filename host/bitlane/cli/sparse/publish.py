"""`bitlane sparse publish`: a new version of a model."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bitlane.cli.argument_types import positive
from bitlane.cli.command import Command
from bitlane.cli.companions import Companion, check_companions, given_options
from bitlane.errors import DataError

from . import data
from .mirror import add_mirror_argument, update_mirror
from .models import add_model_argument
from .registry import add_registry_argument, manifest_text, open_registry, quantization_text
from .validating import add_held_out_arguments, held_out_rows

if TYPE_CHECKING:
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.registry.quantizing import Quantization

AUTO = "auto"
COMPANIONS = (
    Companion(("bits",), "--held-out to measure the loss", lambda arguments: bool(arguments.held_out)),
    Companion(
        ("levels", "max_loss", "held_out", "test_fraction", "allow_learned"),
        "--bits",
        lambda arguments: arguments.bits is not None,
    ),
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_argument(parser)
    add_registry_argument(parser)
    add = parser.add_argument
    add("--base", action="store_true", help="write all rows, not only the changes since the newest version")
    add("--parent", metavar="VERSION", help="write the changes since this version or label (default: the newest)")
    add("--shards", type=positive, metavar="N", help="number of row files of a base (default: 1)")
    group = parser.add_argument_group("weights in few bits")
    group.add_argument(
        "--bits",
        choices=("8", "4", "2", AUTO),
        help="bits per weight of a base, or auto: the fewest within --max-loss (default: 32)",
    )
    group.add_argument(
        "--levels",
        choices=("nearest", "optimal", "uniform"),
        help="nearest: least error; optimal: least variance of stochastic rounding; uniform: equal intervals "
        "(default: nearest)",
    )
    group.add_argument(
        "--max-loss",
        type=float,
        metavar="X",
        help="most AUC and log loss that few bits may lose on the held-out rows (default: 0.0005)",
    )
    add_held_out_arguments(group, required=False)
    add_mirror_argument(parser)


def _run(arguments: argparse.Namespace) -> None:
    registry = open_registry(arguments, new=True)
    from bitlane.sparse.registry.folders import publish_folder
    from bitlane.sparse.registry.publisher import LONGEST_CHAIN
    from bitlane.sparse.registry.writing import chain_above

    if arguments.base and arguments.parent is not None:
        raise DataError("use either --base or --parent, not both")
    check_companions(arguments, given_options(arguments), COMPANIONS)
    parent = None
    if arguments.parent is not None:
        parent = registry.resolve(arguments.parent)
    elif not arguments.base and (known := registry.numbers()):
        chain = chain_above(registry, known[-1], LONGEST_CHAIN)
        parent = chain[-1].version if chain else None
    if parent is not None and arguments.shards is not None:
        raise DataError(f"--shards: a delta has the shards of its parent, version {parent}; omit it, or add --base")
    if parent is not None and arguments.bits is not None:
        raise DataError(f"--bits: a delta has the levels of its parent, version {parent}; omit it, or add --base")
    quantize = None if arguments.bits is None else partial(_quantize, arguments)
    folder = Path(arguments.model)
    manifest = publish_folder(registry, folder, parent=parent, shards=arguments.shards or 1, quantize=quantize)
    print(manifest_text(manifest))
    if quantize is not None:
        print(quantization_text(manifest))
    update_mirror(arguments, registry)


def _quantize(arguments: argparse.Namespace, model: SparseModel) -> Quantization:
    from bitlane.sparse.registry.folders import data_of
    from bitlane.sparse.registry.learned import check_not_learned
    from bitlane.sparse.registry.quantizing import MAX_LOSS, choose_levels
    from bitlane.sparse.training.run_folder import find_model, read_settings

    settings = read_settings(find_model(Path(arguments.model)))
    described = data_of(None if settings is None else settings.get("data"))
    rows = data.held_out_rows(arguments.held_out, arguments.test_fraction, arguments.allow_learned, described)
    print(check_not_learned(described, rows, str(arguments.model)))
    return choose_levels(
        model,
        held_out_rows(arguments.held_out, arguments.test_fraction, described, model.spec),
        None if arguments.bits == AUTO else int(arguments.bits),
        arguments.levels or "nearest",
        MAX_LOSS if arguments.max_loss is None else arguments.max_loss,
    )


COMMAND = Command(
    "publish",
    "publish a model as a new version: all rows, or what differs from an earlier version",
    _add_arguments,
    _run,
    description="Publish a model as a new version of a registry. The first version has all rows (a base); later ones "
    "have the rows that differ from the newest version (a delta). A version appears completely or not at all.",
)
