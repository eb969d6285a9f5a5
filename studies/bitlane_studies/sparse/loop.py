"""The loop closed: `python -m bitlane_studies.sparse.loop --out FOLDER`, or `make sparse-demo`.

A click log drifts: keys fade in and out, and the truth turns. Its newest rows are shown to users, and come to the
training with their clicks some seconds later.

    click log --segments--> `bitlane sparse train --follow --publish-every` --versions--> registry
        |                                                                                    |
        +--rows that are shown--> open-loop load --requests--> `bitlane sparse serve` <--label, after validation

Measured: AUC of the served predictions, beside that of the first version on the same rows; milliseconds from the moment
when a request was due to its answer; bytes of each version. Everything runs on this machine, in four processes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.cli.argument_types import positive, seed
from bitlane.errors import BitlaneError
from bitlane.sparse.generator.click_log import ClickLog
from bitlane.sparse.generator.settings import ClickLogSettings
from bitlane.sparse.registry import validation
from bitlane.sparse.registry.manifest import Manifest
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.training.windows import auc
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns
from bitlane_studies.sparse.click_stream import ClickStream
from bitlane_studies.sparse.command_process import CommandProcess
from bitlane_studies.sparse.open_loop import Answered, OpenLoop

SEGMENT_SECONDS, POLL_SECONDS = 2.0, 0.2
STARTED = 120.0  # seconds that a start may take
BACKLOG = 60  # segments that are there at the beginning
BINS = 12  # of time, for AUC
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"


@dataclass
class LoopRecord:
    """What was seen.

    Attributes
    ----------
    base : Manifest
        Version 1, which has all rows.
    versions : list of (float, Manifest)
        Seconds since the first request, and the version that was promoted.
    rejected : list of int
        Versions that failed validation.
    answered : list of Answered
    refused : list of str
        Errors of requests.
    frozen : list of float32 arrays
        For each answer, the predictions of the first version that was promoted.
    """

    base: Manifest
    versions: list[tuple[float, Manifest]] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    frozen: list[Any] = field(default_factory=list)


def train(stack: ExitStack, stream: Path, registry: Path, every: float) -> CommandProcess:
    """Start a training that follows the stream and publishes."""
    folder = registry.parent
    command = [
        "sparse", "train", str(stream), "--follow", "--model", "fm", "--dim", "8", "--out", str(folder / "run"),
        "--publish", str(registry), "--publish-every", str(every),
    ]  # fmt: skip
    process = CommandProcess(command, folder / "train.log")
    stack.callback(process.kill)
    return process


def published(registry: ModelRegistry, training: CommandProcess, number: int) -> int:
    """Return a version's number, which is published now or soon."""
    until = time.monotonic() + STARTED
    while number not in registry.numbers():
        if training.has_ended or time.monotonic() > until:
            raise BitlaneError(f"the training has not published version {number} within {STARTED:g} s")
        time.sleep(POLL_SECONDS)
    return number


def serve(stack: ExitStack, registry: Path) -> tuple[CommandProcess, str]:
    """Start the service; return it with its address of Arrow Flight."""
    command = ["sparse", "serve", str(registry), "--label", validation.PRODUCTION, "--port", "0", "--flight-port", "0"]
    process = CommandProcess(command, registry.parent / "serve.log")
    stack.callback(process.kill)
    return process, process.line_with("grpc://", STARTED).rpartition("grpc://")[2]


def promote(registry: ModelRegistry, version: int, stream: ClickStream, measured: LoopRecord, begin: float) -> None:
    """Validate a version on the rows that are being shown, and let the label name it if it passes."""
    number, batch = stream.shown
    result = validation.validate(registry, version, validation.Inputs(lambda _: [batch], f"segment {number}"))
    if not result.passed:
        measured.rejected.append(version)
        return
    validation.promote(registry, validation.PRODUCTION, version, "the loop")
    measured.versions.append((time.monotonic() - begin, registry.manifest(version)))


def run(folder: Path, log: ClickLog, arguments: argparse.Namespace) -> LoopRecord:
    """Close the loop for `arguments.seconds`; its files go to an empty folder."""
    stream_folder, registry_folder = folder / "stream", folder / "ctr"
    stream_folder.mkdir()
    registry = ModelRegistry(registry_folder)
    segment_rows = round(arguments.rate * SEGMENT_SECONDS)
    stream = ClickStream(log, stream_folder, segment_rows, SEGMENT_SECONDS)
    with ExitStack() as stack:
        stream.backlog(BACKLOG)
        stream.start()
        stack.callback(stream.close)
        training = train(stack, stream_folder, registry_folder, arguments.publish_every)
        measured = LoopRecord(registry.manifest(published(registry, training, 1)))
        while not measured.versions:  # one that has learned few rows may be rejected
            number = published(registry, training, len(measured.rejected) + 1)
            promote(registry, number, stream, measured, time.monotonic())
        service, address = serve(stack, registry_folder)
        load = OpenLoop(address, stream, arguments.requests, arguments.rows, arguments.seed)
        begin = time.monotonic()
        load.start()
        stack.callback(load.close)
        while time.monotonic() < begin + arguments.seconds and not (training.has_ended or service.has_ended):
            for version in registry.numbers()[len(measured.versions) + len(measured.rejected) :]:
                promote(registry, version, stream, measured, begin)
            time.sleep(POLL_SECONDS)
        load.close()
        training.interrupt(130)
        service.interrupt(0)
    measured.answered, measured.refused = load.answered, load.refused
    measured.frozen = frozen_predictions(registry, stream, measured)
    return measured


def frozen_predictions(registry: ModelRegistry, stream: ClickStream, measured: LoopRecord) -> list[Any]:
    """Return the predictions of the first version that was promoted, for the rows of all requests."""
    model, predictions, number, batch = registry.load(measured.versions[0][1].version), [], -1, None
    for each in measured.answered:
        if each.segment != number:
            number, batch = each.segment, stream.batch_of(each.segment)
        assert batch is not None
        predictions.append(model.predict(batch.slice(each.first, each.first + len(each.predictions))))
    return predictions


def aucs(measured: LoopRecord) -> tuple[Any, Any, Any]:
    """Return the middle of each bin of time, and the AUC of the served predictions and of the first version in it."""
    times = np.array([each.due for each in measured.answered])
    edges = np.linspace(times[0], times[-1], BINS + 1)
    bins = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, BINS - 1)
    served, frozen = [], []
    for each in range(BINS):
        indices = np.flatnonzero(bins == each)
        labels = np.concatenate([measured.answered[i].labels for i in indices])
        served.append(auc(np.concatenate([measured.answered[i].predictions for i in indices]), labels))
        frozen.append(auc(np.concatenate([measured.frozen[i] for i in indices]), labels))
    return (edges[1:] + edges[:-1]) / 2, np.array(served, np.float64), np.array(frozen, np.float64)


def report(measured: LoopRecord) -> str:
    """Return the table."""
    _, served, frozen = aucs(measured)
    late = slice(BINS // 2, None)
    seconds = 1e3 * np.array([each.seconds for each in measured.answered])
    deltas = [manifest for _, manifest in measured.versions if manifest.kind == "delta"]
    cells = [
        ("requests answered, refused", f"{len(seconds):,}, {len(measured.refused):,}"),
        ("milliseconds, p50, p99, p99.9", ", ".join(f"{np.percentile(seconds, each):.1f}" for each in (50, 99, 99.9))),
        ("versions promoted, rejected", f"{len(measured.versions)}, {len(measured.rejected)}"),
        ("base: rows, bytes", f"{measured.base.rows:,}, {measured.base.nbytes:,}"),
        ("deltas: mean rows, mean bytes", _means(deltas)),
        ("AUC of the second half, served", f"{np.nanmean(served[late]):.4f}"),
        ("the same, first version", f"{np.nanmean(frozen[late]):.4f}"),
    ]  # fmt: skip
    return align_columns([("measure", "value"), *cells])


def draw(measured: LoopRecord, path: Path) -> None:
    """Plot AUC, latency and bytes over time to `path`."""
    pyplot: Any = require_extra("matplotlib.pyplot", "a plot")
    figure, (top, middle, bottom) = pyplot.subplots(3, sharex=True, figsize=(7, 8), constrained_layout=True)
    times, served, frozen = aucs(measured)
    top.plot(times, served, color=BLUE, label="served, updated")
    top.plot(times, frozen, color=ORANGE, label="first version, frozen")
    top.set(ylabel="AUC")
    top.legend()
    due = np.array([each.due for each in measured.answered])
    seconds = 1e3 * np.array([each.seconds for each in measured.answered])
    groups = np.array_split(np.arange(len(due)), 5 * BINS)
    for quantile, color in ((99, ORANGE), (50, BLUE)):
        values = [np.percentile(seconds[group], quantile) for group in groups if len(group)]
        middle.plot([due[group].mean() for group in groups if len(group)], values, color=color, label=f"p{quantile}")
    middle.set(ylabel="ms from due to answered", ylim=(0, None))
    middle.legend()
    promoted = measured.versions[1:]
    kilobytes = [manifest.nbytes / 1e3 for _, manifest in promoted]
    bottom.bar([at for at, _ in promoted], kilobytes, width=(due[-1] - due[0]) / 60, color=BLUE, label="delta")
    all_rows = [manifest.rows * measured.base.nbytes / max(1, measured.base.rows) / 1e3 for _, manifest in promoted]
    bottom.plot(
        [at for at, _ in promoted], all_rows, color=GREY, linestyle="--", label="all rows, at the base's bytes a row"
    )
    bottom.set(xlabel="seconds; dotted: a version is promoted", ylabel="kB published")
    bottom.legend()
    for axis in (top, middle):
        for at, _ in promoted:
            axis.axvline(at, color=GREY, linestyle=":", linewidth=0.8)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> None:
    """Close the loop; print the table and draw the picture."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.sparse.loop", description="Train, publish, validate, promote and serve at once."
    )
    add = parser.add_argument
    add("--seconds", type=float, default=90.0, help="of load (default: 90)")
    add("--publish-every", type=float, default=8.0, metavar="SECONDS", help="default: 8")
    add("--rate", type=positive, default=3000, metavar="N", help="rows a second of the log (default: 3000)")
    add("--requests", type=float, default=20.0, metavar="N", help="a second (default: 20)")
    add("--rows", type=positive, default=200, metavar="N", help="of a request (default: 200)")
    add("--keys", type=positive, default=100_000, metavar="N", help="that can appear at one time (default: 100000)")
    add("--churn", type=float, default=2.0, help="changes of each rank's key in a million rows (default: 2)")
    add("--turn", type=float, default=4.0, help="radians the truth turns in a million rows (default: 4)")
    add("--seed", type=seed, default=0, metavar="N", help="of the log and the requests (default: 0)")
    add("--out", type=Path, default=Path("runs/sparse-demo"), metavar="FOLDER", help="for the picture")
    arguments = parser.parse_args(argv)
    settings = ClickLogSettings(
        fields=20, growth=1.2, keys=arguments.keys, churn=arguments.churn, turn=arguments.turn, seed=arguments.seed
    )
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            measured = run(Path(folder), ClickLog(settings), arguments)
        print(report(measured))
        draw(measured, arguments.out / "loop.png")
    except (BitlaneError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    print(f"picture: {arguments.out / 'loop.png'}")


def _means(deltas: Sequence[Manifest]) -> str:
    if not deltas:
        return "none"
    rows = np.mean([sum(each.rows for each in manifest.files) for manifest in deltas])
    return f"{rows:,.0f}, {np.mean([manifest.nbytes for manifest in deltas]):,.0f}"


if __name__ == "__main__":
    main()
