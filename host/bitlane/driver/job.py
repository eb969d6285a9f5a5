"""One run of the accelerator: what it is given, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.formats import LEVEL, LOSS
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.packing import Words
from bitlane.contract.settings import Settings
from bitlane.devices.protocol import Buffer, Device
from bitlane.errors import DataError

PAGE = 4096  # what devices round a buffer up to


@dataclass(frozen=True)
class Job:
    """One start of the accelerator.

    Parameters
    ----------
    geometry: of an epoch.
    base: base regions, uint64 [base_words] each: one that all sets share, or one a set.
    draws: draw regions, uint64 [draw_words] each, one a set; empty without double sampling.
    master: int32 [outputs, n], stored master weights to begin with.
    epochs: of this start. Epoch e reads set `e mod sets`.
    settings: at the beginning; steps are divided by the batch already.
    snapshots: whether the models of each epoch are wanted.
    levels: int32 [2**b + 1, n], the features' tables, in units of 2**-16; None without tables.

    Raises
    ------
    DataError: levels of another shape than the geometry's, or beyond `contract.LEVEL`.
    """

    geometry: Geometry
    base_regions: Sequence[Words]
    draw_regions: Sequence[Words]
    master: NDArray[np.int32]
    epochs: int
    settings: Settings
    snapshots: bool = False
    levels: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        shape = (self.geometry.levels, self.geometry.features) if self.geometry.codebook else None
        found = None if self.levels is None else self.levels.shape
        if found != shape:
            raise DataError(f"levels has shape {found}, but the geometry says {shape}")
        if self.levels is not None and (self.levels.min() < LEVEL.minimum or self.levels.max() > LEVEL.maximum):
            raise DataError(
                f"levels go from {self.levels.min()} to {self.levels.max()}, in units of 2**-{LEVEL.fraction}: "
                f"keep them within {LEVEL.minimum} and {LEVEL.maximum}"
            )

    @property
    def draw_sets(self) -> int:
        """Sets that the epochs go through."""
        return max(len(self.base_regions), len(self.draw_regions))


@dataclass(frozen=True)
class SampleBuffers:
    """Buffers for the samples of a job; None where it has none."""

    device: Device
    base: Buffer | None
    draws: Buffer | None

    def fill(self, base: Sequence[Words], draws: Sequence[Words]) -> None:
        """Writes regions one behind the other, from the beginning of each buffer on."""
        for buffer, regions in ((self.base, base), (self.draws, draws)):
            if buffer is not None:
                start = 0
                for region in regions:
                    buffer.array[start : start + len(region)] = region
                    start += len(region)
                self.device.flush(buffer)


@dataclass(frozen=True)
class Counters:
    """What the hardware counted in a run."""

    cycles: int
    beats: int
    stall_memory: int
    stall_model: int
    saturations: int


@dataclass(frozen=True)
class JobResult:
    """What a run left behind.

    Parameters
    ----------
    loss: int64 [epochs, outputs], sum over rows in units of 2**-32; `loss_value` makes numbers of it.
    epoch_cycles: int64 [epochs], cycles from the start to the end of each epoch.
    master: int32 [outputs, n], stored master weights at the end.
    snapshots: int32 [epochs, outputs, n] after each epoch, or None.
    settings: to go on with: the job's, with steps and rate as decayed and the phase as advanced.
    counters: see `Counters`.
    """

    loss: NDArray[np.int64]
    epoch_cycles: NDArray[np.int64]
    master: NDArray[np.int32]
    snapshots: NDArray[np.int32] | None
    settings: Settings
    counters: Counters


def loss_value(loss: int) -> float:
    """The sum of a loss over rows, of the integer that the hardware stored; of `Loss.SQUARES` without its 1/2."""
    return loss * 2.0**-LOSS.fraction


def job_bytes(geometry: Geometry, epochs: int, base_sets: int, draw_sets: int, snapshots: bool) -> int:
    """Bytes that the buffers of a job take on a device."""
    models = epochs if snapshots else 1
    sizes = [
        base_sets * geometry.base_words * WORD_BYTES,
        draw_sets * geometry.draw_words * WORD_BYTES,
        geometry.load_words * WORD_BYTES,
        models * geometry.model_bytes,
        epochs * geometry.record_words * WORD_BYTES,
    ]
    return sum(-(-size // PAGE) * PAGE for size in sizes)
