"""The emulator: host and device have separate copies of a buffer."""

from bitlane.devices.emulator import EmulatorDevice


def test_unflushed_writes_are_not_visible():
    device = EmulatorDevice()
    buffer = device.allocate(20)
    assert len(buffer.array) == 3
    buffer.array[:] = 7
    device.invalidate(buffer)
    assert buffer.array.tolist() == [0, 0, 0]
    buffer.array[:] = 7
    device.flush(buffer)
    buffer.array[:] = 0
    device.invalidate(buffer)
    assert buffer.array.tolist() == [7, 7, 7]
