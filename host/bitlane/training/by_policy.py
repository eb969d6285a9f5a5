"""Bits that a policy chooses anew for each epoch: on the accelerator they are a register, and samples are packed again.

Each epoch is that of a training with its bits, resumed from the epoch before: the same weights, registers, scales and
draws, bit for bit. With double sampling and uniform levels, and these alone, scales do not depend on the bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np

from bitlane.errors import DataError
from bitlane.levels.codebooks import choose_precision
from bitlane.policies.mqgrad import MQGrad
from bitlane.policies.protocol import BitPolicy, Observed
from bitlane.quantization.scaling import Floats, Matrix

from .checkpoint import Checkpoint
from .result import Bound, Stalls, TrainingResult
from .train import train

# Epochs are few beside the steps of a network: a choice every two, and losses smoothed over about as many.
MQGRAD = MQGrad(choices=(2, 4, 6, 8), period=2, smoothing=0.5, scale=10.0)


def policy_of(bits: int | str | BitPolicy) -> BitPolicy | None:
    """The policy that an estimator's `bits` asks for, None for a number. DataError for another word."""
    if bits == "mqgrad":
        return MQGRAD
    if isinstance(bits, str):
        raise DataError(f"bits={bits!r}: give a number, 'mqgrad', or a policy")
    return None if isinstance(bits, int) or not hasattr(bits, "start") else bits


def train_by_policy(
    X: Matrix,
    y: Matrix,
    *,
    policy: BitPolicy,
    sampling: str,
    levels: str,
    epochs: int,
    coef_init: Floats | None = None,
    intercept_init: Floats | None = None,
    **parameters: Any,
) -> TrainingResult:
    """`training.train` with bits that are chosen before each epoch; all other parameters are its own.

    The policy is told an epoch's mean loss over targets, its clock cycles, and the root mean square of the change of
    the scaled weights. DataError for sampling or levels whose scales depend on the bits.
    """
    if sampling != "double" or levels != "uniform":
        raise DataError(f"sampling={sampling!r}, levels={levels!r}: a bit policy needs 'double' and 'uniform'")
    precisions = {bits: choose_precision(bits, sampling, levels) for bits in policy.choices}
    if any(precision.level_slots for precision in precisions.values()):
        raise DataError(f"the policy chooses among {tuple(policy.choices)} bits: give it even numbers alone")
    chooser = policy.start()
    runs: list[TrainingResult] = []
    weights: Floats | None = None
    for epoch in range(epochs):
        precision = precisions[chooser.bits]
        first: dict[str, Any] = {"coef_init": coef_init, "intercept_init": intercept_init}
        if runs:
            first = {"resume": _with_bits(runs[-1].checkpoint(), precision.bits)}
        runs.append(train(X, y, precision=precision, levels=levels, epochs=epoch + 1, **first, **parameters))
        before, weights = weights, runs[-1].weights
        chooser.after(_observed(runs[-1], before), lambda own: [own])
    return joined(runs, repr(policy))


def _with_bits(checkpoint: Checkpoint, bits: int) -> Checkpoint:
    return replace(checkpoint, options=replace(checkpoint.options, bits=bits))


def _observed(run: TrainingResult, before: Floats | None) -> Observed:
    change = run.weights if before is None else run.weights - before
    return Observed(float(run.loss.mean()), float(run.cycles), lambda: float(np.sqrt((change**2).mean())))


def joined(runs: Sequence[TrainingResult], policy: str) -> TrainingResult:
    """The runs of consecutive epochs as one; its settings have the policy, and the bits of the last epoch."""
    cycles = np.cumsum([0, *(run.cycles for run in runs[:-1])])
    masters = [run._masters for run in runs if run._masters is not None]
    return replace(
        runs[-1],
        loss=np.concatenate([run.loss for run in runs]),
        bits=np.concatenate([run.bits for run in runs]),
        epoch_bytes=np.concatenate([run.epoch_bytes for run in runs]),
        cycles=sum(run.cycles for run in runs),
        epoch_cycles=np.concatenate([run.epoch_cycles + start for run, start in zip(runs, cycles, strict=True)]),
        beats=sum(run.beats for run in runs),
        stalls=Stalls(*map(sum, zip(*(astuple(run.stalls) for run in runs), strict=True))),
        bound=Bound(*map(sum, zip(*(astuple(run.bound) for run in runs), strict=True))),
        saturations=sum(run.saturations for run in runs),
        launches=sum(run.launches for run in runs),
        seconds=sum(run.seconds for run in runs),
        settings={**runs[-1].settings, "bit_policy": policy},
        _first=runs[0]._first,
        _masters=np.concatenate(masters) if masters else None,
    )
