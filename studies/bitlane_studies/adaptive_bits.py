"""Measure what bits that change with the epoch save: `python -m bitlane_studies.adaptive_bits`.

Every data set at hand is trained as least squares with the defaults of `SGDRegressor` and `device="cpu"`: with 2, 4, 6,
8, 16 and 32 bits, with `bits="adaptive"`, and with MQGrad. Each number of bits has its own automatic learning rate. The
table shows the clock cycles until the loss on the table, the mean over ten seeds, is within 1 % of the final loss of 32
bits, over those of the best fixed bits chosen in hindsight. Every seed has its own order of rows. Sets with many rows
lend their first 20,000 in random order.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bitlane import SGDRegressor
from bitlane.contract.precision import FULL_BITS
from bitlane.evaluation.metrics import losses_of
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.support.text import align_columns

from .no_tuning import tables
from .several_devices import RateCurve

FIXED = (2, 4, 6, 8, 16)
CHANGING = ("adaptive", "mqgrad")
WITHIN = 1.01
SEEDS = tuple(range(10))
HEADINGS = ("data set", "rows x features", "best fixed", "epochs", "others over it", "adaptive", "its bits", "mqgrad")


@dataclass(frozen=True)
class BitsCurve(RateCurve):
    """Trainings with the same bits, or the same way to change them.

    Attributes
    ----------
    bits : list of int
        Those of the first seed, by epochs.
    """

    bits: list[int]


def curve(X: Matrix, y: Floats, bits: int | str) -> BitsCurve:
    """Train with each seed: losses and cycles are means."""
    settings: dict[str, Any] = {"sampling": "full"} if bits == FULL_BITS else {}
    runs = [
        SGDRegressor(bits, device="cpu", random_state=seed, **settings).fit(X, y, snapshots=True).run_ for seed in SEEDS
    ]
    return BitsCurve(
        rate=runs[0].settings["learning_rate"],
        loss=np.mean([losses_of(X, y, *run.models()) for run in runs], axis=0),
        cycles=np.mean([run.epoch_cycles for run in runs], axis=0),
        bits=runs[0].bits.tolist(),
    )


def row(name: str, X: Matrix, y: Floats) -> tuple[str, ...]:
    """Return a data set's row of the table."""
    goal = WITHIN * curve(X, y, FULL_BITS).loss[-1]
    fixed = {bits: curve(X, y, bits) for bits in FIXED}
    best = min(fixed, key=lambda bits: fixed[bits].cycles_to(goal))
    least = fixed[best].cycles_to(goal)
    planned, learned = (curve(X, y, word) for word in CHANGING)
    return (
        name,
        f"{len(X):,} x {X.shape[1]}",
        str(best),
        str(fixed[best].epochs_to(goal)),
        ", ".join(f"{bits}: {_ratio(fixed[bits].cycles_to(goal) / least)}" for bits in FIXED if bits != best),
        _ratio(planned.cycles_to(goal) / least),
        _runs(planned.bits[: planned.epochs_to(goal)]),
        _ratio(learned.cycles_to(goal) / least),
    )


def _ratio(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "never"


def _runs(bits: list[int]) -> str:
    """Return a list of bits as text: 2 2 4 as "2 x 2, 1 x 4"."""
    changes = [0, *(i for i in range(1, len(bits)) if bits[i] != bits[i - 1]), len(bits)]
    return ", ".join(f"{end - start} x {bits[start]}" for start, end in pairwise(changes))


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore", UserWarning)  # constant columns, and rates at which a training diverges
    rows = []
    for table in tables():
        rows.append(row(*table))
        print(", ".join(rows[-1]), flush=True)
    print(align_columns([HEADINGS, *rows]))


if __name__ == "__main__":
    main()
