"""Calibration by click rate and minibatch: `python -m bitlane_studies.sparse.calibration`.

LR, FM and FFM learn generated click logs of several click rates once, with their default settings: in one process, and
as two workers do with servers (staleness 0; the number of servers changes no bit). Each cell has the calibration of the
scores before each row was learned, mean prediction over mean label, and by how many percent their log loss is above
that of learning row by row. If Vowpal Wabbit is installed, it learns the same rows with its default settings and with
the optimizer of our LR, and its log loss is set against that of LR.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.cli.argument_types import integers, positive, seed
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.generator.click_log import ClickLog
from bitlane.sparse.generator.settings import ClickLogSettings
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.periods import FIRST_ROWS
from bitlane.sparse.training.windows import Quality, measure
from bitlane.support.text import align_columns
from bitlane_studies.sparse.distributed import learn_clock
from bitlane_studies.sparse.processes import run_child
from bitlane_studies.sparse.rows import SplitRows

KINDS = ("lr", "fm", "ffm")
RATES = (0.5, 0.2, 0.01, 0.001)
BATCH_ROWS = (1, 16, 64, 256, 4096)
ROWS, FIELDS, KEYS = 400_000, 5, 20_000
WORKERS = 2
VOWPAL_WABBIT = {"vw": (), "vw, ftrl": ("--ftrl", "--ftrl_alpha", "0.3", "--ftrl_beta", "1")}


def progressive(spec: ModelSpec, rows: Batch, workers: int) -> Quality:
    """Return the quality of the scores before each row was learned.

    Parameters
    ----------
    spec : ModelSpec
    rows : Batch
    workers : int
        1: as `bitlane sparse train`. More: as so many workers; each clock has the next minibatch of each.
    """
    model = SparseModel(spec)
    model.begin(rows.slice(0, FIRST_ROWS))
    if workers == 1:
        return measure(model.learn(rows), rows.labels, "log_loss")
    scores: list[NDArray[np.float32]] = []
    size = spec.batch_rows
    for start in range(0, rows.rows, workers * size):
        clock = rows.slice(start, start + workers * size)
        batches = [clock.slice(at, at + size) for at in range(0, clock.rows, size)]
        scores += learn_clock(model, batches, [start] * len(batches))
    return measure(np.concatenate(scores), rows.labels, "log_loss")


def vowpal_wabbit(rows: Batch, arguments: Sequence[str]) -> Quality:
    """Return the quality of the scores that Vowpal Wabbit gives to each row before it learns it.

    Parameters
    ----------
    rows : Batch
    arguments : sequence of str
        Its optimizer; none for its default.
    """
    keys, numbers = np.unique(rows.keys, return_inverse=True)
    numbered = replace(rows, keys=numbers.reshape(-1).astype(np.uint64))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, scores = SplitRows("log", numbered, len(keys), 1, folder).path("vw"), folder / "scores"
        options = ["-d", str(text), "-b", "20", "--loss_function", "logistic", "--quiet", "-p", str(scores), *arguments]
        run_child("vw", {"arguments": options}, (0,), folder)
        return measure(np.loadtxt(scores, usecols=0, dtype=np.float32), rows.labels, "log_loss")


def study(
    rates: Sequence[float], sizes: Sequence[int], settings: ClickLogSettings, rows: int, say: Callable[[str], object]
) -> list[list[str]]:
    """Return the lines of the table: model, click rate, workers, and a cell for each size of a minibatch.

    Parameters
    ----------
    rates : sequence of float
        Click rates.
    sizes : sequence of int
        Rows of a minibatch; for workers those above 1.
    settings : ClickLogSettings
        Of the logs, their click rate apart.
    rows : int
    say : callable
        Takes a line about the progress.
    """
    lines = [["model", "clicks", "workers", *(f"{size:,} rows" for size in sizes)]]
    for rate in rates:
        batch = ClickLog(ClickLogSettings(**{**vars(settings), "base_rate": rate})).batch(0, rows)
        online: dict[str, Quality] = {}
        for kind in KINDS:
            say(f"{kind}, {rate:.1%} clicks")
            fields = settings.fields if kind == "ffm" else 0
            online[kind] = progressive(ModelSpec(kind, fields=fields), batch, 1)
            for workers in (1, WORKERS):
                cells = [
                    cell(progressive(ModelSpec(kind, fields=fields, batch_rows=size), batch, workers), online[kind])
                    if size > 1
                    else (cell(online[kind], online[kind]) if workers == 1 else "")
                    for size in sizes
                ]
                lines.append([kind, f"{rate:.1%}", str(workers), *cells])
        for name, arguments in VOWPAL_WABBIT.items() if find_spec("vowpalwabbit") else ():
            say(f"Vowpal Wabbit ({name}), {rate:.1%} clicks")
            found = cell(vowpal_wabbit(batch, arguments), online["lr"])
            lines.append([name, f"{rate:.1%}", "1", found, *[""] * (len(sizes) - 1)])
    return lines


def cell(quality: Quality, online: Quality) -> str:
    """Return calibration, and the log loss over that of learning row by row, in percent."""
    assert quality.calibration is not None and quality.log_loss is not None and online.log_loss is not None
    return f"{quality.calibration:.2f}, {100 * (quality.log_loss / online.log_loss - 1):+.1f} %"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the study and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.sparse.calibration", description=__doc__)
    parser.add_argument("--rows", type=positive, default=ROWS, metavar="N", help=f"of each log (default: {ROWS})")
    parser.add_argument("--fields", type=positive, default=FIELDS, metavar="N", help=f"of the logs (default: {FIELDS})")
    parser.add_argument("--keys", type=positive, default=KEYS, metavar="N", help=f"of the logs (default: {KEYS})")
    parser.add_argument("--batch-rows", type=integers, default=BATCH_ROWS, help="sizes (default: 1,16,64,256,4096)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the logs (default: 0)")
    arguments = parser.parse_args(argv)
    settings = ClickLogSettings(fields=arguments.fields, keys=arguments.keys, seed=arguments.seed)
    print(align_columns(study(RATES, arguments.batch_rows, settings, arguments.rows, print), left=3))


if __name__ == "__main__":
    main()
