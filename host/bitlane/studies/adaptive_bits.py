"""Measure what bits that change with the epoch save: `python -m bitlane.studies.adaptive_bits`.

Every data set at hand is trained as least squares with the defaults of `SGDRegressor` and `device="cpu"`: with 2, 4, 6,
8, 16 and 32 bits, with `bits="adaptive"`, and with MQGrad. Each number of bits has its own automatic learning rate. The
table shows the clock cycles until the loss on the table, the mean over ten seeds, is within 1 % of the final loss of 32
bits, over those of the best fixed bits chosen in hindsight. Every seed has its own order of rows. Sets with many rows
lend their first 20,000 in random order.
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane import SGDRegressor
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.support.text import align_columns

from .no_tuning import tables

FIXED = (2, 4, 6, 8, 16)
CHANGING = ("adaptive", "mqgrad")
WITHIN = 1.01
SEEDS = tuple(range(10))
HEADINGS = ("data set", "rows x features", "best fixed", "epochs", "others over it", "adaptive", "its bits", "mqgrad")


class Curve:
    """The loss after each epoch, over the cycles to it.

    Parameters
    ----------
    X : array [rows, n]
    y : array [rows]
    bits : int or str

    Attributes
    ----------
    loss, cycles : ndarray of float64, shape (epochs,)
        Means over seeds.
    bits : list of int
        Those of the first seed, by epochs.
    """

    def __init__(self, X: Matrix, y: Floats, bits: int | str):
        losses, cycles = [], []
        for seed in SEEDS:
            settings: dict[str, Any] = {"sampling": "full"} if bits == 32 else {}
            run = SGDRegressor(bits, device="cpu", random_state=seed, **settings).fit(X, y, snapshots=True).run_
            coef, intercept = run.models()
            losses.append(mean_squared_errors(X, y, coef, intercept))
            cycles.append(run.epoch_cycles)
            if seed == SEEDS[0]:
                self.bits = run.bits.tolist()
        self.loss, self.cycles = np.mean(losses, axis=0), np.mean(cycles, axis=0)

    def cycles_to(self, goal: float) -> float:
        """Return the cycles to the first epoch whose loss is at most `goal`; infinity if there is none."""
        reached = np.flatnonzero(self.loss <= goal)
        return float(self.cycles[reached[0]]) if len(reached) else np.inf

    def epochs_to(self, goal: float) -> int:
        """Return the epochs to it, or all."""
        reached = np.flatnonzero(self.loss <= goal)
        return int(reached[0]) + 1 if len(reached) else len(self.loss)


def mean_squared_errors(X: Matrix, y: Floats, coef: Floats, intercept: Floats) -> NDArray[np.float64]:
    """Return the loss of each model: coefficients [models, n] and intercepts [models]."""
    return np.array([np.mean((X @ one + start - y) ** 2) for one, start in zip(coef, intercept, strict=True)])


def row(name: str, X: Matrix, y: Floats) -> tuple[str, ...]:
    """Return a data set's row of the table."""
    goal = WITHIN * Curve(X, y, 32).loss[-1]
    fixed = {bits: Curve(X, y, bits) for bits in FIXED}
    best = min(fixed, key=lambda bits: fixed[bits].cycles_to(goal))
    least = fixed[best].cycles_to(goal)
    planned, learned = (Curve(X, y, word) for word in CHANGING)
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
