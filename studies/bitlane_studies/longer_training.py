"""Whether more epochs make a training worse: `python -m bitlane_studies.longer_training`.

Random tables, losses, bits from 2 to 8, epochs up to 1,000 and three schedules, with double sampling and the automatic
learning rate, on the device `cpu`. A case compares the training loss in float64 at the end with that of 20 epochs:

- derived: a decay of ``0.8**(20 / epochs)``, against a training of 20 epochs with the default decay of 0.8;
- constant: no decay. The weights wander at the floor of the noise, so the mean loss of the last eight epochs, one turn
  of the draw sets, is compared with that of epochs 13 to 20;
- slow: a decay of 0.9, 0.95 or 0.98, against the same training after 20 epochs.

A case is worse if its loss is more than 1 % higher, and by more than ``2**-12`` of the loss of a constant model: the
hardware shrinks weights by ``2**-6`` at a time, which costs its square.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.precision import Precision
from bitlane.devices.cpu import CpuDevice
from bitlane.devices.protocol import Device
from bitlane.evaluation.metrics import constant_loss, losses_of
from bitlane.support.text import align_columns
from bitlane.training.losses import LOSSES
from bitlane.training.objective import Objective
from bitlane.training.options import DECAY, TrainingOptions
from bitlane.training.train import train

Floats = NDArray[np.float64]

SHORT, LONGEST = 20, 1000  # epochs
TURN = 8  # epochs that read all draw sets
BITS = (2, 4, 6, 8)
SCHEDULES = ("derived", "constant", "slow")
SLOW = (0.9, 0.95, 0.98)
WORSE = 1.01  # ratio of the losses
SHRINK = 2.0**-12  # of the loss of a constant model
KINDS = ("gaussian", "collinear", "one-hot", "log-normal", "wide", "few rows")


@dataclass(frozen=True)
class LongerCase:
    """A table that was trained for 20 epochs and for more.

    Attributes
    ----------
    seed : int
    kind, loss, schedule : str
    bits, epochs : int
    short, long : float
        Training loss over that of a constant model, of 20 and of all epochs.
    """

    seed: int
    kind: str
    loss: str
    schedule: str
    bits: int
    epochs: int
    short: float
    long: float

    @property
    def ratio(self) -> float:
        """Loss of all epochs over that of 20."""
        return (self.long + SHRINK) / (self.short + SHRINK)

    @property
    def worse(self) -> bool:
        """Whether more epochs made the loss worse."""
        return self.long > WORSE * self.short + SHRINK


def random_table(rng: np.random.Generator) -> tuple[str, Floats, Floats]:
    """Return the kind of a random table, its rows [rows, n], and scores [rows] with noise, of variance 1 without it."""
    kind = KINDS[rng.integers(len(KINDS))]
    rows, n = int(rng.integers(300, 2000)), int(rng.integers(2, 40))
    if kind == "wide":
        rows, n = int(rng.integers(60, 200)), int(rng.integers(60, 250))
    elif kind == "few rows":
        rows = int(rng.integers(20, 100))
    X = rng.normal(size=(rows, n))
    if kind == "collinear":
        shared = rng.normal(size=(rows, max(1, n // 6)))
        X = shared[:, rng.integers(0, shared.shape[1], n)] + 10.0 ** rng.uniform(-2, -0.5) * X
    elif kind == "one-hot":
        skew = rng.uniform(1.3, 2.5)
        X = np.hstack([np.eye(k)[(rng.zipf(skew, rows) - 1) % k] for k in rng.integers(2, 30, 3)])
    elif kind == "log-normal":
        X = np.exp(rng.uniform(0.3, 1) * X)
    scores = X @ rng.normal(size=X.shape[1])
    scores = (scores - scores.mean()) / scores.std()
    return kind, X, scores + 10.0 ** rng.uniform(-1.5, 0.5) * rng.normal(size=rows)


def random_case(seed: int, device: Device) -> LongerCase:
    """Return a case that the seed chooses, trained on a device."""
    rng = np.random.default_rng(seed)
    kind, X, y = random_table(rng)
    loss, bits = str(rng.choice([*LOSSES])), int(rng.choice(BITS))
    schedule = SCHEDULES[rng.integers(len(SCHEDULES))]
    if loss != "squared_error":
        y = np.where(y > np.quantile(y, rng.choice([0.5, 0.5, 0.9])), 1.0, -1.0)
    epochs = int(np.exp(rng.uniform(np.log(2 * SHORT), np.log(LONGEST))))
    decay = {"derived": DECAY ** (SHORT / epochs), "constant": 1.0, "slow": float(rng.choice(SLOW))}[schedule]

    def losses(epochs: int, decay: float) -> Floats:
        options = TrainingOptions(
            Precision(bits), Objective(loss), epochs=epochs, decay=decay, shuffle=True, seed=seed % 2**32
        )
        run = train(X, y, options, device, snapshots=True)
        found: Floats = np.asarray(losses_of(X, y, *run.models(), loss)) / constant_loss(y, loss)
        return found

    long = losses(epochs, decay)
    short = losses(SHORT, DECAY) if schedule == "derived" else long[:SHORT]
    turn = TURN if schedule == "constant" else 1
    return LongerCase(seed, kind, loss, schedule, bits, epochs, *(float(each[-turn:].mean()) for each in (short, long)))


def summary(cases: Sequence[LongerCase]) -> list[list[str]]:
    """Return the table of the cases by loss and bits: how many are worse with each schedule, largest and mean ratio."""
    table = [["loss", "bits", *SCHEDULES, "largest ratio", "mean ratio"]]
    for loss in LOSSES:
        for bits in BITS:
            some = [case for case in cases if (case.loss, case.bits) == (loss, bits)]
            if not some:
                continue
            worse = []
            for schedule in SCHEDULES:
                of_schedule = [case.worse for case in some if case.schedule == schedule]
                worse.append(f"{sum(of_schedule)} of {len(of_schedule)}")
            ratios = np.array([case.ratio for case in some])
            table.append([loss, str(bits), *worse, f"{ratios.max():.3f}", f"{np.exp(np.log(ratios).mean()):.3f}"])
    return table


def main() -> int:
    """Print the cases that are worse, and the table. Return exit status 1 if there are any."""
    parser = argparse.ArgumentParser(description="Random trainings: the loss of many epochs over that of 20.")
    parser.add_argument("--runs", type=int, default=2000, help="number of cases (default: 2000)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first case (default: a fresh one)")
    arguments = parser.parse_args()
    first: int = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    warnings.simplefilter("ignore")
    cases = []
    with closing(CpuDevice()) as device:
        for seed in range(first, first + arguments.runs):
            cases.append(random_case(seed, device))
            if cases[-1].worse:
                print(f"{cases[-1].ratio:.3f}: {cases[-1]}", flush=True)
    print(align_columns(summary(cases)))
    worse = sum(case.worse for case in cases)
    print(f"{len(cases)} cases from seed {first}, {worse} worse, worst ratio {max(case.ratio for case in cases):.3f}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
