"""What a training run computed and what it cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .accelerator import Counters, Outcome, loss_value
from .checkpoint import Checkpoint, advanced
from .contract import WORD_BYTES
from .errors import DataError
from .layout import weight_values
from .levels.tables import level_values
from .scaling import Floats, Scaling
from .starts import Plan, Start

OnEpoch = Callable[[int, float], None]


@dataclass(frozen=True)
class Stalls:
    """Cycles in which no beat was taken: the next was not there yet (memory), or waited (model)."""

    memory: int
    model: int


@dataclass(frozen=True)
class Bound:
    """The fewest cycles at one beat a cycle: of the stored bits (raw), with padding (layout)."""

    raw: float
    layout: float


@dataclass(eq=False)
class Run:
    """What a training run computed and what it cost, summed over passes where targets went in several.

    Of one target `[targets]` is left out of every shape. A resumed run tells of its own epochs alone.

    Parameters
    ----------
    loss: float64 [epochs, targets], mean loss while the epoch ran: squared residuals in the label's units
        squared, hinge loss, or log loss. Double sampling estimates the squared residual of the unquantized samples
        without bias, so a value may be below 0.
    bits: int64 [epochs], stored bits of a feature in each epoch.
    epoch_bytes: int64 [epochs], bytes read in each.
    cycles: clock cycles of all starts.
    epoch_cycles: int64 [epochs], clock cycles from the beginning to the end of each epoch.
    beats: words of the memory port's width read.
    columns: 64-bit words in a beat.
    stalls, bound: see `Stalls`, `Bound`; for the whole run.
    saturations: values that were clipped.
    starts, passes: how often the accelerator was started, and the data gone through.
    seconds: host time, everything included.
    device: its name.
    settings: what the run was asked for, and its shape.
    """

    loss: Floats
    bits: NDArray[np.int64]
    epoch_bytes: NDArray[np.int64]
    cycles: int
    epoch_cycles: NDArray[np.int64]
    beats: int
    columns: int
    stalls: Stalls
    bound: Bound
    saturations: int
    starts: int
    passes: int
    seconds: float
    device: str
    settings: dict[str, Any]
    _first: Checkpoint = field(repr=False)
    _last: Checkpoint = field(repr=False)
    _batches: int = field(repr=False)
    _masters: NDArray[np.int32] | None = field(repr=False)  # [epochs, targets, s]

    @property
    def first_epoch(self) -> int:
        """Epochs that ended before this run: 0 unless it was resumed."""
        return self._first.epoch

    @property
    def scaling(self) -> Scaling:
        """Between scaled and user units."""
        return self._last.scaling

    @property
    def levels(self) -> Floats | None:
        """Float64 [2**b + 1, n], user units: what stored samples are read as; None without a table of levels."""
        table = self._last.levels
        return None if table is None else self.scaling.columns(level_values(table))

    @property
    def bytes_read(self) -> int:
        """Bytes of the beats."""
        return self.beats * self.columns * WORD_BYTES

    @property
    def weights(self) -> Floats:
        """Float64 [targets, n], scaled units, at the end; a stored intercept is not among them."""
        return self._of_targets(self.scaling.expand(weight_values(self._last.master)), 0)

    @property
    def snapshots(self) -> Floats | None:
        """Float64 [epochs, targets, n], scaled units, after each epoch; None unless asked for."""
        if self._masters is None:
            return None
        return self._of_targets(self.scaling.expand(weight_values(self._masters)), 1)

    @property
    def coef(self) -> Floats:
        """Float64 [targets, n], user units."""
        return self._of_targets(self.scaling.coefficients(weight_values(self._last.master))[0], 0)

    @property
    def intercept(self) -> Floats:
        """Float64 [targets], user units."""
        return self._of_targets(self.scaling.coefficients(weight_values(self._last.master))[1], 0)

    def models(self) -> tuple[Floats, Floats]:
        """After each epoch: coefficients [epochs, targets, n] and intercepts [epochs, targets], user units.

        DataError for a run without snapshots.
        """
        if self._masters is None:
            raise DataError("the run was made without snapshots: ask for them to see its models after each epoch")
        coef, intercept = self.scaling.coefficients(weight_values(self._masters))
        return self._of_targets(coef, 1), self._of_targets(intercept, 1)

    def checkpoint(self, epoch: int | None = None) -> Checkpoint:
        """The state after `epoch` epochs, counted from the very first, or at the end.

        Raises
        ------
        DataError: an epoch that this run did not end, or one before the last without snapshots.
        """
        first, last = self._first, self._last
        if epoch is None or epoch == last.epoch:
            return last
        if not first.epoch < epoch < last.epoch:
            raise DataError(f"epoch={epoch}: this run ended epochs {first.epoch + 1} to {last.epoch}")
        if self._masters is None:
            raise DataError(f"epoch={epoch}: without snapshots a run keeps its last state alone, epoch {last.epoch}")
        ended = epoch - first.epoch
        settings = tuple(advanced(each, ended, self._batches) for each in first.settings)
        return replace(last, epoch=epoch, master=self._masters[ended - 1], settings=settings)

    @staticmethod
    def _of_targets(array: Floats, axis: int) -> Floats:
        """The axis of the targets left out where there is one."""
        squeezed: Floats = array.squeeze(axis)[()] if array.shape[axis] == 1 else array
        return squeezed


class Totals:
    """Sums over the passes and starts of a run.

    Parameters
    ----------
    first: where the run begins.
    plan: how it goes on.
    on_epoch: as for `training.train`.
    """

    def __init__(self, first: Checkpoint, plan: Plan, on_epoch: OnEpoch | None):
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

    def add(self, start: Start, outcome: Outcome) -> None:
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
        if self._user and not start.whole:
            self._user(self._first.epoch + self._ended - 1, float(self._loss[self._ended - 1, self._targets].mean()))

    def run(self, device: str, seconds: float) -> Run:
        """What the run was, on the device of that name, in so much host time."""
        first, plan, counters = self._first, self._plan, self.counters
        geometry = plan.geometry
        settings = tuple(advanced(each, len(self._loss), geometry.batches) for each in first.settings)
        last = replace(first, epoch=plan.epochs, master=self._master, settings=settings)
        epochs = len(self._loss) * self._passes
        return Run(
            loss=self._loss[:, 0] if len(settings) == 1 else self._loss,
            bits=np.full(len(self._loss), first.options.bits),
            epoch_bytes=np.full(len(self._loss), counters.beats * geometry.columns * WORD_BYTES // len(self._loss)),
            cycles=counters.cycles,
            epoch_cycles=self._epoch_cycles,
            beats=counters.beats,
            columns=geometry.columns,
            stalls=Stalls(counters.stall_memory, counters.stall_model),
            bound=Bound(epochs * geometry.raw_bound, epochs * geometry.layout_bound),
            saturations=counters.saturations,
            starts=self._starts,
            passes=self._passes,
            seconds=seconds,
            device=device,
            settings={
                **asdict(first.options),
                "epochs": plan.epochs,
                "sets": plan.sets,
                "rows": geometry.rows,
                "features": geometry.features,
                "columns": geometry.columns,
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
