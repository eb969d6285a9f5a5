"""Trainings whose bits change: a policy chooses them before each section of an epoch, or a plan before the first epoch.

On the accelerator the bits are a register; the samples are encoded again. Each section is that of a training with these
bits, which continues from the section before: the same weights, scales and draws, bit for bit. That is possible with
double sampling and uniform levels only, whose scales do not depend on the bits. The learning rate is the automatic one
of the section's bits, decayed as often as epochs have ended; a rate that is given is that of all bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

import numpy as np

from bitlane.contract.fixed_point import NO_DECAY
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
from .passes import TrainingRows
from .result import OnEpoch, TrainingResult, as_one_epoch, joined
from .ridge import class_balances, draw_ridges, ridge_that_fits
from .train import InitialModel, first_settings, prepare, train_rows, warn_if_saturated

SECTIONS = 20  # of an epoch: a policy chooses before each
MQGRAD = MQGrad(choices=(2, 4, 6, 8), smoothing=0.5, scale=1000.0)  # a training has fewer decisions than the paper's
BY_NAME: Mapping[str, BitPolicy | BitPlan] = {"mqgrad": MQGRAD, "adaptive": BitPlan()}


def policy_of(bits: int | str | BitPolicy | BitPlan) -> BitPolicy | BitPlan | None:
    """Return what an estimator's `bits` names; None for a number, DataError for an unknown word."""
    if isinstance(bits, str):
        if bits not in BY_NAME:
            raise DataError(f"bits={bits!r}: choose a number, 'adaptive', 'mqgrad' or a policy")
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
    """Train as `train.train` does, with bits that a policy chooses for each section, or a plan before the first epoch.

    An epoch has `SECTIONS` sections of complete batches, or one a batch if it has fewer batches. With staleness it has
    one, because the first batches of a section would read weights that are too new. After each section a policy gets
    its mean loss over rows and targets, the clock cycles, and the root mean square of the change of the scaled weights.

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
        raise DataError(f"the policy chooses among {tuple(policy.choices)} bits: use even numbers only")
    driver, clock = Driver(device), PhaseClock()
    with clock.during("prepare"):
        first, rows = prepare(X, y, replace(options, precision=precisions[min(precisions)]), [driver], start)
        targets = np.asarray(y).reshape(len(y), -1)
        rates, ridges = _rates_and_ridges(options, precisions, X, targets, first)
        epochs = _Epochs(first, rows, driver, precisions, rates, ridges, on_epoch, snapshots, clock)
        if isinstance(policy, BitPlan):
            plan = plan_bits(policy, Forecast.of(X, targets, first, precisions, rates, driver))
            for bits, alike in groupby(plan):
                epochs.train(bits, len(list(alike)))
        else:
            _follow(policy, epochs, options)
        run = replace(joined(epochs.runs), bit_policy=repr(policy))
        warn_if_saturated(run)
    return replace(run, seconds=sum(clock.seconds.values()), phases=clock.seconds)


def _rates_and_ridges(
    options: TrainingOptions, precisions: Mapping[int, Precision], X: Matrix, targets: Matrix, first: Checkpoint
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the learning rate of the first epoch and the ridge, by bits; those of 32 bits among them."""
    wanted = {**precisions, FULL_BITS: Precision(FULL_BITS, "full")}
    ridges = draw_ridges(options, [*wanted.values()], X, targets, first.scaling)
    if isinstance(options.learning_rate, float):
        rates = [options.learning_rate] * len(wanted)
    else:
        rates = automatic_rates(options, [*wanted.values()], X, targets, first.scaling, ridges)
    fitting = [
        ridge_that_fits(replace(options, learning_rate=rate), ridge) for rate, ridge in zip(rates, ridges, strict=True)
    ]
    return dict(zip(wanted, rates, strict=True)), dict(zip(wanted, fitting, strict=True))


def _follow(policy: BitPolicy, epochs: _Epochs, options: TrainingOptions) -> None:
    """Train epochs with the bits that a policy chooses before each of their sections."""
    chooser = policy.start()
    weights: Floats | None = None
    sections = sections_of(len(epochs.rows.X), options)
    for _ in range(options.epochs):
        runs = []
        for rows in sections:
            runs.append(epochs.train_section(chooser.bits, rows, ends_epoch=rows is sections[-1]))
            before, weights = weights, runs[-1].weights
            chooser.after(_observed(runs[-1], before), lambda own: [own])
        epochs.add(as_one_epoch(runs))


def sections_of(rows: int, options: TrainingOptions) -> list[range]:
    """Return the rows of each section of an epoch with a policy: complete batches, as equal as can be."""
    batches = -(-rows // options.batch_size)
    count = 1 if options.staleness else min(SECTIONS, batches)
    ends = [min(rows, options.batch_size * (batches * i // count)) for i in range(count + 1)]
    return [range(start, end) for start, end in pairwise(ends)]


@dataclass(eq=False)
class _Epochs:
    """The epochs of a training so far, and all that the next ones need.

    Attributes
    ----------
    last : Checkpoint
        The state now. Within an epoch it has the number of epochs that have ended.
    rows, driver, on_epoch, snapshots, clock
        As for `train.train_rows`.
    precisions : mapping of int to Precision
        By bits.
    rates : mapping of int to float
        Learning rate of the first epoch, by bits.
    ridges : mapping of int to float
        The ridge of the draws, by bits.
    runs : list of TrainingResult
        Those of the epochs so far.
    """

    last: Checkpoint
    rows: TrainingRows
    driver: Driver
    precisions: Mapping[int, Precision]
    rates: Mapping[int, float]
    ridges: Mapping[int, float]
    on_epoch: OnEpoch | None
    snapshots: bool
    clock: PhaseClock
    runs: list[TrainingResult] = field(default_factory=list)

    def train(self, bits: int, epochs: int) -> None:
        """Train some more epochs with these bits."""
        state = self._state(bits, epochs)
        run = train_rows(
            state, self.rows, self.driver, on_epoch=self.on_epoch, snapshots=self.snapshots, clock=self.clock
        )
        self.last = run.checkpoint()
        self.runs.append(run)

    def train_section(self, bits: int, rows: range, ends_epoch: bool) -> TrainingResult:
        """Return the result of a section of the next epoch with these bits; steps decay only at an epoch's end."""
        state = self._state(bits, 1)
        if not ends_epoch:
            state = replace(state, settings=tuple(replace(each, decay=NO_DECAY) for each in state.settings))
        run = train_rows(
            state, self.rows.some_rows(rows), self.driver, snapshots=self.snapshots and ends_epoch, clock=self.clock
        )
        self.last = run.checkpoint() if ends_epoch else replace(run.checkpoint(), epoch=state.epoch)
        return run

    def add(self, run: TrainingResult) -> None:
        """Add an epoch whose sections have been trained."""
        self.runs.append(run)
        if self.on_epoch is not None:
            self.on_epoch(run.first_epoch, float(run.loss.mean()))

    def _state(self, bits: int, epochs: int) -> Checkpoint:
        """Return the state now, with the rate of these bits, decayed once for each epoch that has ended."""
        last = self.last
        options = replace(
            last.options, precision=self.precisions[bits], learning_rate=self.rates[bits], epochs=last.epoch + epochs
        )
        settings, ridge = [], self.ridges[bits]
        ridges = [ridge_that_fits(options, ridge * share) for share in class_balances(options, self.rows.y)]
        fresh = first_settings(options, last.scaling, ridges)
        for before, now in zip(last.settings, fresh, strict=True):
            for _ in range(last.epoch):
                now = now.after_epoch()
            settings.append(replace(now, phase=before.phase, shrink_phase=before.shrink_phase, seed=before.seed))
        return replace(last, options=options, settings=tuple(settings), ridge=ridge)


def _observed(run: TrainingResult, before: Floats | None) -> Observation:
    change = run.weights if before is None else run.weights - before
    return Observation(float(run.loss.mean()), float(run.cycles), lambda: float(np.sqrt((change**2).mean())))
