"""Train on a click log that drifts, with 10^8 different keys: `python -m bitlane_studies.sparse.drift --out PNG`.

The log is that of `bitlane sparse generate`: keys of Zipf's law fade in and out, and the truth turns. Nothing is
written to disk. First all keys of the log go into a table of their own, which counts them. Then a model is trained on
the log once for each way to choose the keys that get parameters:

- every key: at its first sighting, for ever;
- admission: from the second sighting on, for ever;
- admission and expiry: from the second sighting on, until no row has had the key for `--expire-rows` rows.

AUC is progressive: of the scores before a row was learned, by windows of rows. Beside it stands the AUC of the true
probabilities, which no model can beat but by chance. Memory is that of the table and of the sketch that counts
sightings before admission; the peak is what the process had, at any moment, beyond what it began with.

A small run of the same shape: ``--scale 0.01`` divides rows, keys, expiry and sketch by 100, and makes the drift as
much faster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.sparse.generator.click_log import ClickLog, ClickLogSource
from bitlane.sparse.generator.settings import ClickLogSettings
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.tables.table import Table
from bitlane.sparse.training.loop import Trainer, TrainingOptions
from bitlane.sparse.training.windows import Window, auc
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns
from bitlane_studies.sparse.table_memory import resident_bytes, take_peak

WINDOWS = 50
CEILING_ROWS = 100_000  # of each window, for the AUC of the true probabilities
MEGABYTE = 1e6
COLORS = ("#0072B2", "#D55E00", "#009E73")


@dataclass(frozen=True)
class Plan:
    """What is trained on what.

    Attributes
    ----------
    log : ClickLogSettings
    rows : int
    spec : ModelSpec
        Of "every key"; the others add sightings, a sketch of `cells` bytes, and ages.
    sightings, cells : int
    expire_rows : int
    """

    log: ClickLogSettings
    rows: int
    spec: ModelSpec
    sightings: int = 2
    cells: int = 1 << 28
    expire_rows: int = 8_000_000

    @property
    def window_rows(self) -> int:
        """Rows of a window."""
        return max(1, self.rows // WINDOWS)


@dataclass(frozen=True)
class Training:
    """One training.

    Attributes
    ----------
    name : str
    windows : tuple of Window
    sketch_bytes : int
    peak_bytes : float
        What the process had beyond the beginning, at most; nan where the system does not tell.
    seconds : float
        Making the rows included: the generator runs beside.
    """

    name: str
    windows: tuple[Window, ...]
    sketch_bytes: int
    peak_bytes: float
    seconds: float

    @property
    def aucs(self) -> list[float]:
        """Progressive AUC of each window; nan where all labels are equal."""
        found = [window.quality.auc for window in self.windows]
        return [float("nan") if each is None else each for each in found]

    @property
    def memory(self) -> list[int]:
        """Bytes of table and sketch at the end of each window."""
        return [window.table_bytes + self.sketch_bytes for window in self.windows]


def variants(plan: Plan) -> dict[str, tuple[ModelSpec, int]]:
    """Return the trainings: the description of each model, and the rows until a key expires, 0 for never."""
    admitted = replace(plan.spec, sightings=plan.sightings, sketch_cells=plan.cells)
    return {
        "every key": (plan.spec, 0),
        "admission": (admitted, 0),
        "admission and expiry": (replace(admitted, track_age=True), plan.expire_rows),
    }


def count_keys(plan: Plan) -> tuple[int, int, float]:
    """Return how many different keys the rows have, the bytes of the table that counted them, and the seconds."""
    start, table = time.perf_counter(), Table(1)
    for batch in ClickLogSource(ClickLog(plan.log), plan.rows).batches(0):
        table.find_or_insert(batch.keys)
    return len(table), table.nbytes, time.perf_counter() - start


def train(plan: Plan, name: str) -> Training:
    """Train one of `variants` from the beginning."""
    spec, expire_rows = variants(plan)[name]
    options = TrainingOptions(window_rows=plan.window_rows, checkpoint_rows=0, expire_rows=expire_rows)
    before = resident_bytes()
    take_peak()
    start, model = time.perf_counter(), SparseModel(spec)
    source: Any = ClickLogSource(ClickLog(plan.log), plan.rows)
    result = Trainer(model, source, options).run()
    seconds = time.perf_counter() - start
    return Training(name, result.windows, model.parameters.table.sketch_nbytes, take_peak() - before, seconds)


def ceiling(plan: Plan) -> list[float]:
    """Return the AUC of the true probabilities in the first rows of each window; nan where all labels are equal."""
    log, found = ClickLog(plan.log), []
    for start in range(0, plan.rows, plan.window_rows):
        batch, truth = log.sample(start, min(CEILING_ROWS, plan.window_rows, plan.rows - start))
        best = auc(np.log(truth / (1 - truth)).astype(np.float32), batch.labels)
        found.append(float("nan") if best is None else best)
    return found


def report(trainings: Sequence[Training], best: Sequence[float]) -> str:
    """Return the table of all trainings."""
    header = ("keys that get parameters", "keys", "table and sketch, MB", "over data", "process, MB", "AUC", "rows/s")
    cells: list[tuple[str, ...]] = [header]
    half = len(best) // 2
    for each in trainings:
        last = each.windows[-1]
        cells.append(
            (
                each.name,
                f"{max(window.table_rows for window in each.windows):,}",
                f"{max(each.memory) / MEGABYTE:,.0f}",
                f"{max(window.memory_over_data or 0 for window in each.windows):.3f}",
                f"{each.peak_bytes / MEGABYTE:,.0f}",
                f"{np.nanmean(each.aucs[half:]):.4f}",
                f"{last.rows_done / each.seconds:,.0f}",
            )
        )
    cells.append(("the true probabilities", "", "", "", "", f"{np.nanmean(best[half:]):.4f}", ""))
    return align_columns(cells) + "\n\nkeys, MB: the largest; AUC: the mean over the second half of the windows"


def draw(trainings: Sequence[Training], best: Sequence[float], path: Path) -> None:
    """Plot memory and AUC over rows to `path`."""
    pyplot: Any = require_extra("matplotlib.pyplot", "a plot")
    figure, (above, below) = pyplot.subplots(2, sharex=True, figsize=(7, 6), constrained_layout=True)
    rows = [window.rows_done for window in trainings[0].windows]
    for each, color in zip(trainings, COLORS, strict=False):
        above.plot(rows, np.array(each.memory) / MEGABYTE, color=color, label=each.name)
        below.plot(rows, each.aucs, color=color, label=each.name)
    below.plot(rows, best, ":", color="#777777", label="the true probabilities")
    above.set(ylabel="table and sketch, MB", ylim=(0, None))
    below.set(xlabel="rows", ylabel="progressive AUC")
    above.legend()
    below.legend(loc="center right")  # below the true probabilities, above the models
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Return the plan of the command line's arguments."""
    scale = arguments.scale
    log = ClickLogSettings(
        keys=max(1000, round(arguments.keys * scale)),
        growth=arguments.growth,
        zipf=arguments.zipf,
        churn=arguments.churn / scale,
        turn=arguments.turn / scale,
        seed=arguments.seed,
    )
    return Plan(
        log,
        max(WINDOWS, round(arguments.rows * scale)),
        ModelSpec(arguments.model, dim=arguments.dim),
        arguments.sightings,
        max(1 << 10, round(arguments.cells * scale)),
        max(1, round(arguments.expire_rows * scale)),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Count the keys, train each way, print the table and draw the plot."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.sparse.drift", description="Train on a click log that drifts, with 10^8 keys."
    )
    add = parser.add_argument
    add("--rows", type=float, default=75e6, help="of the log (default: 75e6)")
    add("--keys", type=float, default=1e9, help="that can appear at one time, in 10 fields (default: 1e9)")
    add("--growth", type=float, default=4.0, help="keys of a field over those of the one before (default: 4)")
    add("--zipf", type=float, default=1.0, help="exponent of the popularity (default: %(default)s)")
    add("--churn", type=float, default=0.1, help="changes of each rank's key in a million rows (default: %(default)s)")
    add("--turn", type=float, default=0.01, help="radians the truth turns in a million rows (default: %(default)s)")
    add("--model", choices=("lr", "fm"), default="fm", help="default: fm")
    add("--dim", type=int, default=8, help="length of the factors (default: 8)")
    add("--sightings", type=int, default=2, help="at which a key is admitted (default: 2)")
    add("--cells", type=float, default=4e8, help="bytes of the sketch that counts sightings (default: 4e8)")
    add("--expire-rows", type=float, default=8e6, help="without a key, after which it expires (default: 8e6)")
    add("--scale", type=float, default=1.0, help="factor on all sizes; the drift becomes as much faster (default: 1)")
    add("--only", action="append", metavar="NAME", help="train this way only, such as 'admission'; may be repeated")
    add("--out", type=Path, metavar="PNG", help="plot memory and AUC to this file")
    add("--seed", type=int, default=0, help="of the log (default: 0)")
    arguments = parser.parse_args(argv)
    plan = plan_of(arguments)
    names = list(variants(plan))
    if unknown := set(arguments.only or []) - set(names):
        parser.error(f"--only {unknown.pop()!r}: choose among {', '.join(map(repr, names))}")
    ClickLog(plan.log).batch(0, 1)
    keys, size, seconds = count_keys(plan)
    print(
        f"{plan.rows:,} rows, {plan.rows * plan.log.fields:,} features, {keys:,} different keys"
        f" (counted in {seconds:,.0f} s, {size / MEGABYTE:,.0f} MB); {plan.spec.kind}, dim {plan.spec.dim}",
        flush=True,
    )
    trainings = []
    for name in arguments.only or names:
        trainings.append(train(plan, name))
        print(f"{name}: {trainings[-1].seconds:,.0f} s", flush=True)
    best = ceiling(plan)
    print(f"\n{report(trainings, best)}")
    if arguments.out is not None:
        draw(trainings, best, arguments.out)
        print(f"plot: {arguments.out}")


if __name__ == "__main__":
    main()
