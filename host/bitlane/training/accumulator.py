"""Sums over the passes and launches of a training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bitlane.driver.job import Counters, JobResult, loss_value
from bitlane.quantization.scaling import Floats

from .checkpoint import Checkpoint, advanced
from .launches import Launch
from .losses import loss_unit
from .plan import ExecutionPlan
from .result import Bound, OnEpoch, Stalls, TrainingResult


class ResultAccumulator:
    """Sums over the passes and launches of a training.

    Parameters
    ----------
    checkpoint : Checkpoint
        Where the training begins.
    plan : ExecutionPlan
    on_epoch : callable, optional
        As for `bitlane.training.train.train`.

    Attributes
    ----------
    counters : Counters
        Sums so far.
    on_epoch : callable or None
        What a driver calls after each epoch.
    """

    def __init__(self, checkpoint: Checkpoint, plan: ExecutionPlan, on_epoch: OnEpoch | None):
        targets, stored = checkpoint.master.shape
        epochs = plan.epochs - plan.first_epoch
        self.counters = Counters(0, 0, 0, 0, 0)
        self.on_epoch = self._report if on_epoch else None
        self._user = on_epoch
        self._first = checkpoint
        self._plan = plan
        self._loss = np.zeros((epochs, targets))
        self._epoch_cycles = np.zeros(epochs, np.int64)
        self._master = checkpoint.master.copy()
        self._masters = np.zeros((epochs, targets, stored), np.int32) if plan.snapshots else None
        self._launches = self._passes = self._encoding_cycles = 0

    def begin(self, targets: NDArray[np.intp]) -> None:
        """Begin a pass over the data with these targets, which the first outputs train."""
        self._passes += 1
        self._targets = targets
        with np.errstate(over="ignore"):  # the loss is infinite then
            self._unit = loss_unit(self._first.options.objective.loss, self._first.scaling.label_unit[targets])
        self._cycles = self._ended = 0
        self._partial = np.zeros(len(targets), np.int64)

    def add(self, launch: Launch, result: JobResult) -> None:
        """Add the result of a launch."""
        before, self._cycles = self._cycles, self._cycles + result.counters.cycles
        self._launches += 1
        self._encoding_cycles += launch.encoding_cycles
        self.counters += result.counters
        losses = result.loss[:, : len(self._targets)]
        if not launch.ends_epoch:
            self._partial += losses[0]
            return
        epochs = slice(self._ended, self._ended + len(losses))
        self._loss[epochs, self._targets] = self._mean(self._partial + losses)
        self._epoch_cycles[epochs] += before + result.epoch_cycles
        self._partial[:] = 0
        self._ended = epochs.stop
        models = result.state.master[None] if result.snapshots is None else result.snapshots
        self._master[self._targets] = models[-1, : len(self._targets)]
        if self._masters is not None:
            self._masters[epochs, self._targets] = models[:, : len(self._targets)]
        if self._user and not launch.covers_all_rows:
            self._user(self._first.epoch + self._ended - 1, float(self._loss[self._ended - 1, self._targets].mean()))

    def result(self, device: str) -> TrainingResult:
        """Return the result of the training, on the device of this name, without its times."""
        checkpoint, plan, counters, geometry = self._first, self._plan, self.counters, self._plan.geometry
        settings = tuple(advanced(each, len(self._loss), geometry.batches) for each in checkpoint.settings)
        last = replace(checkpoint, epoch=plan.epochs, master=self._master, settings=settings)
        epochs = len(self._loss)
        return TrainingResult(
            loss=self._loss[:, 0] if len(settings) == 1 else self._loss,
            bits=np.full(epochs, checkpoint.options.precision.bits),
            epoch_bytes=np.full(epochs, counters.beats * geometry.beat_bytes // epochs),
            cycles=counters.cycles,
            encoding_cycles=self._encoding_cycles,
            epoch_cycles=self._epoch_cycles,
            beats=counters.beats,
            stalls=Stalls(counters.stall_memory, counters.stall_model),
            bound=Bound(epochs * self._passes * geometry.raw_bound, epochs * self._passes * geometry.layout_bound),
            saturations=counters.saturations,
            launches=self._launches,
            passes=self._passes,
            seconds=0.0,
            phases={},
            device=device,
            geometry=geometry,
            _first=checkpoint,
            _last=last,
            _masters=self._masters,
        )

    def _report(self, epoch: int, losses: NDArray[np.int64]) -> None:
        """Report an epoch of the current launch."""
        if self._user:
            loss = self._mean(losses[: len(self._targets)]).mean()
            self._user(self._first.epoch + self._ended + epoch, float(loss))

    def _mean(self, losses: NDArray[np.int64]) -> Floats:
        """Loss integers [..., targets] as mean losses, in user units."""
        return np.asarray(losses * loss_value(1) / self._plan.geometry.rows * self._unit)
