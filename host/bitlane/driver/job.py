"""One run of the accelerator: its inputs and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.formats import LEVEL, LOSS
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.packing import Words
from bitlane.contract.state import ModelState
from bitlane.errors import DataError

PAGE = 4096  # bytes that devices round a buffer up to


@dataclass(frozen=True)
class Job:
    """One run of the accelerator.

    Parameters
    ----------
    geometry : Geometry
        Shape of an epoch.
    base_regions : sequence of uint64 arrays, each of ``geometry.base_words`` words
        One region that all draw sets share, or one for each set.
    draw_regions : sequence of uint64 arrays, each of ``geometry.draw_words`` words
        One region for each draw set; empty without double sampling.
    state : ModelState
        Weights and registers at the start. Steps are divided by the batch size already.
    epochs : int
        Epochs of this run. Epoch e reads draw set ``e mod draw_sets``.
    snapshots : bool, default=False
        Whether to store the weights of each epoch.
    levels : ndarray of int32, shape (2**b + 1, n), optional
        Codebook of each feature, in units of ``2**-16``; None for uniform levels.

    Raises
    ------
    DataError
        The levels have another shape than the geometry says, or exceed `formats.LEVEL`.
    """

    geometry: Geometry
    base_regions: Sequence[Words]
    draw_regions: Sequence[Words]
    state: ModelState
    epochs: int
    snapshots: bool = False
    levels: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        shape = (self.geometry.levels, self.geometry.features) if self.geometry.codebook else None
        actual = None if self.levels is None else self.levels.shape
        if actual != shape:
            raise DataError(f"levels has shape {actual}, but the geometry says {shape}")
        if self.levels is not None and (self.levels.min() < LEVEL.minimum or self.levels.max() > LEVEL.maximum):
            raise DataError(
                f"levels range from {self.levels.min()} to {self.levels.max()}, in units of 2**-{LEVEL.fraction}: "
                f"keep them within {LEVEL.minimum} and {LEVEL.maximum}"
            )

    @property
    def draw_sets(self) -> int:
        """Number of sets of samples that the epochs read in turn."""
        return max(len(self.base_regions), len(self.draw_regions))


@dataclass(frozen=True)
class Counters:
    """Counters of the hardware for one run.

    Attributes
    ----------
    cycles : int
        Clock cycles from start to done.
    beats : int
        Beats read.
    stall_memory, stall_model : int
        Cycles without a beat: the memory had none, or it waited for an update of the model.
    saturations : int
        Values clipped: residuals, scaled gradients, weights.
    """

    cycles: int
    beats: int
    stall_memory: int
    stall_model: int
    saturations: int

    def __add__(self, other: Counters) -> Counters:
        return Counters(
            self.cycles + other.cycles,
            self.beats + other.beats,
            self.stall_memory + other.stall_memory,
            self.stall_model + other.stall_model,
            self.saturations + other.saturations,
        )


@dataclass(frozen=True, eq=False)
class JobResult:
    """Result of one run.

    Attributes
    ----------
    loss : ndarray of int64, shape (epochs, outputs)
        Sums over rows, in units of ``2**-32``; `loss_value` converts them.
    epoch_cycles : ndarray of int64, shape (epochs,)
        Clock cycles from the start to the end of each epoch.
    state : ModelState
        Weights and registers at the end.
    snapshots : ndarray of int32, shape (epochs, outputs, n), or None
        Master weights after each epoch.
    counters : Counters
    """

    loss: NDArray[np.int64]
    epoch_cycles: NDArray[np.int64]
    state: ModelState
    snapshots: NDArray[np.int32] | None
    counters: Counters


def loss_value(loss: int) -> float:
    """Return the sum of a loss over rows as a number, from the integer that the hardware stores.

    `Loss.SQUARES` is without its factor 1/2.
    """
    return loss * 2.0**-LOSS.fraction


def job_bytes(geometry: Geometry, epochs: int, base_sets: int, draw_sets: int, snapshots: bool) -> int:
    """Return the bytes that the buffers of a job take on a device, with room on all ports for those of the first.

    Parameters
    ----------
    geometry : Geometry
    epochs : int
    base_sets, draw_sets : int
        Number of base regions and of draw regions.
    snapshots : bool
        Whether the weights of each epoch are stored.
    """
    models, ports = epochs if snapshots else 1, geometry.ports
    beats = [
        base_sets * geometry.base_words,
        draw_sets * geometry.draw_words,
        geometry.load_words,
        models * geometry.model_words,
    ]
    of_first_port = [*(words // ports for words in beats), epochs * geometry.record_words]
    return ports * sum(-(-words * WORD_BYTES // PAGE) * PAGE for words in of_first_port)
