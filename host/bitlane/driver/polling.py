"""Start a run, wait for its end, stop it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from bitlane.contract.cycles import CycleCounts
from bitlane.contract.modes import ErrorCode
from bitlane.contract.registers import (
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    CONTROL_ENCODE,
    CONTROL_START,
    STATUS_BUSY,
    STATUS_DONE,
    STATUS_ERROR_SHIFT,
)
from bitlane.devices.protocol import Device
from bitlane.errors import DeviceError

from . import registers
from .trace import EpochTrace

SHORTEST_PAUSE = 1 << 12  # cycles between two reads of STATUS
LONGEST_PAUSE = 1 << 30  # so that a failed run is noticed before its planned end
TRACE_READS = 64  # at most, until the planned end of a run


def start_and_wait(
    device: Device,
    trace: EpochTrace,
    expected: CycleCounts,
    timeout: float,
    while_running: Callable[[], None] | None,
) -> ErrorCode:
    """Start the device, wait until it is done, and acknowledge.

    Any exception in the meantime stops the device first.

    Parameters
    ----------
    device : Device
        Idle, with all registers of the run written.
    trace : EpochTrace
        Trace of the run; its callback is called while waiting.
    expected : CycleCounts
        Cycles of the run on a memory without stalls.
    timeout : float
        Seconds without progress after which DeviceError is raised.
    while_running : callable or None
        Called once, right after the start.
    """

    def wait() -> int:
        if while_running is not None:
            while_running()
        passed = _sleep(device, trace, expected)
        return _Poller(device, trace, timeout).wait(passed)

    return _run(device, CONTROL_START, wait, timeout)


def encode_and_wait(device: Device, cycles: int, timeout: float) -> ErrorCode:
    """Start the encoder of a device, wait until it is done, and acknowledge.

    Parameters
    ----------
    device : Device
        Idle, with all registers of the encoding written.
    cycles : int
        Cycles that it takes on a memory without stalls.
    timeout : float
        Seconds without progress after which DeviceError is raised.
    """

    def wait() -> int:
        passed = min(cycles, LONGEST_PAUSE)
        device.wait(passed)
        return _Poller(device, None, timeout).wait(passed)

    return _run(device, CONTROL_ENCODE, wait, timeout)


def _run(device: Device, command: int, wait: Callable[[], int], timeout: float) -> ErrorCode:
    """Give a command, wait for the status of its end, and acknowledge. Any exception stops the device first."""
    registers.write(device, "control", command)
    try:
        status = wait()
    except BaseException:
        with suppress(DeviceError):  # the device may not answer any more; the first exception says why
            _abort(device, timeout)
        raise
    registers.write(device, "control", CONTROL_ACKNOWLEDGE)
    return ErrorCode(status >> STATUS_ERROR_SHIFT & 0xFF)


def _sleep(device: Device, trace: EpochTrace, expected: CycleCounts) -> int:
    """Sleep until the planned end, without register accesses; return the cycles of that."""
    ends = expected.epoch_cycles[:: 1 + len(expected.epoch_cycles) // TRACE_READS] if trace.wanted else ()
    for end in (*ends, expected.cycles):
        passed = min(int(end), LONGEST_PAUSE)
        device.wait(passed)
        trace.update()
    return passed


class _Poller:
    """Polls STATUS at growing intervals. The timeout is about progress, not about the length of the run."""

    def __init__(self, device: Device, trace: EpochTrace | None, timeout: float):
        self._device = device
        self._trace = trace
        self._timeout = timeout
        self._progress = (-1, -1)
        self._moved = self._looked = time.monotonic()

    def wait(self, passed: int) -> int:
        """Return STATUS once the run is done; `passed` cycles of it are over already."""
        while True:
            status = registers.read(self._device, "status")
            if self._trace is not None:
                self._trace.update()
            if status & STATUS_DONE:
                return status
            if not status & STATUS_BUSY:
                raise DeviceError(f"{self._device.name} lost its run: it was reset during the run")
            passed += min(max(passed // 16, SHORTEST_PAUSE), LONGEST_PAUSE)
            self._device.wait(passed)
            self._check_progress()

    def _check_progress(self) -> None:
        """Raise DeviceError if epoch and beats have not changed for the timeout; look four times in that time."""
        now = time.monotonic()
        if now - self._looked < self._timeout / 4:
            return
        self._looked = now
        latest = registers.read(self._device, "epoch"), registers.read(self._device, "beats")
        if latest != self._progress:
            self._progress, self._moved = latest, now
        elif now - self._moved > self._timeout:
            raise DeviceError(
                f"{self._device.name} made no progress for {self._timeout:g} seconds in epoch {latest[0]}, after "
                f"{latest[1]} beats: check its clock and its memory"
            )


def _abort(device: Device, timeout: float) -> None:
    """Stop the device, and wait at most `timeout` seconds until it is idle."""
    registers.write(device, "control", CONTROL_ABORT)
    end = time.monotonic() + timeout
    while registers.read(device, "status") & STATUS_BUSY and time.monotonic() < end:
        pass
    registers.write(device, "control", CONTROL_ACKNOWLEDGE)
