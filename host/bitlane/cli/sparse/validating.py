"""Arguments of validations: held-out rows, recorded requests, hooks and bounds."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitlane.cli.companions import Companion
from bitlane.errors import BitlaneError
from bitlane.support.optional import require_extra
from bitlane.support.text import option_of

from . import data
from .data_arguments import add_reader_arguments

if TYPE_CHECKING:
    from bitlane.sparse.batches.batch import Batch
    from bitlane.sparse.models.spec import ModelSpec
    from bitlane.sparse.registry.checks import Bounds
    from bitlane.sparse.registry.registry import ModelRegistry
    from bitlane.sparse.registry.validation import Inputs
    from bitlane.sparse.registry.verdict import Validation

_BOUNDS = {  # argument: field of `Bounds`, and what it is
    "max_auc_loss": ("auc_lost", "AUC that may be lost against the version that the label names (default: 0.002)"),
    "max_log_loss": ("log_loss_lost", "the same for log loss (default: 0.002)"),
    "max_rmse_loss": ("rmse_lost", "the same for the RMSE of a regression, as a share (default: 0.01)"),
    "max_miscalibration": ("miscalibration", "distance of mean prediction over mean label from 1 (default: 0.1)"),
    "max_answer_change": ("answer_change", "mean distance from the recorded predictions (default: 0.1)"),
    "max_slowdown": (
        "slowdown",
        "how many times as slow as by the current version requests may be (default: 2)",
    ),
    "hook_seconds": ("hook_seconds", "time for each hook (default: 60)"),
}
# What options need to have an effect.
COMPANIONS = (
    Companion(
        (*_BOUNDS, "requests", "hook", "test_fraction", "allow_learned", *data.OTHER_READING),
        "--held-out",
        lambda arguments: bool(arguments.held_out),
    ),
    Companion(("max_answer_change", "max_slowdown"), "--requests", lambda arguments: arguments.requests is not None),
)


def add_held_out_arguments(parser: argparse._ArgumentGroup | argparse.ArgumentParser, *, required: bool) -> None:
    """Add the arguments of held-out rows."""
    parser.add_argument(
        "--held-out",
        nargs="+",
        required=required,
        metavar="DATA",
        help="rows not used for training: files, folders, globs, URIs or a data set's name",
    )
    parser.add_argument(
        "--test-fraction",
        type=float,
        metavar="SHARE",
        help="of --held-out, use only the rows that `train` held out with the same --test-fraction",
    )
    add_reader_arguments(parser, "as in training", default=None)
    add_allow_learned(parser)


def add_allow_learned(parser: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add the argument that lets a model be measured on rows that it has learned."""
    parser.add_argument(
        "--allow-learned", action="store_true", help="measure also on rows that the model has learned, and say so"
    )


def add_validation_arguments(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the arguments of a validation; `required` says whether there must be held-out rows."""
    group = parser.add_argument_group("what the version is checked with")
    add_held_out_arguments(group, required=required)
    group.add_argument("--requests", type=Path, metavar="FILE", help="requests recorded by `serve --record`")
    group.add_argument(
        "--hook",
        action="append",
        default=[],
        metavar="PACKAGE.MODULE:FUNCTION",
        help="an additional check, besides the entry points bitlane.validators; may be repeated",
    )
    group = parser.add_argument_group("bounds")
    for name, (_, text) in _BOUNDS.items():
        group.add_argument(option_of(name), type=float, metavar="X", help=text)


def held_out_rows(arguments: argparse.Namespace, settings: Mapping[str, Any], spec: ModelSpec) -> Iterator[Batch]:
    """Yield held-out rows, read with the settings of a model's data, which arguments and usual settings complete."""
    usual = {"schema": None, "label": None, "task": data.LOSS_TASKS[spec.loss], "fields": spec.fields or None}
    reading = {**usual, **settings, **data.given_reading(arguments)}
    source = data.open_evaluation(arguments.held_out, reading, arguments.test_fraction, labelled=True)
    with closing(source.batches(0)) as batches:
        yield from batches


def run_validation(arguments: argparse.Namespace, registry: ModelRegistry, version: int) -> Validation:
    """Validate a version as the arguments say; errors as of `bitlane.sparse.registry.validation.validate`."""
    require_extra("matplotlib", "the report of a validation")
    from bitlane.sparse.registry.validation import validate

    return validate(registry, version, _inputs(arguments, registry, version), _bounds(arguments), arguments.label)


def validation_text(validation: Validation, report: str) -> str:
    """Return the result of a validation: a line for each check that failed, and where the report is."""
    state = "passed" if validation.passed else "rejected"
    compared = (
        f"compared with version {validation.current}"
        if validation.current is not None
        else "no version to compare with"
    )
    lines = [f"version {validation.version} {state}: {len(validation.checks)} checks, {compared}", *validation.problems]
    return "\n".join([*lines, f"report: {report}"])


def number_of(registry: ModelRegistry, name: str) -> int:
    """Return the version that a name means; a number is itself, so that a version with a damaged manifest has one."""
    return int(name) if name.isdecimal() and int(name) in registry.numbers() else registry.resolve(name)


def _inputs(arguments: argparse.Namespace, registry: ModelRegistry, version: int) -> Inputs:
    from bitlane.sparse.registry.hooks import find_hooks
    from bitlane.sparse.registry.manifest import Manifest
    from bitlane.sparse.registry.validation import Inputs

    def rows(manifest: Manifest) -> Iterable[Batch]:
        described = manifest.description
        return held_out_rows(arguments, described.data, described.spec)

    requests = None
    if arguments.requests is not None:
        from bitlane.sparse.serving.recording import read_record

        requests = ((batch, answer) for batch, answer, _ in read_record(arguments.requests))
    try:
        described = registry.manifest(version).description.data
    except BitlaneError:
        described = {}  # the validation tells it
    settings = {**described, **data.given_reading(arguments)}
    given = data.identify_rows(arguments.held_out, arguments.test_fraction, arguments.allow_learned, settings)
    return Inputs(rows, data.data_name(arguments.held_out), requests, find_hooks(arguments.hook), given)


def _bounds(arguments: argparse.Namespace) -> Bounds:
    from bitlane.sparse.registry.checks import Bounds

    given = {field: getattr(arguments, name) for name, (field, _) in _BOUNDS.items()}
    return Bounds(**{field: value for field, value in given.items() if value is not None})
