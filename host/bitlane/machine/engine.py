"""The engine: a run of the accelerator, epoch by epoch, on the words as they lie in memory."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import Words
from bitlane.contract.state import ModelState
from bitlane.reference.machine import EpochResult
from bitlane.support.compile_notice import CompileNotice

from .epoch import run_epoch
from .plan import PHASE, SATURATIONS, SEED, arrays_of, regions_of, rules_of, shape_of

NOTICE = CompileNotice(
    logging.getLogger("bitlane.machine"), "compiling the kernels of device='cpu', once on this machine: some 15 seconds"
)


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
    """

    def __init__(self, geometry: Geometry, state: ModelState, levels: NDArray[np.int32] | None = None):
        self._features = geometry.features
        self._shape = shape_of(geometry)
        self._arrays = arrays_of(geometry, state, levels, self._shape)
        self._settings = state.settings

    def feed(self, base: Words, draws: Words | None) -> None:
        """Process the rows of an epoch: the words of a base region, and of a draw region if the rows have draws."""
        rules = rules_of(self._settings, self._features)
        with NOTICE.watch():
            run_epoch(self._shape, rules, self._arrays, regions_of(base, draws))

    def end_epoch(self) -> EpochResult:
        """Return the result of the epoch, and decay steps and penalty step."""
        counters = self._arrays.counters
        advanced = replace(self._settings, phase=int(counters[PHASE]), seed=int(counters[SEED]))
        self._settings = advanced.after_epoch()
        master = self._arrays.master[:, : self._features].copy()
        epoch = EpochResult(self._arrays.loss.copy(), int(counters[SATURATIONS]), ModelState(master, self._settings))
        self._arrays.loss[:] = 0
        return epoch
