"""Losses and gradients of all rows of a table, from epochs of one batch on a device.

An epoch of one batch reads one model for all rows and moves the weights once, by their mean gradient: the host reads
the sums off the distance. So every device can take them, with the registers that it has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bitlane.contract.fixed_point import decode_float, encode_float
from bitlane.contract.formats import MASTER, STEP_FRACTION, WEIGHT_EXPONENT
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import Words, master_weights, weight_values
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.driver.buffers import SampleBuffers
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job, loss_value
from bitlane.quantization.scaling import WEIGHT_LIMIT, Floats

from .losses import LOSSES

ROOM = 1.5  # for the distance; a model takes the rest of the range. A scaled gradient, twice as large, stays below 4
LARGEST_STEP = 4.0
SLOPE_ERRORS = 2.0**-9  # of the lookup table of the logistic loss, and of labels


@dataclass(frozen=True, eq=False)
class SumsAtModel:
    """Sums over all rows, for each output.

    Attributes
    ----------
    weights : float64 array [outputs, s]
        The model that the device read: the one asked for, rounded to its format.
    losses : float64 array [outputs]
        Mean losses, in scaled units; squared errors have the factor 1/2.
    gradients : float64 array [outputs, s]
        Of the mean losses.
    saturations : int
        Values clipped.
    """

    weights: Floats
    losses: Floats
    gradients: Floats
    saturations: int


class DeviceSums:
    """A table on a device, and its losses and gradients; as a context manager it frees the table's memory at the end.

    Parameters
    ----------
    driver : Driver
    words : uint64 array
        The base region of the table.
    geometry : Geometry
        Of the table, without draws, with one batch of all rows.
    loss : {"squared_error", "log_loss"}

    Raises
    ------
    DataError, DeviceError
        The table does not suit the device, or the device has no room for it.
    """

    def __init__(self, driver: Driver, words: Words, geometry: Geometry, loss: str):
        self._driver, self._words, self._geometry, self._loss = driver, words, geometry, LOSSES[loss]
        self._squares = loss == "squared_error"
        self._samples = SampleBuffers.of(
            driver.device, self._job(np.zeros((geometry.outputs, geometry.features)), 0, 1)
        )

    @property
    def outputs(self) -> int:
        """Models of a pass."""
        return self._geometry.outputs

    def __enter__(self) -> DeviceSums:
        return self

    def __exit__(self, *_: object) -> None:
        self._samples.free()

    def at(self, weights: Floats, largest_loss: float) -> SumsAtModel:
        """Return the sums at a model.

        Parameters
        ----------
        weights : float64 array [outputs, s]
            Scaled weights; those beyond the range of the device are clipped.
        largest_loss : float
            No mean loss may be above it. The mean size of the slopes then is at most this loss (logistic), or the root
            of its double (squares), so that no sum leaves its format, in any order of the rows. With larger losses,
            only the losses of the result are right.
        """
        slopes = math.sqrt(2 * largest_loss) if self._squares else min(largest_loss, 1.0)
        register = encode_float(
            min(ROOM / (self._geometry.rows * (slopes + SLOPE_ERRORS)), LARGEST_STEP), STEP_FRACTION
        )
        largest = float(np.abs(weights).max(initial=0.0)) / (WEIGHT_LIMIT - ROOM)
        exponent = math.ceil(math.log2(max(largest, 2.0**WEIGHT_EXPONENT.minimum)))
        exponent = min(exponent, WEIGHT_EXPONENT.maximum)
        limit = math.ldexp(WEIGHT_LIMIT - ROOM, exponent)
        job = self._job(np.clip(weights, -limit, limit), exponent, register)
        result = self._driver.run(job, samples=self._samples)
        moved = job.state.master.astype(np.int64) - result.state.master
        rows = self._geometry.rows
        unit = 2.0**-MASTER.fraction / decode_float(register, STEP_FRACTION) / rows
        share = (0.5 if self._squares else 1.0) / rows
        return SumsAtModel(
            np.ldexp(weight_values(job.state.master), exponent),
            np.array([share * loss_value(int(loss)) for loss in result.loss[0]]),
            np.asarray(moved * unit, np.float64),
            result.counters.saturations,
        )

    def _job(self, weights: Floats, exponent: int, step: int) -> Job:
        master = master_weights(np.ldexp(weights, -exponent))
        settings = Settings(step, step, loss=self._loss, weight_exponent=exponent)
        return Job(self._geometry, [self._words], [], ModelState(master, settings), 1)
