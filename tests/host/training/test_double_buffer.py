"""The samples of the next launch are loaded during the current one; buffers are freed when something fails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.helpers.properties import share
from tests.host.training.test_launches import beginning, plan_of, samples_of, table

from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.errors import DeviceError
from bitlane.support.phases import PhaseClock
from bitlane.training.double_buffer import DoubleBuffer, run_launches
from bitlane.training.launches import launches


class Watched(EmulatorDevice):
    """An emulator that records whether it is busy at each allocation and flush; allocation number `breaks` fails."""

    def __init__(self, capacity_bytes=128 << 20, breaks=None):
        super().__init__(capacity_bytes=capacity_bytes)
        self.events, self.flushed = [], []
        self.breaks = breaks

    def allocate(self, nbytes, port=0):
        self.events.append("busy" if self._run else "idle")
        if len(self.events) == self.breaks:
            raise DeviceError("it broke")
        return super().allocate(nbytes, port)

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


def test_samples_are_loaded_during_the_previous_launch(run):
    """There are two pairs of buffers; the second pair is allocated during the first launch."""
    plan, samples, state = run
    device = Watched(plan.capacity)
    count = launches_run(device, plan, samples, state)
    assert count > 5 and plan.double_buffered
    assert device.events == ["idle"] * 5 + ["busy"] * 2 + ["idle"] * 3 * (count - 1)
    assert device.flushed.count("busy") == 2 * (count - 1)
    assert device.allocated == 0


def test_without_double_buffering_samples_are_loaded_afterwards(run):
    plan, samples, state = run
    device = Watched()
    with DoubleBuffer(device, launches(plan, samples), doubled=False, clock=PhaseClock()) as buffer:
        Driver(device).run(buffer.launch.job(plan, state), None, buffer.samples, buffer.prefetch)
        buffer.advance()
        assert buffer.launch is not None and "busy" not in device.events + device.flushed
    assert device.allocated == 0


def test_a_failed_allocation_frees_all_buffers(run):
    """Each allocation fails once."""
    plan, samples, state = run
    for breaks in range(1, 16):
        device = Watched(plan.capacity, breaks)
        with pytest.raises(DeviceError, match="it broke"):
            launches_run(device, plan, samples, state)
        assert device.allocated == 0
        assert not device.read(0x24) & 1


def test_closing_the_generator_frees_all_buffers(run):
    plan, samples, state = run
    device = Watched(plan.capacity)
    running = run_launches(Driver(device), plan, samples, state)
    next(running)
    running.close()
    assert device.allocated == 0


@dataclass
class NumberedLaunch:
    """Samples whose values are the number of their launch."""

    number: int
    words: int
    geometry = Geometry(features=1, rows=1, base_digits=1, draws=True, batch=1)

    @property
    def base_regions(self):
        return [np.full(self.words, self.number, np.uint64)]

    @property
    def draw_regions(self):
        return [np.full(self.words, 1000 + self.number, np.uint64)]


class LaunchSequence(RuleBasedStateMachine):
    """Any number of launches, each prefetched or not."""

    @initialize(sizes=st.lists(st.integers(1, 40), max_size=12), doubled=st.booleans())
    def begin(self, sizes, doubled):
        self.sizes = [40, *sizes]
        self.device = Watched()
        self.number, self.loaded = 0, False
        numbered = iter([NumberedLaunch(number, size) for number, size in enumerate(self.sizes)])
        self.buffer = DoubleBuffer(self.device, numbered, doubled, PhaseClock())
        self.buffer.__enter__()

    @precondition(lambda self: not self.loaded and self.number < len(self.sizes))
    @rule()
    def prefetch(self):
        self.buffer.prefetch()
        self.loaded = True

    @rule()
    def advance(self):
        self.buffer.advance()
        self.number, self.loaded = min(self.number + 1, len(self.sizes)), False

    @invariant()
    def the_buffers_hold_the_current_launch(self):
        if self.number == len(self.sizes):
            assert self.buffer.launch is None
            return
        assert self.buffer.launch.number == self.number
        samples, size = self.buffer.samples, self.sizes[self.number]
        assert (samples.base[0].array[:size] == self.number).all()
        assert (samples.draws[0].array[:size] == 1000 + self.number).all()

    def teardown(self):
        self.buffer.__exit__(None, None, None)
        assert self.device.allocated == 0


test_any_order_of_loading = LaunchSequence.TestCase
test_any_order_of_loading.settings = share(0.2)
