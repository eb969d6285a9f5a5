"""Validation of a version before a label names it.

validations/0000003/report.html   for people
validations/0000003/record.json   passed or not, and each check; written last: without it the version is not validated
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.schema import read_schema
from bitlane.sparse.registry import records
from bitlane.sparse.registry.checks import (
    Bounds,
    Evidence,
    Recorded,
    ValidationCheck,
    check_files,
    check_hook,
    check_known,
    check_quality,
    check_requests,
    check_weights,
    quality_of,
)
from bitlane.sparse.registry.held_out import score_held_out
from bitlane.sparse.registry.hooks import Hook, run_hook
from bitlane.sparse.registry.labels import Move
from bitlane.sparse.registry.learned import HeldOutRows, NewRowsCheck
from bitlane.sparse.registry.manifest import Manifest
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.report import report_html
from bitlane.sparse.registry.verdict import Validation
from bitlane.sparse.scoring.known import KnownKeys
from bitlane.sparse.scoring.model import FrozenModel

PRODUCTION = "production"
RECORD, REPORT = "record.json", "report.html"


@dataclass(frozen=True)
class Inputs:
    """What a version is validated with.

    Parameters
    ----------
    read_held_out : callable
        Returns the held-out rows as batches, read with the settings of the data in a manifest.
    name : str
        Of the held-out data.
    recorded : iterable of (Batch, float32 [rows]), optional
        Recorded requests and their answers.
    hooks : dict of callables, optional
        Of `find_hooks`.
    held_out : HeldOutRows, optional
        Which rows these are. Without it nobody knows whether a version has learned them.
    """

    read_held_out: Callable[[Manifest], Iterable[Batch]]
    name: str
    recorded: Recorded | None = None
    hooks: Mapping[str, Hook] = field(default_factory=dict)
    held_out: HeldOutRows | None = None


def validate(
    registry: ModelRegistry, version: int, inputs: Inputs, bounds: Bounds | None = None, label: str = PRODUCTION
) -> Validation:
    """Check a version against the one that a label names now, and write record and report beside the versions.

    Parameters
    ----------
    registry : ModelRegistry
    version : int
    inputs : Inputs
    bounds : Bounds, optional
    label : str, default="production"

    Raises
    ------
    DataError
        The data, a bound or the name of the label cannot be used, one of the versions has learned held-out rows, or the
        current version is damaged. Nothing is written then.
    BitlaneError
        Something cannot be read or written.
    """
    bounds, evidence = bounds or Bounds(), Evidence()
    current = registry.label(label)
    reader = f"validation-{socket.gethostname()}-{os.getpid()}"
    registry.note_reader(reader, version)
    try:
        files, candidate = check_files(registry, version)
        checks = [files]
        if candidate is not None:
            models = [candidate] if current is None else [candidate, registry.load(current)]
            checks += _checks(registry, models, inputs, bounds, evidence)
    finally:
        registry.forget_reader(reader)
    metrics = quality_of(evidence)
    validation = Validation(version, label, current, records.now(), inputs.name, metrics, bounds, tuple(checks))
    folder = registry.store.folder(folder_of_validation(version))
    folder.remove(RECORD)  # from here until the new record is written, the version is not validated
    folder.replace(REPORT, report_html(validation, registry.uri, evidence).encode())
    folder.replace(RECORD, records.to_bytes({**asdict(validation), "passed": validation.passed}))
    return validation


def read_validation(registry: ModelRegistry, version: int) -> Validation | None:
    """Return the result of the last validation of a version; None if it was not validated.

    Raises
    ------
    DataError
        The record is damaged.
    """
    name = f"{folder_of_validation(version)}/{RECORD}"
    if not registry.store.exists(name):
        return None
    record = records.from_bytes(registry.store.read(name), registry.store.name_of(name))
    try:
        del record["passed"]
        bounds = Bounds(**record.pop("bounds"))
        validation = Validation(
            **record | {"bounds": bounds, "checks": tuple(ValidationCheck(**each) for each in record["checks"])}
        )
    except (KeyError, TypeError) as error:
        raise DataError(f"{registry.store.name_of(name)} is damaged: {error}") from error
    if validation.version != version:
        raise DataError(f"{registry.store.name_of(name)} is damaged: it is that of version {validation.version}")
    return validation


def promote(registry: ModelRegistry, label: str, version: int, reason: str = "", *, force: bool = False) -> Move:
    """Let a label name a version that has passed its validation against the version that the label names now.

    Parameters
    ----------
    registry : ModelRegistry
    label : str
    version : int
    reason : str
    force : bool, default=False
        Do not ask for a validation.

    Raises
    ------
    DataError
        The version was not validated, was rejected, or was compared with another version than the current one; or as of
        `ModelRegistry.move_label`.
    BitlaneError
        As of `ModelRegistry.move_label`.
    """
    if not force:
        _check_passed(registry, label, version)
    return registry.move_label(label, version, reason)


def report_name(registry: ModelRegistry, version: int) -> str:
    """Return the path or URI of the report of a version."""
    return registry.store.name_of(f"{folder_of_validation(version)}/{REPORT}")


def _check_passed(registry: ModelRegistry, label: str, version: int) -> None:
    validation, current = read_validation(registry, version), registry.label(label)
    where, advice = f"{registry.uri}: version {version}", "validate it, or add --force"
    if validation is None:
        raise DataError(f"{where} was not validated: {advice}")
    if not validation.passed:
        raise DataError(f"{where} was rejected: {validation.problems[0]}")
    if current is not None and current not in (validation.current, version):
        compared = "no version" if validation.current is None else f"version {validation.current}"
        raise DataError(f"{where} was compared with {compared}, but {label} names version {current} now: {advice}")


def _checks(
    registry: ModelRegistry, models: list[FrozenModel], inputs: Inputs, bounds: Bounds, evidence: Evidence
) -> list[ValidationCheck]:
    """Check a version whose files are in order; `models` are the version and the current one, if there is one."""
    manifests = [registry.manifest(model.version) for model in models if model.version is not None]
    new = [NewRowsCheck(each.description.data, inputs.held_out, f"version {each.version}") for each in manifests]
    checks = [check_weights(models, evidence)]
    _score(models, manifests, inputs, evidence, new)
    told = list(dict.fromkeys(each for check in new for each in check.told))
    checks.insert(0, ValidationCheck("new rows", True, "; ".join(told)))
    checks += [*check_quality(evidence, bounds), check_known(evidence)]
    if inputs.recorded is not None:
        checks += check_requests(models, inputs.recorded, bounds, evidence)
    current = models[1] if len(models) > 1 else None
    for name, hook in inputs.hooks.items():
        checks.append(check_hook(name, run_hook(hook, models[0], current, manifests[0], bounds.hook_seconds)))
    return checks


def _score(
    models: list[FrozenModel],
    manifests: list[Manifest],
    inputs: Inputs,
    evidence: Evidence,
    new: list[NewRowsCheck],
) -> None:
    """Score the held-out rows, once if the versions hash them alike: then the label is that of the first one.

    Rows that a version has learned are refused: the comparison would be one of memories.
    """
    evidence.known = KnownKeys(read_schema(manifests[0].description.data))
    read_alike = [(each.description.hashing, each.description.spec.loss) for each in manifests]
    if len(models) == 1 or read_alike[0] == read_alike[1]:
        rows = inputs.read_held_out(manifests[0])
        for check in new:
            rows = check.through(rows)
        scored = score_held_out(models, rows, evidence.known)
        evidence.scored = [(scored, index) for index in range(len(models))]
        return
    for index, (model, manifest) in enumerate(zip(models, manifests, strict=True)):
        known = None if index else evidence.known
        rows = new[index].through(inputs.read_held_out(manifest))
        evidence.scored.append((score_held_out([model], rows, known), 0))


def folder_of_validation(version: int) -> str:
    """Return the folder of the validation of a version in the registry."""
    return f"validations/{version:07}"
