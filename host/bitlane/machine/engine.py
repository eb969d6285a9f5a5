"""The engine: a run of the accelerator, epoch by epoch, on the words as they lie in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import Words
from bitlane.contract.state import ModelState
from bitlane.reference.machine import EpochResult

from .library import CArrays, CRules, CShape, run_epoch
from .plan import PHASE, SATURATIONS, SEED, SHRINK_PHASE, arrays_of, rules_of, shape_of


class MachineEngine:
    """One run of the accelerator in machine code, with the bits of `bitlane.reference.machine.Reference`.

    Parameters
    ----------
    geometry : Geometry
        Shape of an epoch.
    state : ModelState
        Weights and registers at the start.
    levels : ndarray of int32, shape (levels, n), optional
        Codebook of each feature, in units of ``2**-16``; None for uniform levels.

    Raises
    ------
    LibraryError
        As from `bitlane.machine.library.run_epoch`.
    """

    def __init__(self, geometry: Geometry, state: ModelState, levels: NDArray[np.int32] | None = None):
        self._features = geometry.features
        shape = shape_of(geometry)
        self._shape = CShape(*shape)
        self._arrays = arrays_of(geometry, state, levels, shape)
        self._pointers = CArrays(*(array.ctypes.data for array in self._arrays))
        self._settings = state.settings
        self._run_epoch = run_epoch()

    def feed(self, base: Words, draws: Words | None) -> None:
        """Process the rows of an epoch: the words of a base region, and of a draw region if the rows have draws."""
        rules = CRules(*rules_of(self._settings, self._features))
        draws_at = None if draws is None else draws.ctypes.data
        self._run_epoch(self._shape, rules, self._pointers, base.ctypes.data, draws_at)

    def end_epoch(self) -> EpochResult:
        """Return the result of the epoch, and decay steps and penalty step."""
        counters = self._arrays.counters
        phase, shrink_phase, seed = (int(counters[index]) for index in (PHASE, SHRINK_PHASE, SEED))
        advanced = replace(self._settings, phase=phase, shrink_phase=shrink_phase, seed=seed)
        self._settings = advanced.after_epoch()
        master = self._arrays.master[:, : self._features].copy()
        epoch = EpochResult(self._arrays.loss.copy(), int(counters[SATURATIONS]), ModelState(master, self._settings))
        self._arrays.loss[:] = 0
        return epoch
