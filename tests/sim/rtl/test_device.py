"""The device: registers, polling, and buffers with separate copies on host and device."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from tests.helpers.mischief import Mischief

from bitlane.contract.cycles import MemoryTiming
from bitlane.errors import DeviceError
from bitlane_sim.rtl.allocator import PAGE
from bitlane_sim.rtl.device import BASE_ADDRESS, FIRST_POLL, RtlDevice
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.rtl.harness import ProtocolError

CONTROL, STATUS, ENABLE, FROM, TO, BURSTS, MISCHIEF = 0x20, 0x24, 0x28, 0x40, 0x44, 0x48, 0x4C


@pytest.fixture
def device(mischief: Mischief) -> Iterator[RtlDevice]:
    with RtlDevice(capacity_bytes=16 * PAGE, timing=MemoryTiming(9, 5), library=mischief(64)) as made:
        yield made


def start(device: RtlDevice, source: int, target: int, bursts: int, enable: int) -> None:
    for register, value in ((ENABLE, enable), (FROM, source), (TO, target), (BURSTS, bursts), (CONTROL, 1)):
        device.write(register, value)


@pytest.mark.parametrize("enable", [0, 1])
def test_polling_ends_a_run(device: RtlDevice, enable: int) -> None:
    source, target = device.allocate(PAGE), device.allocate(PAGE)
    source.array[:] = np.arange(512)
    device.flush(source)
    start(device, source.device_address, target.device_address, 32, enable)
    before = device.counters.cycles
    polls = 1
    while device.read(STATUS) != 2:
        polls += 1
        assert polls < 10
    passed = device.counters.cycles - before
    assert passed <= 1600 if enable else 1500 < passed <= 3 * FIRST_POLL
    assert not target.array.any()
    device.invalidate(target)
    assert np.array_equal(target.array, source.array)


def test_polls_grow_and_shrink_again(device: RtlDevice) -> None:
    device.write(MISCHIEF, 34)  # the register port stops answering, so only the harness's bound ends the read
    with pytest.raises(ProtocolError, match="LITE_TIMEOUT"):
        device.read(STATUS)
    device.reset()
    lengths = []
    start(device, BASE_ADDRESS, BASE_ADDRESS, 400, 0)
    while True:
        before = device.counters.cycles
        if device.read(STATUS) == 2:
            break
        lengths.append(device.counters.cycles - before)
    assert len(lengths) > 5
    for shorter, longer in pairwise(lengths):
        assert longer / shorter == pytest.approx(1.25, abs=0.01)
    start(device, BASE_ADDRESS, BASE_ADDRESS, 400, 0)
    before = device.counters.cycles
    device.read(STATUS)
    assert device.counters.cycles - before < FIRST_POLL + 20


def test_a_missing_flush_is_visible(device: RtlDevice) -> None:
    source, target = device.allocate(128), device.allocate(128)
    source.array[:] = 7
    start(device, source.device_address, target.device_address, 1, 1)
    device.run(10_000)
    device.invalidate(target)
    assert not target.array.any()


def test_flush_copies(device: RtlDevice) -> None:
    buffer = device.allocate(24)
    buffer.array[:] = (1, 2, 3)
    device.flush(buffer)
    buffer.array[:] = 0
    device.invalidate(buffer)
    assert buffer.array.tolist() == [1, 2, 3]


def test_allocation_is_rounded_and_aligned(device: RtlDevice) -> None:
    buffers = [device.allocate(nbytes) for nbytes in (0, 1, 8, 9, PAGE, PAGE + 1)]
    assert [buffer.array.size for buffer in buffers] == [0, 1, 1, 2, 512, 513]
    pages = [(buffer.device_address - BASE_ADDRESS) / PAGE for buffer in buffers]
    assert pages == [0, 1, 2, 3, 4, 5]
    assert device.free_bytes == 9 * PAGE


def test_exhaustion_names_the_sizes_and_freeing_helps(device: RtlDevice) -> None:
    first, second = device.allocate(8 * PAGE), device.allocate(7 * PAGE)
    with pytest.raises(DeviceError, match=rf"{2 * PAGE} bytes .* of {16 * PAGE}: {PAGE} are free, {PAGE} in one piece"):
        device.allocate(2 * PAGE)
    first.free()
    first.free()
    assert device.free_bytes == 9 * PAGE
    assert device.allocate(8 * PAGE).device_address == first.device_address
    second.free()


def test_freed_and_foreign_buffers_are_errors(device: RtlDevice, mischief: Mischief) -> None:
    buffer = device.allocate(8)
    with (
        RtlDevice(capacity_bytes=PAGE, library=mischief(64)) as other,
        pytest.raises(DeviceError, match="another device"),
    ):
        other.flush(buffer)
    buffer.free()
    successor = device.allocate(8)
    assert successor.device_address == buffer.device_address
    for call in (device.flush, device.invalidate):
        with pytest.raises(DeviceError, match="has been freed"):
            call(buffer)
    with pytest.raises(ValueError, match="negative"):
        device.allocate(-1)


def test_devices_are_independent(mischief: Mischief) -> None:
    with (
        RtlDevice(capacity_bytes=PAGE, library=mischief(64)) as one,
        RtlDevice(capacity_bytes=PAGE, library=mischief(64)) as two,
    ):
        one.write(FROM, 1)
        two.write(FROM, 2)
        assert (one.read(FROM), two.read(FROM)) == (1, 2)


def test_disturbed_device(mischief: Mischief, seed: int) -> None:
    with RtlDevice(capacity_bytes=4 * PAGE, disturbance=Disturbance.arbitrary(seed), library=mischief(64)) as device:
        source, target = device.allocate(PAGE), device.allocate(PAGE)
        source.array[:] = np.random.default_rng(seed).integers(0, 1 << 64, 512, np.uint64)
        device.flush(source)
        start(device, source.device_address, target.device_address, 32, 0)
        while device.read(STATUS) == 1:
            pass
        device.invalidate(target)
        assert np.array_equal(target.array, source.array)
        device.disturb(Disturbance(read_error_burst=0))
        start(device, source.device_address, target.device_address, 32, 1)
        device.run(10_000)
        assert device.read(STATUS) == 2 << 8 | 2


def test_closed_device(mischief: Mischief) -> None:
    device = RtlDevice(capacity_bytes=PAGE, library=mischief(64))
    device.close()
    device.close()
    for call in (lambda: device.read(STATUS), lambda: device.run(1), device.reset, lambda: device.irq):
        with pytest.raises(DeviceError, match="closed"):
            call()
