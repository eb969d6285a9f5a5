"""The run of the accelerator that a training starts with, for testbenches and other hosts."""

from __future__ import annotations

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.errors import DataError
from bitlane.quantization.scaling import Matrix

from .launches import launches
from .options import TrainingOptions
from .passes import passes, start_of_pass
from .train import execution_plan, prepare

CAPACITY = 128 << 20  # bytes of a device that runs the job


def training_job(
    X: Matrix, y: Matrix, options: TrainingOptions | None = None, config: AcceleratorConfig | None = None
) -> Job:
    """Return the complete training of a table as one run of the accelerator.

    `Driver.run` runs it on any device with the options `config`, with the bits of a `train` on that device.

    Parameters
    ----------
    X : ndarray of integers or floats, shape (rows, n)
        Finite, with at least one column that is not constant.
    y : ndarray of integers or floats, shape (rows,) or (rows, targets)
        At most as many targets as the build has outputs.
    options : TrainingOptions, optional
        `TrainingOptions()` when None.
    config : AcceleratorConfig, optional
        The build; `AcceleratorConfig()` when None.

    Raises
    ------
    DataError
        A value that cannot be used, or data that takes several runs: too many rows or targets.
    """
    options = options or TrainingOptions()
    driver = Driver(EmulatorDevice(config, CAPACITY))
    first, rows = prepare(X, np.asarray(y), options, [driver])
    targets = passes(first.settings, driver.config.outputs)
    plan = execution_plan(first, len(rows.X), driver, snapshots=False)
    if len(targets) > 1 or plan.launch_epochs < options.epochs:
        raise DataError(f"X and y take several runs of the accelerator: use fewer rows, or one target (y: {y.shape})")
    encoder, state = start_of_pass(rows, targets[0], first, driver.config.outputs)
    return next(launches(plan, encoder)).job(plan, state)
