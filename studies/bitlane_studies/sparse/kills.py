"""Kill servers, workers and the driver while they train: `python -m bitlane_studies.sparse.kills --kills 100`.

An FM learns a click log of `bitlane sparse generate` with 2 servers, 2 workers and staleness 2 on Ray. SIGKILL comes at
even distances of rows, to a process that is drawn at random: a server, a worker, or the driver, which is resumed by
``--resume``. Printed are the seconds from each kill to the next process that serves or learns, the rows that were
learned, and the AUC of held-out rows beside that of the same training in one process, without servers.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bitlane.cli.argument_types import positive, seed
from bitlane.errors import BitlaneError
from bitlane.sparse.generator.click_log import ClickLog
from bitlane.sparse.generator.settings import ClickLogSettings
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.training.run_folder import find_model
from bitlane.sparse.training.windows import auc
from bitlane.support.text import align_columns
from bitlane_studies.sparse.ray_training import RayTraining, pairs
from bitlane_studies.sparse.rows import write_npz

HELD_OUT = 100_000
BATCH_ROWS = 256
POLL_SECONDS, LONGEST = 0.1, 300.0
KINDS = ("servers", "workers", "driver")


def wait_for_rows(training: RayTraining, rows: int) -> bool:
    """Wait until so many rows have been learned and all processes are known; return False if the training ends."""
    until = time.monotonic() + LONGEST
    while not training.has_ended:
        windows = training.windows()
        if windows and windows[-1]["rows_done"] >= rows and all(training.processes("servers") or [0]):
            return True
        if time.monotonic() > until:
            raise BitlaneError(f"no progress for {LONGEST:g} s")
        time.sleep(POLL_SECONDS)
    return False


def kill(training: RayTraining, kind: str, index: int) -> float | None:
    """Kill a process; return the seconds until it has a successor, None if the training ends before."""
    begin, old = time.monotonic(), training.processes(kind)[index] if kind != "driver" else 0
    if kind == "driver":
        windows = len(training.windows())
        training.kill_driver()
    elif old:
        try:
            os.kill(old, signal.SIGKILL)
        except ProcessLookupError:  # it has just ended by itself
            return None
    while not training.has_ended:
        if kind == "driver":
            back = len(training.windows()) > windows
        else:
            processes = training.processes(kind)
            back = len(processes) > index and processes[index] not in (0, old)
        if back:
            return time.monotonic() - begin
        if time.monotonic() > begin + LONGEST:
            raise BitlaneError(f"{kind} {index} did not come back within {LONGEST:g} s")
        time.sleep(POLL_SECONDS)
    return None


def train(path: str, run: Path, rows: int, kills: int, start: int) -> dict[str, list[float]]:
    """Train with kills to the end; return the times to recover, by kind."""
    draw, recoveries = random.Random(start), {kind: list[float]() for kind in KINDS}
    options = {
        "--servers": 2, "--workers": 2, "--staleness": 2, "--model": "fm", "--batch-rows": BATCH_ROWS,
        "--window-rows": max(BATCH_ROWS, rows // (4 * kills)),
    }  # fmt: skip
    training = RayTraining(run, [path, *pairs(options)])
    try:
        for number in range(kills):
            if not wait_for_rows(training, (number + 1) * rows // (kills + 2)):
                break
            kind = draw.choices(KINDS, (4, 4, 2))[0]
            seconds = kill(training, kind, draw.randrange(2))
            if seconds is not None:
                recoveries[kind].append(seconds)
                print(f"kill {number + 1} of {kills}: {kind}, back after {seconds:.1f} s", flush=True)
        while not training.has_ended:
            time.sleep(POLL_SECONDS)
    finally:
        training.close()
    return recoveries


def main(argv: Sequence[str] | None = None) -> None:
    """Train with kills and without, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.sparse.kills", description="Kill servers, workers and the driver of a training."
    )
    parser.add_argument("--kills", type=positive, default=100, metavar="N", help="default: 100")
    parser.add_argument("--rows", type=positive, default=2_000_000, metavar="N", help="of the log (default: 2000000)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the log and the kills (default: 0)")
    arguments = parser.parse_args(argv)
    log = ClickLog(ClickLogSettings(seed=arguments.seed))
    rows, test = log.batch(0, arguments.rows), log.batch(arguments.rows, HELD_OUT)
    with tempfile.TemporaryDirectory() as folder:
        path, run = str(Path(folder, "rows.npz")), Path(folder, "run")
        write_npz(rows, Path(path))
        try:
            times = train(path, run, rows.rows, arguments.kills, arguments.seed)
            killed = SparseModel.load(find_model(run))
        except BitlaneError as error:
            raise SystemExit(f"error: {error}") from error
    calm = SparseModel(ModelSpec("fm", batch_rows=BATCH_ROWS))
    calm.learn(rows)
    cells = [("measure", "value"), ("rows, learned", f"{rows.rows:,}, {killed.rows_seen:,}")]
    for kind, seconds in times.items():
        text = f"{len(seconds)}: median {np.median(seconds):.1f} s, longest {max(seconds):.1f} s" if seconds else "0"
        cells.append((f"kills of {kind}, and the time to recover", text))
    for name, model in (("with kills", killed), ("one process", calm)):
        cells.append((f"AUC of held-out rows, {name}", f"{auc(model.scores(test), test.labels):.4f}"))
    print(align_columns(cells))


if __name__ == "__main__":
    main()
