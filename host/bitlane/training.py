"""From a table to a trained model: scaling, quantizing, packing, and as many starts as memory demands."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .accelerator import Accelerator, Counters, Job, Outcome, loss_value
from .contract import (
    DECAY_RANGE,
    MASTER_OFFSET,
    MAX_EPOCHS,
    MAX_ROWS,
    RATE_FRACTION,
    SHRINK_SHIFTS,
    STEP_FRACTION,
    WEIGHT,
    WORD_BYTES,
)
from .devices.protocol import Device
from .errors import DataError
from .fixed import NO_DECAY, mantissa_exponent
from .layout import Geometry, weight_values
from .quantize import Precision
from .scaling import Scaling, Table, fit_scaling
from .starts import Plan, Samples, Start, State, starts

SATURATED = 1e-3  # clipped values a row read, from which on a run warns

OnEpoch = Callable[[int, float], None]


@dataclass(frozen=True)
class Stalls:
    """Cycles in which no word was taken: the next was not there yet (memory), or waited (model)."""

    memory: int
    model: int


@dataclass(frozen=True)
class Bound:
    """The fewest cycles at one 64-bit word a cycle: of the stored bits (raw), with padding (layout)."""

    raw: float
    layout: float


@dataclass(eq=False)
class Run:
    """What a training run computed and what it cost.

    Parameters
    ----------
    loss: float64 [epochs], mean squared residual while the epoch ran, in the label's units squared. Double
        sampling estimates that of the unquantized samples without bias, so a value may be below 0.
    cycles: clock cycles of all starts.
    epoch_cycles: int64 [epochs], clock cycles from the beginning to the end of each epoch.
    beats: 64-bit words read.
    bytes_read: the same in bytes.
    stalls, bound: see `Stalls`, `Bound`; for the whole run.
    saturations: values that were clipped.
    starts: how often the accelerator was started.
    seconds: host time, everything included.
    device: its name.
    settings: what the run was asked for, and the step and rate that the registers could hold.
    scaling: between scaled and user units.
    weights: float64 [n], scaled units, at the end.
    snapshots: float64 [epochs, n], scaled units, after each epoch; None unless asked for.
    coef, intercept: float64 [n] and float, user units.
    """

    loss: NDArray[np.float64]
    cycles: int
    epoch_cycles: NDArray[np.int64]
    beats: int
    stalls: Stalls
    bound: Bound
    saturations: int
    starts: int
    seconds: float
    device: str
    settings: dict[str, Any]
    scaling: Scaling
    weights: NDArray[np.float64]
    snapshots: NDArray[np.float64] | None
    coef: NDArray[np.float64] = field(init=False)
    intercept: float = field(init=False)

    def __post_init__(self) -> None:
        self.coef, self.intercept = self.scaling.coefficients(self.weights[self.scaling.active])

    @property
    def bytes_read(self) -> int:
        return self.beats * WORD_BYTES


def train(
    X: Table,
    y: Table,
    *,
    precision: Precision,
    device: Device,
    draws: str | int = "epoch",
    epochs: int = 20,
    batch_size: int = 16,
    learning_rate: float = 0.1,
    decay: float = 1.0,
    alpha: float = 0.0,
    fit_intercept: bool = True,
    seed: int = 0,
    on_epoch: OnEpoch | None = None,
    snapshots: bool = False,
) -> Run:
    """Trains a linear model by mini-batch SGD on `1/2 mean(residual**2) + alpha/2 |w|**2`.

    w and the residuals of this objective are scaled (`scaling.py`). The gradient of a sample is that of
    double sampling with both orders averaged (ZipML, eq. 6), or of its one stored copy. The result does not
    depend on the capacity of the device: what does not fit goes in several starts, with the same bits.

    Parameters
    ----------
    X: integers or floats [rows, n], finite, not all columns constant.
    y: integers or floats [rows], finite.
    precision: of the stored samples.
    device: an open device.
    draws: random sets that the epochs go through in turn: "once" (1), "epoch" (a new one each) or a number.
        Set k is drawn from `default_rng([seed, k])`. Nearest and full sampling draw nothing.
    epochs, batch_size: 1 or more. A partial last batch steps by its share of a batch.
    learning_rate: below `8 * batch_size`; of a batch's mean gradient.
    decay: factor on the learning rate after each epoch, 0.5 to 1.
    alpha: L2 penalty, 0 or more; `alpha * learning_rate` must be below 1/16.
    fit_intercept: whether columns and labels are centered.
    seed: 0 or more.
    on_epoch: called with the number of each epoch, from 0, and its loss.
    snapshots: whether to keep the weights of each epoch.

    Raises
    ------
    DataError: a value that cannot be used.
    DeviceError: the device failed.
    """
    began = time.perf_counter()
    scaling = fit_scaling(X, y, fit_intercept, precision.limit)
    features = len(scaling.active)
    if not features:
        raise DataError("every column of X is constant: there is nothing to learn from")
    if features < X.shape[1]:
        warnings.warn(f"{X.shape[1] - features} column(s) of X are constant: their weights are 0", stacklevel=4)
    geometry = Geometry(features, len(y), precision.base_digits, precision.draws)
    batch = _whole("batch_size", batch_size, MAX_ROWS)
    plan = Plan(
        geometry=geometry,
        epochs=_whole("epochs", epochs, MAX_EPOCHS),
        batch=batch,
        sets=_sets(draws, precision, epochs),
        shared_base=precision.sampling != "naive",
        snapshots=snapshots,
        capacity=device.capacity_bytes,
    )
    state = _initial_state(features, learning_rate / batch, decay, alpha * learning_rate)
    accelerator = Accelerator(device)
    accelerator.check(geometry)

    totals = _Totals(geometry.rows, scaling.label_unit, on_epoch)
    for start in starts(plan, Samples(X, y, scaling, precision, seed)):
        job = start.job(plan, state)
        outcome = accelerator.run(job, totals.on_epoch if start.whole else None)
        totals.add(start, job, outcome)
        state = replace(state, master=outcome.master, step=outcome.step, rate=outcome.rate, phase=outcome.phase)

    counters = totals.counters
    _warn_if_saturated(counters.saturations, geometry.rows * epochs)
    return Run(
        loss=np.array(totals.losses),
        cycles=counters.cycles,
        epoch_cycles=np.array(totals.epoch_cycles, np.int64),
        beats=counters.beats,
        stalls=Stalls(counters.stall_memory, counters.stall_model),
        bound=Bound(epochs * geometry.raw_bound, epochs * geometry.layout_bound),
        saturations=counters.saturations,
        starts=totals.starts,
        seconds=time.perf_counter() - began,
        device=device.name,
        settings={
            "bits": precision.bits,
            "sampling": precision.sampling,
            "sets": plan.sets,
            "epochs": epochs,
            "batch_size": batch,
            "learning_rate": learning_rate,
            "decay": decay,
            "alpha": alpha,
            "fit_intercept": fit_intercept,
            "seed": seed,
            "rows": geometry.rows,
            "features": features,
        },
        scaling=scaling,
        weights=scaling.expand(weight_values(state.master)),
        snapshots=scaling.expand(weight_values(np.stack(totals.models))) if snapshots else None,
    )


def _whole(name: str, value: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= most:
        raise DataError(f"{name}={value!r}: it must be a whole number from 1 to {most}")
    return int(value)


def _sets(draws: str | int, precision: Precision, epochs: int) -> int:
    """Random sets that are made: more than one for what is random alone, and none that no epoch reads."""
    if isinstance(draws, str):
        if draws not in ("once", "epoch"):
            raise DataError(f"draws={draws!r}: choose 'once', 'epoch' or a number of sets")
        draws = 1 if draws == "once" else epochs
    sets = _whole("draws", draws, MAX_EPOCHS)
    return min(sets, epochs) if precision.sampling in ("double", "naive") else 1


def _initial_state(features: int, step: float, decay: float, shrinkage: float) -> State:
    """All weights 0; step of a row, decay an epoch, shrinkage a batch. DataError if no register holds one."""
    least, most = (limit / NO_DECAY for limit in DECAY_RANGE)
    if not least <= decay <= most:
        raise DataError(f"decay={decay}: the hardware takes {least:g} to {most:g}")
    fitting = [i for i, shift in enumerate(SHRINK_SHIFTS) if shrinkage >= 0 and _fits(shrinkage * 2.0**shift)]
    if not fitting:
        raise DataError(
            f"alpha * learning_rate is {shrinkage:g}: the hardware shrinks weights by 0 to "
            f"{2.0 ** -min(SHRINK_SHIFTS):g} a batch: lower alpha or learning_rate"
        )
    if not step > 0:
        raise DataError(f"learning_rate / batch_size is {step:g}: it must be above 0")
    shrink = fitting[0]
    rate = shrinkage * 2.0 ** SHRINK_SHIFTS[shrink]
    return State(
        master=np.full(features, MASTER_OFFSET, np.int32),
        step=mantissa_exponent(step, STEP_FRACTION, "learning_rate / batch_size"),
        rate=mantissa_exponent(rate, RATE_FRACTION, "alpha * learning_rate, in shrinks a batch,"),
        phase=0,
        shrink=shrink,
        decay=round(decay * NO_DECAY),
    )


def _fits(rate: float) -> bool:
    """Whether a rate is below 1 as its register rounds it."""
    return rate < 1 - 2.0 ** -(RATE_FRACTION + 1)


# --- what comes out ---
class _Totals:
    """Sums over the starts of a run."""

    def __init__(self, rows: int, label_unit: float, on_epoch: OnEpoch | None):
        self.losses: list[float] = []
        self.epoch_cycles: list[int] = []
        self.models: list[NDArray[np.int32]] = []
        self.counters = Counters(0, 0, 0, 0, 0)
        self.starts = 0
        self.on_epoch = self._report if on_epoch else None
        self._user = on_epoch
        self._rows = rows
        self._unit = label_unit
        self._partial = 0

    def add(self, start: Start, job: Job, outcome: Outcome) -> None:
        """Takes in what a start left."""
        before = self.counters.cycles
        self.starts += 1
        self.counters = Counters(
            *(a + b for a, b in zip(astuple(self.counters), astuple(outcome.counters), strict=True))
        )
        if not start.ends_epoch:
            self._partial += int(outcome.loss[0])
            return
        for loss, cycles in zip(outcome.loss.tolist(), outcome.epoch_cycles.tolist(), strict=True):
            self.losses.append(self._mean(self._partial + loss))
            self.epoch_cycles.append(before + cycles)
            self._partial = 0
        self.models += list(outcome.snapshots) if outcome.snapshots is not None else [outcome.master]
        if self._user and not start.whole:
            self._user(len(self.losses) - 1, self.losses[-1])

    def _report(self, epoch: int, loss: int) -> None:
        """An epoch of the start that runs now."""
        if self._user:
            self._user(len(self.losses) + epoch, self._mean(loss))

    def _mean(self, loss: int) -> float:
        return loss_value(loss) / self._rows * self._unit**2


def _warn_if_saturated(saturations: int, rows: int) -> None:
    if saturations > SATURATED * rows:
        warnings.warn(
            f"{saturations} values were clipped in {rows} rows read: scaled weights or residuals reached "
            f"{-float(WEIGHT.minimum) * 2.0**-WEIGHT.fraction:g}, so training is likely to diverge: "
            "lower learning_rate, or raise alpha or bits",
            stacklevel=5,
        )
