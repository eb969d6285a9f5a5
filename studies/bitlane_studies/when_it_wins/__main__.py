"""Train MNIST with every program, side by side: `python -m bitlane_studies.when_it_wins`.

Least squares on the digits as numbers, 20 epochs, batches of 16, 64 and 1,024 rows, with bitlane's scaling, row order,
automatic learning rate and decay. Programs take turns in one process on one and on two cores, and the quickest fit of
each counts. Eight cores are a model, and the accelerator's seconds are predicted cycles at a stated clock: neither is
measured.
`python -m bitlane_studies.when_it_wins.gpu` has the GPU.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Sequence
from typing import Any

from bitlane.quantization.scaling import fit_scaling
from bitlane.support.text import align_columns
from bitlane_studies.command import run
from bitlane_studies.float_sgd import Floats

from .accelerator import CARDS, LINK_WRITE, PredictedBuild, encoder_table, pack_seconds, phase_table, shipped
from .programs import FLOAT, PACKED, MeasuredFit, cores, measure, on_several_cores
from .table import BATCHES, EPOCHS, ROWS, mnist

HEAD = ("batch", "program", "where", "million rows/s", "train, s", "all, s", "all over numpy", "loss over numpy")
MANY = 8  # cores of the model


def batch_lines(
    found: dict[tuple[str, int], MeasuredFit],
    rows: int,
    features: int,
    batch: int,
    builds: Sequence[PredictedBuild] = CARDS,
) -> list[tuple[str, ...]]:
    """Return the lines of a batch size below `HEAD`: measured programs, eight cores, the accelerator."""
    base = found[FLOAT, 1]

    def line(program: str, where: str, seconds: float, *others: str) -> tuple[str, ...]:
        cells = f"{EPOCHS * rows / seconds / 1e6:.2f}", f"{seconds:.3f}", *(others or ("-",) * 3)
        return (str(batch), program, where, *cells)

    lines = []
    for (name, count), fit in found.items():
        where = f"{count} core{'s' if count > 1 else ''}"
        ratios = f"{fit.seconds / base.seconds:.2f}", f"{fit.loss / base.loss:.4f}"
        lines.append(line(name, where, fit.train_seconds, f"{fit.seconds:.3f}", *ratios))
    updates = EPOCHS * -(-rows // batch)
    for name in (FLOAT, PACKED):
        lines.append(line(name, f"{MANY} cores, model", on_several_cores(found[name, 1].train_seconds, updates, MANY)))
    for build in (shipped(), *builds):
        for bits in (4, 8):
            where = f"{build.clock_mhz:.0f} MHz{'' if build.built else ' assumed'}, predicted"
            lines.append(line(f"{build.title}, {bits} bits", where, build.train(rows, features, batch, bits)))
    return lines


def compared(X: Floats, y: Floats, repeats: int) -> list[list[tuple[str, ...]]]:
    """Return three tables for X [rows, n] and y [rows]: all programs by batch size, and a fit by phase.

    In the second the host encodes, and in the third the encoders on the card.
    """
    features = len(fit_scaling(X, y[:, None]).active)
    table: list[tuple[str, ...]] = [HEAD]
    phases: list[tuple[str, ...]] = []
    encoders: list[tuple[str, ...]] = []
    with cores(1):
        pack = pack_seconds(X, y, repeats)
    for batch in BATCHES:
        found = measure(X, y, batch, repeats)
        table += batch_lines(found, len(X), features, batch)
        of_batch: list[tuple[Any, ...]] = phase_table(found[PACKED, 1].phases, len(X), features, batch)
        phases += [("batch", *of_batch[0])] if not phases else []
        phases += [(str(batch), *cells) for cells in of_batch[1:]]
        of_batch = encoder_table({**found[PACKED, 1].phases, "pack": pack}, len(X), features, batch)
        encoders += [("batch", *of_batch[0])] if not encoders else []
        encoders += [(str(batch), *cells) for cells in of_batch[1:]]
    return [table, phases, encoders]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Train MNIST with every program, side by side.")
    parser.add_argument("--repeats", type=int, default=3, help="fits that count (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of MNIST (default: %(default)s)")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", UserWarning)  # constant columns
    load = os.getloadavg()[0]
    everything, phases, encoders = compared(*mnist(options.rows), options.repeats)
    print(f"load of this machine before: {load:.1f}; other programs on its cores disturb seconds more than ratios")
    print(align_columns(everything, left=3))
    print(f"\nA fit with 4 bits by phase; the host encodes, and the link to a card takes {LINK_WRITE / 1e9:.1f} GB/s")
    print(align_columns(phases, left=2))
    print("\nThe same with encoders on the card")
    print(align_columns(encoders, left=2))


if __name__ == "__main__":
    run(main)
