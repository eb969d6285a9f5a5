"""Trainings whose bits a policy chooses before each epoch.

On the accelerator the bits are a register; the samples are encoded again. Each epoch is that of a training with these
bits, resumed from the epoch before: the same weights, registers, scales and draws, bit for bit. That is possible with
double sampling and uniform levels only, whose scales do not depend on the bits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitlane.contract.precision import Precision
from bitlane.devices.protocol import Device
from bitlane.errors import DataError
from bitlane.levels.codebooks import choose_precision
from bitlane.policies.mqgrad import MQGrad
from bitlane.policies.protocol import BitPolicy, Observation
from bitlane.quantization.ranges import TableRanges
from bitlane.quantization.scaling import Floats, Matrix

from .checkpoint import Checkpoint
from .learning_rate import with_learning_rate
from .options import AUTO, TrainingOptions
from .result import OnEpoch, TrainingResult, joined
from .train import InitialModel, scaling_of, train

# A training has fewer epochs than a network has steps: choose every two epochs, and smooth losses over about as many.
MQGRAD = MQGrad(choices=(2, 4, 6, 8), period=2, smoothing=0.5, scale=10.0)


def policy_of(bits: int | str | BitPolicy) -> BitPolicy | None:
    """Return the policy that an estimator's `bits` names; None for a number, DataError for an unknown word."""
    if bits == "mqgrad":
        return MQGRAD
    if isinstance(bits, str):
        raise DataError(f"bits={bits!r}: give a number, 'mqgrad', or a policy")
    return None if isinstance(bits, int) or not hasattr(bits, "start") else bits


def train_by_policy(
    X: Matrix,
    y: Matrix,
    options: TrainingOptions,
    device: Device,
    policy: BitPolicy,
    *,
    start: InitialModel | None = None,
    on_epoch: OnEpoch | None = None,
    snapshots: bool = False,
) -> TrainingResult:
    """Train as `train.train` does, with bits that a policy chooses before each epoch.

    After each epoch the policy gets the mean loss over targets, the clock cycles, and the root mean square of the
    change of the scaled weights.

    Parameters
    ----------
    X, y, options, device, start, on_epoch, snapshots
        As for `train.train`; of `options.precision` only the sampling counts.
    policy : BitPolicy

    Raises
    ------
    DataError
        Sampling or levels whose scales depend on the bits, or bits that need codebooks.
    """
    sampling, levels = options.precision.sampling, options.levels
    if sampling != "double" or levels != "uniform":
        raise DataError(f"sampling={sampling!r}, levels={levels!r}: a bit policy needs 'double' and 'uniform'")
    precisions = {bits: choose_precision(bits, sampling, levels) for bits in policy.choices}
    if any(precision.codebook for precision in precisions.values()):
        raise DataError(f"the policy chooses among {tuple(policy.choices)} bits: give it even numbers only")
    if options.learning_rate == AUTO:  # a rate that suits the fewest bits, the noisiest, suits all
        targets, fewest = np.asarray(y).reshape(len(y), -1), replace(options, precision=precisions[min(precisions)])
        options = with_learning_rate(fewest, X, targets, scaling_of(TableRanges.of(X, targets), fewest))
    chooser = policy.start()
    runs: list[TrainingResult] = []
    weights: Floats | None = None
    for epoch in range(options.epochs):
        precision = precisions[chooser.bits]
        current = replace(options, precision=precision, epochs=epoch + 1)
        first = _with_precision(runs[-1].checkpoint(), precision) if runs else start
        runs.append(train(X, y, current, device, start=first, on_epoch=on_epoch, snapshots=snapshots))
        before, weights = weights, runs[-1].weights
        chooser.after(_observed(runs[-1], before), lambda own: [own])
    return replace(joined(runs), bit_policy=repr(policy))


def _with_precision(checkpoint: Checkpoint, precision: Precision) -> Checkpoint:
    return replace(checkpoint, options=replace(checkpoint.options, precision=precision))


def _observed(run: TrainingResult, before: Floats | None) -> Observation:
    change = run.weights if before is None else run.weights - before
    return Observation(float(run.loss.mean()), float(run.cycles), lambda: float(np.sqrt((change**2).mean())))
