"""The time of a training on this machine's processor, measured on some rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import Words
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.devices import open_device
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job

MOST_WORDS = 1 << 20  # of an epoch that is measured
LEAST_SECONDS = 0.3  # of the measured epochs
MOST_EPOCHS = 1 << 12


@dataclass(frozen=True)
class CpuTime:
    """Time of an epoch on the device `cpu`.

    Attributes
    ----------
    epoch_seconds : float
        For all rows; without the encoding of samples.
    measured_rows : int
        Rows that were measured; the time grows with the rows.
    """

    epoch_seconds: float
    measured_rows: int


def measure_cpu(geometry: Geometry, config: AcceleratorConfig, staleness: int = 0) -> CpuTime:
    """Return the time of an epoch, from random samples of the same shape.

    Parameters
    ----------
    geometry : Geometry
        Shape of an epoch.
    config : AcceleratorConfig
        The build that the device computes.
    staleness : {0, 1}, default=0

    Raises
    ------
    DeviceError
        The machine has no C compiler.
    """
    words_of_row = geometry.row_words + geometry.outputs
    rows = min(geometry.rows, max(MOST_WORDS // words_of_row, geometry.batch))
    some = replace(geometry, rows=rows)
    device = open_device("cpu", config)
    driver, job = Driver(device), _random_job(some, staleness)
    driver.run(job)  # compiles
    epochs, seconds = 1, 0.0
    while seconds < LEAST_SECONDS and epochs < MOST_EPOCHS:
        epochs *= 2
        begin = time.perf_counter()
        driver.run(replace(job, epochs=epochs))
        seconds = time.perf_counter() - begin
    device.close()
    return CpuTime(seconds / epochs * geometry.rows / rows, rows)


def _random_job(geometry: Geometry, staleness: int) -> Job:
    """Return a job with random samples, and steps so small that nothing saturates."""
    rng = np.random.default_rng(0)

    def region(words: int) -> Words:
        return rng.integers(1 << 64, size=words, dtype=np.uint64)

    levels = None
    if geometry.codebook:
        levels = np.repeat(np.linspace(-1000, 1000, geometry.levels).astype(np.int32)[:, None], geometry.features, 1)
    return Job(
        geometry,
        base_regions=[region(geometry.base_words)],
        draw_regions=[region(geometry.draw_words)] if geometry.draws else [],
        state=ModelState(
            np.zeros((geometry.outputs, geometry.features), np.int32), Settings(0, 0, staleness=staleness)
        ),
        epochs=1,
        snapshots=False,
        levels=levels,
    )
