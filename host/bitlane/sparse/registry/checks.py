"""What is checked of a version before a label names it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.registry.held_out import HeldOutScores
from bitlane.sparse.registry.manifest import Manifest
from bitlane.sparse.registry.quantizing import quality_lost
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.scoring.known import KnownKeys
from bitlane.sparse.scoring.layers import LayeredTable, PartitionedTable
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.training.windows import Quality, quality_fields
from bitlane.support.scalars import as_number

SHOWN_WEIGHTS = 500_000  # of a version, in a histogram
REQUESTS = 10_000  # of a record that are replayed
REPLAYS = 3  # of a request by each version: the least time is that of the version, others are the machine's

Floats = NDArray[np.float32]
Recorded = Iterable[tuple[Batch, Floats]]


@dataclass(frozen=True)
class Bounds:
    """What a version may cost.

    Parameters
    ----------
    auc_lost, log_loss_lost : float, default=0.002
        Against the version that the label names now, on the held-out rows.
    rmse_lost : float, default=0.01
        The same for squared error: growth of the root of the mean squared error, as a share.
    miscalibration : float, default=0.1
        Distance of mean prediction over mean label from 1.
    answer_change : float, default=0.1
        Mean distance between the predictions of recorded requests, then and now.
    slowdown : float, default=2
        Time of the recorded requests in this process, as a multiple of that of the current version.
    hook_seconds : float, default=60
        For each hook.

    Raises
    ------
    DataError
        One is negative or not finite.
    """

    auc_lost: float = 0.002
    log_loss_lost: float = 0.002
    rmse_lost: float = 0.01
    miscalibration: float = 0.1
    answer_change: float = 0.1
    slowdown: float = 2.0
    hook_seconds: float = 60.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = as_number(each.name, getattr(self, each.name))
            if value < 0:
                raise DataError(f"{each.name} must be at least 0; got {value:g}")
            object.__setattr__(self, each.name, value)


@dataclass(frozen=True)
class ValidationCheck:
    """One check of a version.

    Attributes
    ----------
    name : str
    passed : bool
    figure, bound : float or None
        What was measured, and how much it may be; None for checks that measure nothing.
    detail : str
        A sentence: what was measured, or what is wrong.
    """

    name: str
    passed: bool
    detail: str
    figure: float | None = None
    bound: float | None = None


@dataclass
class Evidence:
    """What the checks have seen. Lists are of the candidate, then of the current version if there is one.

    Attributes
    ----------
    scored : list of (HeldOutScores, int)
        The held-out scores, and the index of the version among them.
    weights : list of float32 [n]
        A sample.
    seconds : list of float64 [requests]
        Latencies of the recorded requests that all of these versions can score.
    known : KnownKeys
        What of the held-out rows the candidate knows.
    """

    scored: list[tuple[HeldOutScores, int]] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    seconds: list[NDArray[np.float64]] = field(default_factory=list)
    known: KnownKeys = field(default_factory=KnownKeys)


def check_files(registry: ModelRegistry, version: int) -> tuple[ValidationCheck, FrozenModel | None]:
    """Check that all files of a version and its chain are there and undamaged, and return the version.

    Parameters
    ----------
    registry : ModelRegistry
    version : int
    """
    try:
        chain = registry.chain(version)
        model = registry.load(version)
    except BitlaneError as error:
        problems = list(_damages(registry, version)) or [str(error)]
        return ValidationCheck("files", False, "; ".join(problems)), None
    count, size = sum(len(each.files) for each in chain), sum(each.nbytes for each in chain)
    detail = f"{count} files of {len(chain)} versions, {size / 1e6:,.2f} MB, have the checksums of their manifests"
    return ValidationCheck("files", True, detail), model


def check_weights(models: Sequence[FrozenModel], evidence: Evidence) -> ValidationCheck:
    """Check that the weights of the first model are finite numbers."""
    problems = []
    for number, model in enumerate(models):
        wrong, sample, rows = _look_through(model)
        evidence.weights.append(sample)
        if number == 0 and wrong:
            problems.append(
                f"{len(wrong)} or more keys have weights that are no finite numbers, such as key {wrong[0]}"
            )
        if number == 0:
            names = [name for name, values in model.dense.items() if not np.isfinite(values).all()]
            problems += [f"matrix {name} has values that are no finite numbers" for name in names]
            count = rows
    return ValidationCheck("weights", not problems, "; ".join(problems) or f"the weights of {count:,} keys are finite")


def check_quality(evidence: Evidence, bounds: Bounds) -> list[ValidationCheck]:
    """Check the held-out scores of a version: finite, calibrated, and not worse than those of the current one."""
    qualities = [scored.quality(index) for scored, index in evidence.scored]
    if qualities[0] is None:
        return [ValidationCheck("scores", False, "scores of held-out rows are no finite numbers")]
    checks = [ValidationCheck("scores", True, f"the scores of {qualities[0].rows:,} held-out rows are finite")]
    if qualities[0].rmse is None:
        checks.append(_calibration(qualities[0], bounds.miscalibration))
    if len(qualities) > 1 and qualities[1] is not None:
        checks += _losses(qualities[1], qualities[0], bounds)
    return checks


def check_known(evidence: Evidence) -> ValidationCheck:
    """Return which share of the held-out values a version knows, by column: it informs, and never fails."""
    lines = (evidence.known.text(), *evidence.known.problems())
    return ValidationCheck("known values", True, "; ".join(lines), evidence.known.share)


def check_requests(
    models: Sequence[FrozenModel], recorded: Recorded, bounds: Bounds, evidence: Evidence
) -> list[ValidationCheck]:
    """Replay recorded requests: answers near those of the record, not much slower than those of the current version.

    Both versions score each request in this process, in turns. A bound in milliseconds would depend on the machine and
    on what else runs there.

    Parameters
    ----------
    models : sequence of FrozenModel
        The candidate, and the current version if there is one.
    recorded : iterable of (Batch, float32 [rows])
        Rows, and the predictions that were the answer.
    bounds : Bounds
    evidence : Evidence
        Gets the latencies.
    """
    seconds: list[list[float]] = [[] for _ in models]
    moved: list[Floats] = []
    for number, (batch, answer) in zip(range(REQUESTS), recorded, strict=False):
        try:
            moved.append(np.abs(models[0].predict(batch) - answer))  # and loads what a request needs
        except DataError as error:
            detail = f"request {number + 1} of the record cannot be scored: {error}"
            return [ValidationCheck("answers", False, detail)]
        with contextlib.suppress(DataError):  # the current version cannot score it: nothing to compare with
            for own, least in zip(seconds, _least_seconds(models, batch), strict=True):
                own.append(least)
    if not moved:
        raise DataError("the record has no requests")
    evidence.seconds = [np.array(each) for each in seconds if each]
    return [_answers(np.concatenate(moved), len(moved), bounds), _latency(evidence.seconds, bounds.slowdown)]


def check_hook(name: str, problems: Sequence[str]) -> ValidationCheck:
    """Return the check of a user's hook that reported these problems."""
    return ValidationCheck(f"hook {name}", not problems, "; ".join(problems) or "it reported no problem")


def checks_text(checks: Iterable[ValidationCheck]) -> list[str]:
    """Return a line for each check that failed."""
    return [f"{check.name}: {check.detail}" for check in checks if not check.passed]


def quality_of(evidence: Evidence) -> Mapping[str, float | None]:
    """Return the metrics of a version on the held-out rows, by name; empty if it has none."""
    quality = None
    if evidence.scored:
        scored, index = evidence.scored[0]
        quality = scored.quality(index)
    return {} if quality is None else quality_fields(quality)


def _damages(registry: ModelRegistry, version: int) -> Iterator[str]:
    """Yield what is wrong with the files of a version and of those below it."""
    at: int | None = version
    while at is not None:
        try:
            manifest: Manifest = registry.manifest(at)
        except BitlaneError as error:
            yield str(error)
            return
        for file in manifest.files:
            try:
                registry.folder(at).open(file)
            except BitlaneError as error:
                yield str(error)
        at = manifest.parent if manifest.kind == "delta" else None


def _look_through(model: FrozenModel) -> tuple[list[int], Floats, int]:
    """Return some keys whose weights are not finite, a sample of all weights, and the number of keys."""
    assert isinstance(model.table, PartitionedTable)
    wrong: list[int] = []
    samples, rows = [np.zeros(0, np.float32)], 0
    shards = [shard for shard in model.table.tables if isinstance(shard, LayeredTable)]
    step = 1 + sum(shard.base.width * len(shard.base) for shard in shards) // SHOWN_WEIGHTS
    for shard in shards:
        for keys, weights in shard.items():
            bad = ~np.isfinite(weights).all(axis=1)
            wrong += keys[bad].tolist()
            samples.append(weights[~bad].reshape(-1)[::step].copy())
            rows += len(keys)
    return wrong, np.concatenate(samples), rows


def _calibration(quality: Quality, bound: float) -> ValidationCheck:
    ratio = quality.calibration
    if ratio is None:
        return ValidationCheck("calibration", False, "no held-out row is positive: the calibration cannot be measured")
    off = abs(ratio - 1)
    detail = f"mean prediction over mean label is {ratio:.4f}"
    return ValidationCheck("calibration", off <= bound, detail + _exceeds(off, bound), off, bound)


def _losses(current: Quality, candidate: Quality, bounds: Bounds) -> Iterator[ValidationCheck]:
    names = {"auc": "AUC", "log_loss": "log loss", "rmse": "RMSE"}
    if current.rmse is None and None in (current.auc, candidate.auc):
        yield ValidationCheck("AUC", False, "the held-out rows have one class only: the AUC cannot be measured")
        return
    for name, lost in quality_lost(current, candidate).items():
        before, after = getattr(current, name), getattr(candidate, name)
        bound = float(getattr(bounds, f"{name}_lost"))
        detail = f"{after:.5f}; the current version has {before:.5f}"
        yield ValidationCheck(names[name], lost <= bound, detail + _exceeds(lost, bound, "the loss of "), lost, bound)


def _answers(moved: Floats, requests: int, bounds: Bounds) -> ValidationCheck:
    mean, bound = float(moved.mean()), bounds.answer_change
    detail = f"predictions of {requests:,} recorded requests moved by {mean:.5f} on average, {moved.max():.5f} at most"
    return ValidationCheck("answers", mean <= bound, detail + _exceeds(mean, bound), mean, bound)


def _least_seconds(models: Sequence[FrozenModel], batch: Batch) -> list[float]:
    """Return the least time of a request by each version; they take turns, so that other load meets them alike."""
    for model in models[1:]:
        model.predict(batch)
    least = [math.inf] * len(models)
    for _ in range(REPLAYS):
        for index, model in enumerate(models):
            began = time.perf_counter()
            model.predict(batch)
            least[index] = min(least[index], time.perf_counter() - began)
    return least


def _latency(seconds: Sequence[NDArray[np.float64]], bound: float) -> ValidationCheck:
    """Compare the times of requests by two versions: the median of the ratios, which a busy machine does not move."""
    if not seconds:
        return ValidationCheck("latency", True, "the current version can score no recorded request: nothing to compare")
    p50, p99 = (float(each) * 1e3 for each in np.percentile(seconds[0], [50, 99]))
    detail = f"recorded requests take {p50:.3f} ms (p50), {p99:.3f} ms (p99)"
    if len(seconds) == 1:
        return ValidationCheck("latency", True, f"{detail}; no version to compare with")
    ratio = float(np.median(seconds[0] / seconds[1]))
    detail += f", {ratio:.3f} times as long as the current version"
    return ValidationCheck("latency", ratio <= bound, detail + _exceeds(ratio, bound), ratio, bound)


def _exceeds(figure: float, bound: float, what: str = "", unit: str = "") -> str:
    return "" if figure <= bound else f": {what}{figure:.5g}{unit} is more than {bound:g}{unit}"
