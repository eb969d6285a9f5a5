"""Train for a while on a stream that drifts: `python -m bitlane_studies.sparse.online --minutes 30 --out PNG`.

A thread writes a click log of `bitlane sparse generate` as Parquet files to a folder, some seconds of rows each: keys
fade in and out, and the truth turns. `bitlane sparse train FOLDER --follow --engine ray` follows it, with 2 servers, 2
workers, staleness 2 and expiry. At 40 % and 70 % of the time each server is ended, one after the other, and Ray starts
it anew. At the end Ctrl-C (SIGINT) stops the training.

Measured: the memory of all servers and workers every few seconds, and its slope over the second half; progressive AUC
by windows, beside that of a model that was trained in one process on the first fifth of the rows and frozen; the time
from the end of a server to its first answer; the rows that were learned against those that were written.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.cli.argument_types import seed
from bitlane.errors import BitlaneError
from bitlane.sparse.generator.click_log import ClickLog
from bitlane.sparse.generator.formats import write_parquet
from bitlane.sparse.generator.settings import ClickLogSettings
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.training.windows import auc
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns
from bitlane_studies.sparse.ray_training import RayTraining, pairs

SEGMENT_SECONDS, SAMPLE_SECONDS, POLL_SECONDS = 2.0, 5.0, 0.2
RESTARTS = (0.4, 0.7)  # of the time
FROZEN = 0.2  # of the rows
STARTED = 180.0  # seconds that a start may take
MEGABYTE = 1e6
DIM, BATCH_ROWS = 8, 256


@dataclass
class Measured:
    """What was seen.

    Attributes
    ----------
    memory : list of (float, float)
        Seconds since the first window, bytes of all servers and workers.
    restarts : list of (float, float)
        Seconds since the first window, seconds to the first answer.
    """

    memory: list[tuple[float, float]] = field(default_factory=list)
    restarts: list[tuple[float, float]] = field(default_factory=list)


class Writer(threading.Thread):
    """Writes segments at a steady rate until `stop` is set.

    Attributes
    ----------
    rows : int
        Written so far.
    begun : Event
        Set when there is a segment.
    """

    def __init__(self, log: ClickLog, folder: Path, rate: int):
        super().__init__(name="writer", daemon=True)
        self._log, self._folder, self._rate = log, folder, rate
        self.rows, self.begun, self.stop = 0, threading.Event(), threading.Event()

    def run(self) -> None:
        """Write."""
        begin, number = time.monotonic(), 0
        size = max(1, round(self._rate * SEGMENT_SECONDS))
        while not self.stop.is_set():
            part = self._folder / f".{number:08}.part"
            write_parquet(self._log.batch(self.rows, size), self._log.settings.field_names, part)
            part.rename(self._folder / f"{number:08}.parquet")
            self.rows, number = self.rows + size, number + 1
            self.begun.set()
            self.stop.wait(max(0.0, begin + number * SEGMENT_SECONDS - time.monotonic()))


def memory_of(training: RayTraining) -> float:
    """Return the bytes that servers and workers have in memory."""
    return sum(resident(process) for process in training.processes("servers") + training.processes("workers"))


def resident(process: int) -> float:
    """Return the resident bytes of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0.0


def restart(training: RayTraining, place: int) -> float:
    """End a server; return the seconds until its successor answers."""
    old = training.processes("servers")[place]
    begin = time.monotonic()
    os.kill(old, signal.SIGTERM)
    while time.monotonic() < begin + STARTED:
        _check(training)
        found = training.processes("servers")
        if len(found) > place and found[place] != old:
            return time.monotonic() - begin
        time.sleep(POLL_SECONDS)
    raise BitlaneError(f"server {place} did not come back within {STARTED:g} s")


def follow(training: RayTraining, seconds: float) -> Measured:
    """Sample the memory, and restart the servers, for `seconds` from the first window on."""
    measured, until = Measured(), time.monotonic() + STARTED
    while not training.windows():
        _check(training)
        if time.monotonic() > until:
            raise BitlaneError(f"the training had no window within {STARTED:g} s")
        time.sleep(POLL_SECONDS)
    begin, due = time.monotonic(), [share * seconds for share in RESTARTS]
    while (now := time.monotonic() - begin) < seconds:
        _check(training)
        measured.memory.append((now, memory_of(training)))
        if due and now > due[0]:
            due.pop(0)
            for place in range(len(training.processes("servers"))):
                measured.restarts.append((time.monotonic() - begin, restart(training, place)))
        time.sleep(SAMPLE_SECONDS)
    return measured


def _check(training: RayTraining) -> None:
    if training.has_ended:
        raise BitlaneError("the training ended before its time")


def slope(memory: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the slope of the memory over the second half, bytes a minute, and its standard error."""
    half = np.array(memory)[len(memory) // 2 :]
    minutes, values = half[:, 0] / 60, half[:, 1]
    centred = minutes - minutes.mean()
    found = float(centred @ values / (centred @ centred))
    rest = values - values.mean() - found * centred
    return found, float(np.sqrt(rest @ rest / max(1, len(half) - 2) / (centred @ centred)))


def frozen_aucs(stream: Path, spec: ModelSpec, rows: int, windows: Sequence[dict[str, Any]]) -> NDArray[np.float64]:
    """Train on the first rows of the stream; return the frozen model's AUC in each window, nan within these rows."""
    from bitlane.sparse.batches.source import open_source

    model, learned, parts = SparseModel(spec), 0, []
    for batch in open_source(str(stream), time="time", batch_rows=BATCH_ROWS * 16).batches(0):
        if learned < rows:
            model.learn(batch)
            learned += batch.rows
            parts.append(np.full((2, batch.rows), np.nan, np.float32))
        else:
            parts.append(np.stack([model.scores(batch), batch.labels]))
    scores, labels = np.concatenate(parts, axis=1)
    ends = [0, *(int(window["rows_done"]) for window in windows)]
    found = []
    for first, last in pairwise(ends):
        best = None if np.isnan(scores[first:last]).any() else auc(scores[first:last], labels[first:last])
        found.append(np.nan if best is None else best)
    return np.array(found)


def draw(measured: Measured, windows: Sequence[dict[str, Any]], frozen: NDArray[np.float64], path: Path) -> None:
    """Plot memory and AUC over time to `path`."""
    pyplot: Any = require_extra("matplotlib.pyplot", "a plot")
    figure, (above, below) = pyplot.subplots(2, sharex=True, figsize=(7, 6), constrained_layout=True)
    seconds, memory = np.array(measured.memory).T
    above.plot(seconds / 60, memory / MEGABYTE, color="#0072B2")
    above.set(ylabel="servers and workers, MB", ylim=(0, None))
    minutes = (np.array([window["seconds"] for window in windows]) - windows[0]["seconds"]) / 60
    below.plot(minutes, [window["auc"] for window in windows], color="#0072B2", label="online")
    below.plot(minutes, frozen, color="#D55E00", label="frozen after a fifth of the rows")
    for axis in (above, below):
        for at, _ in measured.restarts:
            axis.axvline(at / 60, color="#999999", linestyle=":")
    below.set(xlabel="minutes; dotted: a server is restarted", ylabel="progressive AUC")
    below.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def report(measured: Measured, windows: Sequence[dict[str, Any]], frozen: NDArray[np.float64], rows: int) -> str:
    """Return the table."""
    rise, error = slope(measured.memory)
    late = ~np.isnan(frozen)
    late[: len(late) // 2] = False
    online = np.array([window["auc"] for window in windows], np.float64)
    memory = np.array(measured.memory)[len(measured.memory) // 2 :, 1].mean() / MEGABYTE
    cells = [
        ("rows written, learned", f"{rows:,}, {windows[-1]['rows_done']:,}"),
        ("keys in the tables at the end", f"{windows[-1]['table_rows']:,}"),
        ("memory of servers and workers, second half, MB", f"{memory:,.0f}"),
        ("its slope, MB a minute", f"{rise / MEGABYTE:+.3f} (standard error {error / MEGABYTE:.3f})"),
        ("AUC of the second half, online", f"{np.nanmean(online[late]):.4f}"),
        ("the same, frozen model", f"{np.nanmean(frozen[late]):.4f}"),
        ("restarts of servers, seconds to the first answer", ", ".join(f"{each:.1f}" for _, each in measured.restarts)),
    ]  # fmt: skip
    return align_columns([("measure", "value"), *cells])


def main(argv: Sequence[str] | None = None) -> None:
    """Write, train, measure; print the table and draw the plot."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.sparse.online", description="Train for a while on a stream that drifts."
    )
    add = parser.add_argument
    add("--minutes", type=float, default=30.0, help="from the first window on (default: 30)")
    add("--rate", type=int, default=2000, metavar="N", help="rows a second (default: 2000)")
    add("--window-rows", type=int, default=50_000, metavar="N", help="of a window of AUC (default: 50000)")
    add("--expire-after", type=int, default=400_000, metavar="N", help="rows without a key (default: 400000)")
    add("--keys", type=int, default=300_000, metavar="N", help="that can appear at one time (default: 300000)")
    add("--churn", type=float, default=1.0, help="changes of each rank's key in a million rows (default: 1)")
    add("--turn", type=float, default=0.5, help="radians the truth turns in a million rows (default: 0.5)")
    add("--seed", type=seed, default=0, metavar="N", help="of the log (default: 0)")
    add("--out", type=Path, metavar="PNG", help="plot to this file")
    arguments = parser.parse_args(argv)
    log = ClickLog(
        ClickLogSettings(keys=arguments.keys, churn=arguments.churn, turn=arguments.turn, seed=arguments.seed)
    )
    try:
        measure(arguments, log)
    except BitlaneError as error:
        raise SystemExit(f"error: {error}") from error


def measure(arguments: argparse.Namespace, log: ClickLog) -> None:
    """Run the study with the arguments of the command line."""
    with tempfile.TemporaryDirectory() as folder:
        stream = Path(folder, "stream")
        stream.mkdir()
        writer = Writer(log, stream, arguments.rate)
        writer.start()
        writer.begun.wait()
        options = {
            "--servers": 2, "--workers": 2, "--staleness": 2, "--model": "fm", "--dim": DIM, "--batch-rows": BATCH_ROWS,
            "--window-rows": arguments.window_rows, "--expire-after": arguments.expire_after,
        }  # fmt: skip
        training = RayTraining(Path(folder, "run"), [str(stream), "--follow", *pairs(options)])
        try:
            measured = follow(training, 60 * arguments.minutes)
            writer.stop.set()
            writer.join()
            training.interrupt()
            windows = training.windows()
        finally:
            writer.stop.set()
            training.close()
        spec = ModelSpec("fm", dim=DIM, batch_rows=BATCH_ROWS)
        frozen = frozen_aucs(stream, spec, round(FROZEN * windows[-1]["rows_done"]), windows)
    print(report(measured, windows, frozen, writer.rows))
    if arguments.out is not None:
        draw(measured, windows, frozen, arguments.out)
        print(f"plot: {arguments.out}")


if __name__ == "__main__":
    main()
