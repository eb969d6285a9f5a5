"""Sums over the passes and launches of a training."""

from __future__ import annotations

from dataclasses import asdict, astuple, replace

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.layout import WORD_BYTES
from bitlane.driver.job import Counters, JobResult, loss_value
from bitlane.quantization.scaling import Floats

from .checkpoint import Checkpoint, advanced
from .launches import Launch
from .plan import ExecutionPlan
from .result import Bound, OnEpoch, Stalls, TrainingResult


class ResultAccumulator:
    """Sums over the passes and starts of a run.

    Parameters
    ----------
    first: where the run begins.
    plan: how it goes on.
    on_epoch: as for `training.train`.
    """

    def __init__(self, first: Checkpoint, plan: ExecutionPlan, on_epoch: OnEpoch | None):
        targets, stored = first.master.shape
        epochs = plan.epochs - plan.first_epoch
        self.counters = Counters(0, 0, 0, 0, 0)
        self.on_epoch = self._report if on_epoch else None
        self._user = on_epoch
        self._first = first
        self._plan = plan
        self._loss = np.zeros((epochs, targets))
        self._epoch_cycles = np.zeros(epochs, np.int64)
        self._master = first.master.copy()
        self._masters = np.zeros((epochs, targets, stored), np.int32) if plan.snapshots else None
        self._starts = self._passes = 0

    def begin(self, targets: NDArray[np.intp]) -> None:
        """A pass begins, of these targets in the first outputs."""
        self._passes += 1
        self._targets = targets
        self._unit = self._first.scaling.label_unit[targets] ** 2
        self._cycles = self._ended = 0
        self._partial = np.zeros(len(targets), np.int64)

    def add(self, start: Launch, outcome: JobResult) -> None:
        """Takes in what a start left."""
        before, self._cycles = self._cycles, self._cycles + outcome.counters.cycles
        self._starts += 1
        self.counters = Counters(
            *(a + b for a, b in zip(astuple(self.counters), astuple(outcome.counters), strict=True))
        )
        losses = outcome.loss[:, : len(self._targets)]
        if not start.ends_epoch:
            self._partial += losses[0]
            return
        epochs = slice(self._ended, self._ended + len(losses))
        self._loss[epochs, self._targets] = self._mean(self._partial + losses)
        self._epoch_cycles[epochs] += before + outcome.epoch_cycles
        self._partial[:] = 0
        self._ended = epochs.stop
        models = outcome.master[None] if outcome.snapshots is None else outcome.snapshots
        self._master[self._targets] = models[-1, : len(self._targets)]
        if self._masters is not None:
            self._masters[epochs, self._targets] = models[:, : len(self._targets)]
        if self._user and not start.covers_all_rows:
            self._user(self._first.epoch + self._ended - 1, float(self._loss[self._ended - 1, self._targets].mean()))

    def run(self, device: str, seconds: float) -> TrainingResult:
        """What the run was, on the device of that name, in so much host time."""
        first, plan, counters = self._first, self._plan, self.counters
        geometry = plan.geometry
        settings = tuple(advanced(each, len(self._loss), geometry.batches) for each in first.settings)
        last = replace(first, epoch=plan.epochs, master=self._master, settings=settings)
        epochs = len(self._loss) * self._passes
        return TrainingResult(
            loss=self._loss[:, 0] if len(settings) == 1 else self._loss,
            bits=np.full(len(self._loss), first.options.bits),
            epoch_bytes=np.full(
                len(self._loss), counters.beats * geometry.rows_per_beat * WORD_BYTES // len(self._loss)
            ),
            cycles=counters.cycles,
            epoch_cycles=self._epoch_cycles,
            beats=counters.beats,
            rows_per_beat=geometry.rows_per_beat,
            stalls=Stalls(counters.stall_memory, counters.stall_model),
            bound=Bound(epochs * geometry.raw_bound, epochs * geometry.layout_bound),
            saturations=counters.saturations,
            launches=self._starts,
            passes=self._passes,
            seconds=seconds,
            device=device,
            settings={
                **asdict(first.options),
                "epochs": plan.epochs,
                "draw_sets": plan.draw_sets,
                "rows": geometry.rows,
                "features": geometry.features,
                "rows_per_beat": geometry.rows_per_beat,
                "outputs": geometry.outputs,
            },
            _first=first,
            _last=last,
            _batches=geometry.batches,
            _masters=self._masters,
        )

    def _report(self, epoch: int, losses: NDArray[np.int64]) -> None:
        """An epoch of the start that runs now."""
        if self._user:
            loss = self._mean(losses[: len(self._targets)]).mean()
            self._user(self._first.epoch + self._ended + epoch, float(loss))

    def _mean(self, losses: NDArray[np.int64]) -> Floats:
        """Loss integers [..., targets] as mean losses, in user units."""
        return np.asarray(losses * loss_value(1) / self._plan.geometry.rows * self._unit)
