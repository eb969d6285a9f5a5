"""Trainings whose epochs differ in their bits: a policy chooses them before each epoch, or a plan before the first.

On the accelerator the bits are a register; the samples are encoded again. Each epoch is that of a training with these
bits, resumed from the epoch before: the same weights, scales and draws, bit for bit. That is possible with double
sampling and uniform levels only, whose scales do not depend on the bits. The learning rate is the automatic one of the
epoch's bits, decayed as often as epochs have ended; a rate that is given is that of all bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from bitlane.contract.precision import FULL_BITS, Precision
from bitlane.devices.protocol import Device
from bitlane.driver.driver import Driver
from bitlane.errors import DataError
from bitlane.levels.codebooks import choose_precision
from bitlane.policies.mqgrad import MQGrad
from bitlane.policies.protocol import BitPolicy, Observation
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.support.phases import PhaseClock

from .bit_plan import BitPlan, plan_bits
from .checkpoint import Checkpoint
from .forecast import Forecast
from .learning_rate import automatic_rates
from .options import TrainingOptions
from .result import OnEpoch, TrainingResult, joined
from .train import InitialModel, Rows, first_settings, prepare, train_rows, warn_if_saturated

# A training has fewer epochs than a network has steps: choose every two epochs, and smooth losses over about as many.
MQGRAD = MQGrad(choices=(2, 4, 6, 8), period=2, smoothing=0.5, scale=10.0)


BY_NAME: Mapping[str, BitPolicy | BitPlan] = {"mqgrad": MQGRAD, "adaptive": BitPlan()}


def policy_of(bits: int | str | BitPolicy | BitPlan) -> BitPolicy | BitPlan | None:
    """Return what an estimator's `bits` names; None for a number, DataError for an unknown word."""
    if isinstance(bits, str):
        if bits not in BY_NAME:
            raise DataError(f"bits={bits!r}: give a number, 'adaptive', 'mqgrad', or a policy")
        return BY_NAME[bits]
    return None if isinstance(bits, int) or not hasattr(bits, "choices") else bits


def train_by_policy(
    X: Matrix,
    y: Matrix,
    options: TrainingOptions,
    device: Device,
    policy: BitPolicy | BitPlan,
    *,
    start: InitialModel | None = None,
    on_epoch: OnEpoch | None = None,
    snapshots: bool = False,
) -> TrainingResult:
    """Train as `train.train` does, with bits that a policy chooses before each epoch, or a plan before the first.

    After each epoch a policy gets the mean loss over targets, the clock cycles, and the root mean square of the change
    of the scaled weights.

    Parameters
    ----------
    X, y, options, device, start, on_epoch, snapshots
        As for `train.train`; of `options.precision` only the sampling counts.
    policy : BitPolicy or BitPlan

    Raises
    ------
    DataError
        Sampling or levels whose scales depend on the bits, bits that need codebooks, or a training that cannot be
        planned.
    """
    sampling, levels = options.precision.sampling, options.levels
    if sampling != "double" or levels != "uniform":
        raise DataError(f"sampling={sampling!r}, levels={levels!r}: a bit policy needs 'double' and 'uniform'")
    precisions = {bits: choose_precision(bits, sampling, levels) for bits in policy.choices}
    if any(precision.codebook for precision in precisions.values()):
        raise DataError(f"the policy chooses among {tuple(policy.choices)} bits: give it even numbers only")
    driver, clock = Driver(device), PhaseClock()
    with clock.during("prepare"):
        first, rows = prepare(X, y, replace(options, precision=precisions[min(precisions)]), [driver], start)
        targets = np.asarray(y).reshape(len(y), -1)
        rates = _rates(options, precisions, X, targets, first)
        epochs = _Epochs(first, rows, driver, precisions, rates, on_epoch, snapshots, clock)
        if isinstance(policy, BitPlan):
            plan = plan_bits(policy, Forecast.of(X, targets, first, precisions, rates, driver))
            for bits, alike in groupby(plan):
                epochs.train(bits, len(list(alike)))
        else:
            _follow(policy, epochs, options.epochs)
        run = replace(joined(epochs.runs), bit_policy=repr(policy))
        warn_if_saturated(run)
    return replace(run, seconds=sum(clock.seconds.values()), phases=clock.seconds)


def _rates(
    options: TrainingOptions, precisions: Mapping[int, Precision], X: Matrix, targets: Matrix, first: Checkpoint
) -> dict[int, float]:
    """Return the learning rate of the first epoch, by bits; that of 32 bits among them."""
    wanted = {**precisions, FULL_BITS: Precision(FULL_BITS, "full")}
    if isinstance(options.learning_rate, float):
        return dict.fromkeys(wanted, options.learning_rate)
    return dict(zip(wanted, automatic_rates(options, [*wanted.values()], X, targets, first.scaling), strict=True))


def _follow(policy: BitPolicy, epochs: _Epochs, count: int) -> None:
    """Train epochs with the bits that a policy chooses before each."""
    chooser = policy.start()
    weights: Floats | None = None
    for _ in range(count):
        run = epochs.train(chooser.bits, 1)
        before, weights = weights, run.weights
        chooser.after(_observed(run, before), lambda own: [own])


@dataclass(eq=False)
class _Epochs:
    """The epochs of a training so far, and all that the next ones need.

    Attributes
    ----------
    first : Checkpoint
        The state before the first epoch.
    rows, driver, on_epoch, snapshots, clock
        As for `train.train_rows`.
    precisions : mapping of int to Precision
        By bits.
    rates : mapping of int to float
        Learning rate of the first epoch, by bits.
    runs : list of TrainingResult
        Those of the epochs so far.
    """

    first: Checkpoint
    rows: Rows
    driver: Driver
    precisions: Mapping[int, Precision]
    rates: Mapping[int, float]
    on_epoch: OnEpoch | None
    snapshots: bool
    clock: PhaseClock
    runs: list[TrainingResult] = field(default_factory=list)

    def train(self, bits: int, epochs: int) -> TrainingResult:
        """Return the result of some more epochs with these bits."""
        state = self._state(bits, epochs)
        run = train_rows(
            state, self.rows, self.driver, on_epoch=self.on_epoch, snapshots=self.snapshots, clock=self.clock
        )
        self.runs.append(run)
        return run

    def _state(self, bits: int, epochs: int) -> Checkpoint:
        """Return the state after the last epoch, with the rate of these bits, decayed once for each epoch."""
        last = self.runs[-1].checkpoint() if self.runs else self.first
        options = replace(
            last.options, precision=self.precisions[bits], learning_rate=self.rates[bits], epochs=last.epoch + epochs
        )
        settings = []
        for before, now in zip(last.settings, first_settings(options, last.scaling, len(last.settings)), strict=True):
            for _ in range(last.epoch):
                now = now.after_epoch()
            settings.append(replace(now, phase=before.phase, seed=before.seed))
        return replace(last, options=options, settings=tuple(settings))


def _observed(run: TrainingResult, before: Floats | None) -> Observation:
    change = run.weights if before is None else run.weights - before
    return Observation(float(run.loss.mean()), float(run.cycles), lambda: float(np.sqrt((change**2).mean())))
