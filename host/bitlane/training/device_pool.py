"""Tasks of a training on several devices: one thread for each device, and what happens when a device fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.driver.driver import Driver
from bitlane.errors import DataError, DeviceError
from bitlane.support.user_warnings import warn_user

from .result import OnEpoch, TrainingResult

ON_FAILURE = ("raise", "continue")


@dataclass(frozen=True)
class DeviceTask:
    """A share of a training that runs on one device.

    Attributes
    ----------
    name : str
        Name of the share, for errors.
    run : callable
        Called as ``run(driver, on_epoch)``; returns a `TrainingResult`.
    on_epoch : callable or None
        What `run` calls after each epoch, one thread at a time.
    """

    name: str
    run: Callable[[Driver, OnEpoch], TrainingResult]
    on_epoch: OnEpoch | None = None


@dataclass(frozen=True)
class Done:
    """Tasks that have ended.

    Attributes
    ----------
    results : list of TrainingResult
        In the order of the tasks.
    turns : list of lists of lists of int
        The tasks that each device ended in each turn. There are several turns only if a device failed.
    """

    results: list[TrainingResult]
    turns: list[list[list[int]]]

    def busiest(self, figure: Callable[[TrainingResult], float | NDArray[Any]]) -> NDArray[Any]:
        """Return the largest sum of a figure over the tasks of a device, added up over the turns."""
        figures = np.array([figure(run) for run in self.results])
        largest = [np.max([figures[own].sum(axis=0) for own in turn], axis=0) for turn in self.turns]
        return np.asarray(np.sum(largest, axis=0))


class DevicePool:
    """Devices of one build, each driven by a thread.

    Task i runs on device i modulo the number of devices. The tasks of a device that fails go to the others: tasks do
    not depend on the device, so the results have the same bits.

    Parameters
    ----------
    drivers : sequence of Driver
    on_failure : {"raise", "continue"}, default="raise"
        Whether a device that fails ends the training, or the other devices continue without it.

    Raises
    ------
    DataError
        There is no device, one is listed twice, their builds differ, or `on_failure` is unknown.
    """

    def __init__(self, drivers: Sequence[Driver], on_failure: str = "raise"):
        if on_failure not in ON_FAILURE:
            raise DataError(f"on_device_failure={on_failure!r}: choose one of {', '.join(map(repr, ON_FAILURE))}")
        if not drivers:
            raise DataError("device is an empty list: pass at least one device")
        if len({id(driver.device) for driver in drivers}) < len(drivers):
            raise DataError("a device is listed twice: list each open device once")
        for number, driver in enumerate(drivers[1:], 2):
            _check_same_build(drivers[0], driver, number)
        self._working = dict(enumerate(drivers, 1))  # by their numbers, from 1
        self._count = len(drivers)
        self._continues = on_failure == "continue"
        self._report = threading.Lock()

    def run(self, tasks: Sequence[DeviceTask]) -> Done:
        """Run all tasks.

        Raises
        ------
        DeviceError
            A device failed, or all did. The other devices have stopped.
        """
        results: dict[int, TrainingResult] = {}
        turns: list[list[list[int]]] = []
        while len(results) < len(tasks):
            left = [i for i in range(len(tasks)) if i not in results]
            numbers = [*self._working]
            shares = {number: left[k :: len(numbers)] for k, number in enumerate(numbers)}
            failed = self._turn(tasks, shares, results)
            turn = [ended for own in shares.values() if (ended := [i for i in own if i in results])]
            turns += [turn] if turn else []
            for number, error in failed.items():
                del self._working[number]
                if not self._working:
                    raise error
                warn_user(f"{error}; {len(self._working)} of {self._count} devices continue with its work")
        return Done([results[i] for i in range(len(tasks))], turns)

    def _turn(
        self, tasks: Sequence[DeviceTask], shares: dict[int, list[int]], results: dict[int, TrainingResult]
    ) -> dict[int, DeviceError]:
        """Run the tasks of each device, in order, and add their results; return the errors of devices that failed."""
        stopped = threading.Event()
        with ThreadPoolExecutor(len(shares)) as threads:
            try:
                running = {n: threads.submit(self._work, tasks, n, own, results, stopped) for n, own in shares.items()}
                wait(running.values())
            except BaseException:  # such as Ctrl-C
                stopped.set()
                raise
        errors = {number: error for number, each in running.items() if (error := each.exception()) is not None}
        for error in errors.values():
            if not isinstance(error, _Stopped) and not self._survives(error):
                raise error
        return {number: error for number, error in errors.items() if isinstance(error, DeviceError)}

    def _survives(self, error: BaseException) -> bool:
        return self._continues and isinstance(error, DeviceError)

    def _work(
        self,
        tasks: Sequence[DeviceTask],
        number: int,
        own: list[int],
        results: dict[int, TrainingResult],
        stopped: threading.Event,
    ) -> None:
        driver = self._working[number]
        for i in own:
            task = tasks[i]

            def on_epoch(epoch: int, loss: float, user: OnEpoch | None = task.on_epoch) -> None:
                if stopped.is_set():
                    raise _Stopped
                if user is not None:
                    with self._report:
                        user(epoch, loss)

            if stopped.is_set():
                raise _Stopped
            try:
                results[i] = task.run(driver, on_epoch)
            except BaseException as error:
                if not self._survives(error):
                    stopped.set()
                if not isinstance(error, DeviceError):
                    raise
                device = f"device {number} of {self._count} ({driver.device.name})"
                raise DeviceError(f"{device}, {task.name}: {error}", error.code) from error


class _Stopped(Exception):
    """Another device has failed."""


def _check_same_build(first: Driver, other: Driver, number: int) -> None:
    for each in fields(first.config):
        mine, theirs = getattr(first.config, each.name), getattr(other.config, each.name)
        if mine != theirs:
            raise DataError(
                f"device {number} ({other.device.name}) has {each.name}={theirs}, but device 1 ({first.device.name}) "
                f"has {each.name}={mine}: use devices of the same build"
            )
