"""Bytes of compressed pushes against AUC: `python -m bitlane_studies.sparse.push_frontier goodbooks --out PNG`.

Four workers train LR and FM in step, against two servers within one process; each clock, all see the same weights
(`push_simulation`). Held out are the rows that ``--test-fraction 0.1`` of the command line leaves out. First the
uncompressed push is tuned for the highest held-out AUC; equal AUC is 0.0005 less. Then each way, the uncompressed one
too, is tuned for the fewest bytes until it reaches that, or for the highest AUC if it never does: the learning rates
move in steps of 1.4 until both neighbours are worse. The saving in total compares bytes until equal AUC, the other one
bytes of a clock.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bitlane.cli.argument_types import positive
from bitlane.errors import BitlaneError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import AdaGrad
from bitlane.sparse.workers.pushing import PushSettings
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns
from bitlane_studies.sparse.push_simulation import Cluster, Trajectory, simulate
from bitlane_studies.sparse.quality import parts

KINDS = ("fm", "lr")
EQUAL = 0.0005  # AUC below the best uncompressed one that counts as equal
STEP = 1.4  # between learning rates that are tried
EPOCHS = 14
NO_LIMIT = 1.0  # residual rows over the model's rows

Say = Callable[[str], object]


@dataclass(frozen=True)
class Way:
    """A way to push.

    Attributes
    ----------
    name : str
    settings : PushSettings
        Without residual rows.
    kept : float
        Residual rows of a worker over the model's rows.
    fm, lr : float
        Learning rate, of the factors or the weights, that the tuning begins with.
    linear : float
        Learning rate of an FM's linear weights over that of the factors.
    grouped : bool
        Round linear weights and factors on their own.
    """

    name: str
    settings: PushSettings
    kept: float = 0.0
    fm: float = 0.1
    lr: float = 0.3
    linear: float = 3.0
    grouped: bool = True


@dataclass(frozen=True)
class Tuned:
    """A way with its best learning rate."""

    way: Way
    rate: float
    trajectory: Trajectory


_FEW = PushSettings("topk", 0.1, values="fixed", entry_bits=3)
WAYS = (
    Way("full, 8-byte keys", PushSettings("full", pack_keys=False)),
    Way("float16", PushSettings("float16")),
    Way("ternary", PushSettings("ternary")),
    Way("3 bits", PushSettings("few"), grouped=False),
    Way("3 bits, top 10 %, rest kept: 10 %", _FEW, 0.1, grouped=False),
    Way("3 bits, top 10 %, rest kept: 2 %", _FEW, 0.02, grouped=False),
    Way("ternary, top 20 %, rest kept: all", PushSettings("topk", 0.2), NO_LIMIT, 0.07, 0.3, 6.0),
    Way("ternary, top 10 %, rest kept: all", PushSettings("topk", 0.1), NO_LIMIT, 0.05, 0.3, 10.0),
    Way("ternary, top 3 %, rest kept: all", PushSettings("topk", 0.03), NO_LIMIT, 0.05, 0.3, 10.0),
)


def train(way: Way, kind: str, rate: float, data: tuple[Batch, Batch], **limits: float) -> Trajectory:
    """Train a model of a kind with a learning rate; `limits` are those of `simulate`."""
    if kind == "lr":
        spec = ModelSpec("lr", linear=AdaGrad(rate))
    else:
        spec = ModelSpec("fm", dim=8, linear=AdaGrad(way.linear * rate), factors=AdaGrad(rate))
    rows = int(way.kept * len(np.unique(data[0].keys)))
    cluster = Cluster(grouped=way.grouped)
    return simulate(spec, replace(way.settings, residual_rows=rows), data, cluster=cluster, **limits)  # type: ignore[arg-type]


def tune(
    way: Way, kind: str, data: tuple[Batch, Batch], epochs: int, wanted: float, say: Say, found: dict[int, Trajectory]
) -> Tuned:
    """Return a way with the learning rate whose two neighbours are both worse.

    `found` has the runs so far by the place of the rate among the steps, and gets the new ones.
    """
    first = way.lr if kind == "lr" else way.fm
    place = max(found, key=lambda each: _quality(found[each], wanted), default=0)
    while True:
        for each in (place, place - 1, place + 1):
            if each not in found:
                reached = [point.bytes for run in found.values() if (point := run.reach(wanted))]
                limit = min(reached, default=np.inf)
                began = time.perf_counter()
                run = train(way, kind, first * STEP**each, data, epochs=epochs, wanted=wanted, most_bytes=limit)
                found[each] = run
                say(
                    f"{kind}, {way.name}, rate {first * STEP**each:.3g}: AUC {run.best.auc:.4f} after "
                    f"{run.best.epochs:.1f} epochs, {run.best.bytes / 1e6:.1f} MB ({time.perf_counter() - began:.0f} s)"
                )
        best = max(found, key=lambda each: _quality(found[each], wanted))
        if best == place:
            return Tuned(way, first * STEP**place, found[place])
        place = best


def study(
    kind: str, data: tuple[Batch, Batch], epochs: int, ways: Sequence[Way], say: Say
) -> tuple[float, list[Tuned]]:
    """Return the AUC that counts as equal to that of the first way, and the ways, tuned."""
    runs: dict[int, Trajectory] = {}
    wanted = tune(ways[0], kind, data, epochs, 1.0, say, runs).trajectory.best.auc - EQUAL
    return wanted, [tune(way, kind, data, epochs, wanted, say, runs if way is ways[0] else {}) for way in ways]


def report(kind: str, wanted: float, found: Sequence[Tuned], model_rows: int) -> str:
    """Return the ways as a table; the first is compared with."""
    base = found[0].trajectory
    reference = base.reach(wanted)
    assert reference is not None
    cells = [
        (
            f"{kind}, equal AUC: {wanted:.4f}",
            "rate",
            "rows kept, %",
            "rows sent, %",
            "kB a clock",
            "saved, %",
            "best AUC",
            "epochs to equal",
            "MB to equal",
            "saved, %",
        )
    ]
    for each in found:
        run, reached = each.trajectory, each.trajectory.reach(wanted)
        cells.append(
            (
                each.way.name,
                f"{each.rate:.3g}",
                f"{100 * run.residual_rows / model_rows:.1f}",
                f"{100 * run.sent_share:.0f}",
                f"{run.bytes_per_clock / 1e3:.1f}",
                f"{100 * (1 - run.bytes_per_clock / base.bytes_per_clock):.2f}",
                f"{run.best.auc:.4f}",
                f"{reached.epochs:.1f}" if reached else "-",
                f"{reached.bytes / 1e6:.1f}" if reached else "-",
                f"{100 * (1 - reached.bytes / reference.bytes):.2f}" if reached else "-",
            )
        )
    return align_columns(cells)


def draw(found: dict[str, tuple[float, list[Tuned]]], path: Path) -> None:
    """Plot held-out AUC over bytes, a panel for each kind of model, to a PNG."""
    matplotlib = require_extra("matplotlib", "plotting")
    matplotlib.use("Agg")
    pyplot = require_extra("matplotlib.pyplot", "plotting")
    figure, panels = pyplot.subplots(1, len(found), figsize=(6 * len(found), 5), layout="constrained", squeeze=False)
    try:
        for axes, (kind, (wanted, tuned)) in zip(panels[0], found.items(), strict=True):
            for each in tuned:
                points = each.trajectory.points
                axes.plot([p.bytes / 1e6 for p in points], [p.auc for p in points], ".-", label=each.way.name)
            axes.axhline(wanted, color="#777777", linestyle=":", label="equal AUC")
            axes.set(title=kind.upper(), xscale="log", xlabel="pushed, MB", ylabel="held-out AUC")
            axes.set_ylim(wanted - 0.03, None)
        panels[0][-1].legend(fontsize="small", loc="lower right")
        figure.savefig(path, dpi=150)
    finally:
        pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study, print a table for each kind of model, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.sparse.push_frontier", description="Bytes of compressed pushes against AUC."
    )
    add = parser.add_argument
    add("data", nargs="?", default="goodbooks", metavar="DATA", help="a data set or file (default: goodbooks)")
    add("--models", nargs="+", choices=KINDS, default=list(KINDS), help="default: both")
    add("--epochs", type=positive, default=EPOCHS, help=f"passes over the data at most (default: {EPOCHS})")
    add("--out", type=Path, metavar="PNG", help="plot AUC over bytes to this file")
    arguments = parser.parse_args(argv)
    try:
        data = parts(arguments.data)
        rows = len(np.unique(data[0].keys))
        print(f"{data[0].rows:,} rows to train on, {data[1].rows:,} held out, {rows:,} keys", flush=True)
        found = {}
        for kind in arguments.models:
            found[kind] = study(kind, data, arguments.epochs, WAYS, lambda line: print(line, flush=True))
        for kind, (wanted, tuned) in found.items():
            print(f"\n{report(kind, wanted, tuned, rows)}")
        if arguments.out is not None:
            draw(found, arguments.out)
    except BitlaneError as error:
        print(f"push_frontier: {error}", file=sys.stderr)
        return 2
    return 0


def _quality(run: Trajectory, wanted: float) -> tuple[bool, float]:
    """Return what tuning compares: the fewest bytes to the wanted AUC, else the highest AUC."""
    reached = run.reach(wanted)
    return (True, -reached.bytes) if reached else (False, run.best.auc)


if __name__ == "__main__":
    sys.exit(main())
