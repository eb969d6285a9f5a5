"""The next start's samples are on the device before the present run ends, and nothing stays when something fails."""

from __future__ import annotations

import numpy as np
import pytest
from tests.host.training.test_launches import beginning, plan_of, samples_of, table

from bitlane.contract.precision import Precision
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.errors import DeviceError
from bitlane.training.double_buffer import DoubleBuffer, run_launches
from bitlane.training.launches import launches


class Watched(EmulatorDevice):
    """Notes what is done to it; breaks at the allocation of a number."""

    def __init__(self, capacity_bytes=128 << 20, breaks=None):
        super().__init__(capacity_bytes=capacity_bytes)
        self.events, self.flushed = [], []
        self.breaks = breaks

    def allocate(self, nbytes):
        self.events.append("busy" if self._run else "idle")
        if len(self.events) == self.breaks:
            raise DeviceError("it broke")
        return super().allocate(nbytes)

    def flush(self, buffer):
        self.flushed.append("busy" if self._run else "idle")
        super().flush(buffer)


def launches_run(device, plan, encoder, state):
    return sum(1 for _ in run_launches(Driver(device), plan, encoder, state))


@pytest.fixture
def run(seed):
    X, y = table(seed, rows=1501)
    precision = Precision(4)
    plan = plan_of(X, y, precision, 5, capacity=52 << 10)
    state = beginning(np.random.default_rng(seed), plan.geometry, staleness=0)
    return plan, samples_of(X, y, precision, seed), state


def test_samples_are_loaded_while_the_accelerator_works(run):
    """Into two pairs of buffers in turn, the second allocated during the first run."""
    plan, samples, state = run
    device = Watched(plan.capacity)
    count = launches_run(device, plan, samples, state)
    assert count > 5 and plan.double_buffered
    assert device.events == ["idle"] * 5 + ["busy"] * 2 + ["idle"] * 3 * (count - 1)
    assert device.flushed.count("busy") == 2 * (count - 1)
    assert device.allocated == 0


def test_without_room_they_are_loaded_afterwards(run):
    plan, samples, state = run
    device = Watched()
    with DoubleBuffer(device, launches(plan, samples), doubled=False) as buffer:
        Driver(device).run(buffer.launch.job(plan, state), None, buffer.samples, buffer.prefetch)
        buffer.advance()
        assert buffer.launch is not None and "busy" not in device.events + device.flushed
    assert device.allocated == 0


def test_nothing_stays_when_it_breaks(run):
    """At whichever buffer."""
    plan, samples, state = run
    for breaks in range(1, 16):
        device = Watched(plan.capacity, breaks)
        with pytest.raises(DeviceError, match="it broke"):
            launches_run(device, plan, samples, state)
        assert device.allocated == 0
        assert not device.read(0x24) & 1


def test_a_caller_that_stops_leaves_nothing(run):
    plan, samples, state = run
    device = Watched(plan.capacity)
    running = run_launches(Driver(device), plan, samples, state)
    next(running)
    running.close()
    assert device.allocated == 0
