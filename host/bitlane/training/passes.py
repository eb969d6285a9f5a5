"""Passes over the data: the targets that share one, and what it starts with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.packing import master_weights
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.quantization.scaling import Matrix

from .checkpoint import Checkpoint
from .samples import SampleEncoder


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows of a data set, in the order in which they are read.

    Attributes
    ----------
    X : ndarray, shape (rows, n)
    y : ndarray, shape (rows, targets)
    first : int, default=0
        Number of the first row in the data set. Draws depend on the number of a row.
    """

    X: Matrix
    y: Matrix
    first: int = 0

    def some_rows(self, rows: range) -> TrainingRows:
        """Return some of these rows, without a copy."""
        some = slice(rows.start, rows.stop)
        return TrainingRows(self.X[some], self.y[some], self.first + rows.start)


def passes(settings: Sequence[Settings], outputs: int) -> list[NDArray[np.intp]]:
    """Return which targets share a pass over the data: arrays of 1 to `outputs` targets with the same registers.

    Parameters
    ----------
    settings : sequence of Settings
        Registers of each target.
    outputs : int
        Models that the device trains at a time.
    """
    together: dict[Settings, list[int]] = {}
    for target, registers in enumerate(settings):
        together.setdefault(registers, []).append(target)
    return [
        np.array(alike[start : start + outputs], np.intp)
        for alike in together.values()
        for start in range(0, len(alike), outputs)
    ]


def start_of_pass(
    rows: TrainingRows, targets: NDArray[np.intp], first: Checkpoint, outputs: int
) -> tuple[SampleEncoder, ModelState]:
    """Return the encoder and the first state of a pass for some of the targets; outputs without one learn labels of 0.

    Parameters
    ----------
    rows : TrainingRows
    targets : int array
        One of `passes`.
    first : Checkpoint
        State of all targets before the pass.
    outputs : int
        Models that the device trains at a time.
    """
    scaling, options = first.scaling.for_targets(targets, outputs), first.options
    labels = np.zeros((len(rows.y), outputs))
    labels[:, : len(targets)] = rows.y[:, targets]
    master = master_weights(np.zeros((outputs, first.scaling.stored_features)))
    master[: len(targets)] = first.master[targets]
    encoder = SampleEncoder(
        rows.X, labels, scaling, options.precision, options.seed, first.levels, first_row=rows.first
    )
    return encoder, ModelState(master, first.settings[targets[0]])
