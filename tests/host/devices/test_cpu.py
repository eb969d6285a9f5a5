"""The device in machine code: its memory is the host's."""

import pytest
from tests.helpers.emulators import emulator

from bitlane.contract.modes import ErrorCode
from bitlane.devices.configuration import Fault
from bitlane.devices.cpu import CpuDevice
from bitlane.errors import DeviceError


def test_a_buffer_has_one_copy():
    device = CpuDevice()
    buffer = device.allocate(20)
    assert len(buffer.array) == 3
    buffer.array[:] = 7
    device.flush(buffer)
    device.invalidate(buffer)
    assert device._words(buffer.device_address, 3, ErrorCode.READ_DECODE).tolist() == [7, 7, 7]
    device._words(buffer.device_address + 8, 1, ErrorCode.WRITE_DECODE)[:] = 8
    assert buffer.array.tolist() == [7, 8, 7]


def test_an_access_stays_in_one_buffer():
    device = CpuDevice()
    first, second = device.allocate(4096), device.allocate(4096)
    assert second.device_address == first.device_address + 4096
    with pytest.raises(Fault):
        device._words(first.device_address, 513, ErrorCode.READ_DECODE)


def test_a_second_free_leaves_the_next_buffer_alone():
    device = CpuDevice()
    first = device.allocate(8)
    first.free()
    second = device.allocate(8)
    first.free()
    assert second.device_address == first.device_address and device.allocated == 1
    assert len(device._words(second.device_address, 1, ErrorCode.READ_DECODE)) == 1


def test_the_capacity_follows_the_memory(monkeypatch):
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 6}.get)
    device = CpuDevice()
    assert device.capacity_bytes == 3 * 4096
    with pytest.raises(DeviceError, match="no room for 12289 bytes in the memory of cpu, 12288 bytes"):
        device.allocate(3 * 4096 + 1)
    assert emulator(kind=CpuDevice, capacity_bytes=4096).capacity_bytes == 4096
