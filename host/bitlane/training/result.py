"""What a training run computed and what it cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.packing import weight_values
from bitlane.errors import DataError
from bitlane.levels.codebooks import codebook_values
from bitlane.quantization.scaling import Floats, Scaling

from .checkpoint import Checkpoint, advanced

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
class TrainingResult:
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
    rows_per_beat: int
    stalls: Stalls
    bound: Bound
    saturations: int
    launches: int
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
        return None if table is None else self.scaling.columns(codebook_values(table))

    @property
    def bytes_read(self) -> int:
        """Bytes of the beats."""
        return self.beats * self.rows_per_beat * WORD_BYTES

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
