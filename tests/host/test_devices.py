"""Devices by name."""

import importlib

import pytest

from bitlane.devices import available_devices, open_device
from bitlane.devices.emulator import EmulatorDevice
from bitlane.devices.protocol import Buffer, Device
from bitlane.errors import DataError, DeviceError


@pytest.fixture
def no_simulator(monkeypatch):
    """As if the simulator's package were not installed."""
    found = importlib.import_module

    def missing(name, package=None):
        if name == "bitlane_sim.device":
            raise ImportError("No module named 'bitlane_sim'")
        return found(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)


def test_the_emulator_is_a_device():
    device = open_device("emulator")
    assert isinstance(device, EmulatorDevice) and isinstance(device, Device)
    assert isinstance(device.allocate(8), Buffer)


def test_a_device_is_taken_as_it_is():
    device = EmulatorDevice()
    assert open_device(device) is device


def test_unknown_names():
    with pytest.raises(DataError, match=r"device='fpga' is unknown: choose one of .*emulator.*auto"):
        open_device("fpga")


def test_a_missing_simulator_names_its_extra(no_simulator):
    with pytest.raises(DeviceError, match=r"pip install 'bitlane\[sim\]'"):
        open_device("rtl")


def test_auto_falls_back_with_a_warning(no_simulator):
    with pytest.warns(UserWarning, match=r"emulator.*bitlane\[sim\]"):
        assert open_device("auto").name == "emulator"


def test_available_devices_say_why_not(no_simulator):
    found = {device.name: device for device in available_devices()}
    assert found["emulator"].available and not found["emulator"].reason
    assert not found["rtl"].available and "bitlane[sim]" in found["rtl"].reason
