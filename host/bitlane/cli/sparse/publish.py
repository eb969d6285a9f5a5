"""`bitlane sparse publish`: a new version of a model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitlane.cli.argument_types import positive
from bitlane.cli.command import Command
from bitlane.cli.companions import Companion, check_companions, given_options
from bitlane.errors import DataError
from bitlane.support.optional import require_extra

from . import data
from .mirror import add_mirror_argument, update_mirror
from .models import add_model_argument
from .registry import add_registry_argument, calibrator_text, manifest_text, open_registry, quantization_text
from .validating import add_held_out_arguments, held_out_rows

if TYPE_CHECKING:
    from bitlane.sparse.batches.batch import Batch
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.models.spec import ModelSpec
    from bitlane.sparse.registry.learned import NewRowsCheck
    from bitlane.sparse.registry.manifest import Description
    from bitlane.sparse.registry.quantizing import Quantization
    from bitlane.sparse.scoring.model import FrozenModel

AUTO = "auto"
COMPANIONS = (
    Companion(("bits",), "--held-out to measure the loss", lambda arguments: bool(arguments.held_out)),
    Companion(("calibrate",), "--held-out to fit the calibrator", lambda arguments: bool(arguments.held_out)),
    Companion(("levels", "max_loss"), "--bits", lambda arguments: arguments.bits is not None),
    Companion(
        ("held_out", "test_fraction", "allow_learned", *data.OTHER_READING),
        "--bits or --calibrate",
        lambda arguments: arguments.bits is not None or arguments.calibrate is not None,
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
    parser.add_argument_group("calibration").add_argument(
        "--calibrate",
        choices=("platt", "isotonic"),
        help="fit a calibrator to the held-out rows, which predictions of the version pass through: platt, a line of "
        "the log odds, or isotonic, steps of the probability (default: a delta has that of its parent)",
    )
    group = parser.add_argument_group("what few bits and a calibrator are measured on")
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
    if arguments.calibrate is not None:
        require_extra("sklearn", "--calibrate", "'bitlane[datasets]'")
    parent = above = None
    if arguments.parent is not None:
        parent = registry.resolve(arguments.parent)
    elif not arguments.base and (known := registry.numbers()):
        chain = chain_above(registry, known[-1], LONGEST_CHAIN)
        parent, above = (chain[-1].version, None) if chain else (None, registry.manifest(known[-1]).description)
    if parent is not None and arguments.shards is not None:
        raise DataError(f"--shards: a delta has the shards of its parent, version {parent}; omit it, or add --base")
    if parent is not None and arguments.bits is not None:
        raise DataError(f"--bits: a delta has the levels of its parent, version {parent}; omit it, or add --base")
    measured = _Measured(arguments)
    if arguments.held_out:
        measured.check_files()
    manifest = publish_folder(
        registry,
        Path(arguments.model),
        parent=parent,
        shards=arguments.shards or 1,
        quantize=measured.quantize if arguments.bits is not None else None,
        calibrate=measured.calibrate if arguments.calibrate is not None else _inherit(above),
    )
    measured.tell()
    print(manifest_text(manifest))
    if arguments.bits is not None:
        print(quantization_text(manifest))
    if arguments.calibrate is not None:
        print(calibrator_text(manifest))
    update_mirror(arguments, registry)


class _Measured:
    """What is measured on the held-out rows."""

    def __init__(self, arguments: argparse.Namespace):
        from bitlane.sparse.registry.folders import data_of
        from bitlane.sparse.training.run_folder import find_model, read_settings

        settings = read_settings(find_model(Path(arguments.model)))
        self._arguments, self._data = arguments, data_of(None if settings is None else settings.get("data"))
        self._new: NewRowsCheck | None = None

    def check_files(self) -> None:
        """Raise DataError if the model has learned these rows by the record of its files, and may not."""
        from bitlane.sparse.registry.learned import NewRowsCheck

        arguments = self._arguments
        reading = {**self._data, **data.given_reading(arguments)}
        rows = data.identify_rows(arguments.held_out, arguments.test_fraction, arguments.allow_learned, reading)
        self._new = NewRowsCheck(self._data, rows, str(arguments.model))

    def tell(self) -> None:
        """Print whether the model has learned these rows."""
        if self._new is not None:
            print(self._new.text)

    def quantize(self, model: SparseModel) -> Quantization:
        from bitlane.sparse.registry.quantizing import MAX_LOSS, choose_levels

        given = self._arguments
        return choose_levels(
            model,
            self._rows(model.spec),
            None if given.bits == AUTO else int(given.bits),
            given.levels or "nearest",
            MAX_LOSS if given.max_loss is None else given.max_loss,
        )

    def calibrate(self, model: FrozenModel) -> Mapping[str, Any]:
        from bitlane.sparse.registry.calibrating import fit_calibrator

        return fit_calibrator(model, self._rows(model.spec), self._arguments.calibrate)

    def _rows(self, spec: ModelSpec) -> Iterator[Batch]:
        assert self._new is not None
        return self._new.through(held_out_rows(self._arguments, self._data, spec))


def _inherit(above: Description | None) -> Callable[[FrozenModel], Mapping[str, Any] | None] | None:
    """Return what gives a base the calibrator of the version above which a delta would have been one too many."""
    if above is None or above.calibrator is None:
        return None
    before, calibrator = (above.spec.kind, above.spec.loss), above.calibrator
    return lambda model: calibrator if (model.spec.kind, model.spec.loss) == before else None


COMMAND = Command(
    "publish",
    "publish a model as a new version: all rows, or what differs from an earlier version",
    _add_arguments,
    _run,
    description="Publish a model as a new version of a registry. The first version has all rows (a base); later ones "
    "have the rows that differ from the newest version (a delta). A version appears completely or not at all.",
)
