"""Devices by name."""

import sys
from types import SimpleNamespace

import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS
from bitlane.devices import available_devices, open_device, registry
from bitlane.devices.emulator import EmulatorDevice
from bitlane.devices.protocol import Buffer, Device
from bitlane.errors import DataError, DeviceError

NAMES = ("rtl", "ours")


@pytest.fixture
def no_simulator(monkeypatch):
    """As if the simulator's package were not installed."""
    monkeypatch.setattr(registry, "entry_points", lambda **_: [])


def test_the_emulator_is_a_device():
    device = open_device("emulator")
    assert isinstance(device, EmulatorDevice) and isinstance(device, Device)
    assert isinstance(device.allocate(8), Buffer)


@pytest.mark.parametrize("name", ["emulator", "auto"])
def test_a_device_has_the_build_asked_for(no_simulator, recwarn, name):
    device = open_device(name, AcceleratorConfig(width=256, outputs=3, level_slots=64, random_rounding=True))
    registers = ("port_bits", "outputs", "level_slots", "random_rounding")
    assert [device.read(REGISTERS[register].offset) for register in registers] == [256, 3, 64, 1]


def test_the_simulator_is_an_entry_point(monkeypatch):
    """With a stand-in for it, and for another package's device."""
    points = {name: SimpleNamespace(name=name, load=lambda name=name: lambda config: (name, config)) for name in NAMES}
    monkeypatch.setattr(registry, "entry_points", lambda group, name=None: [points[name]] if name else points.values())
    config = AcceleratorConfig(width=512, outputs=2)
    assert open_device("rtl", config) == ("rtl", config)
    assert open_device("auto") == ("rtl", AcceleratorConfig())
    assert open_device("ours", config) == ("ours", config)
    with pytest.raises(DataError, match="choose one of emulator, pynq, rtl, ours, pynq://HOST, auto"):
        open_device("theirs")


def test_a_device_is_taken_as_it_is():
    device = EmulatorDevice()
    assert open_device(device) is device
    assert open_device(device, AcceleratorConfig(width=512)) is device


@pytest.mark.parametrize("name", ["fpga", "pynq://"])
def test_unknown_names(name):
    with pytest.raises(DataError, match=f"device='{name}' is unknown: choose one of .*emulator.*pynq://HOST, auto"):
        open_device(name)


@pytest.mark.parametrize("name", ["pynq", "pynq://board.local"])
def test_a_board_without_pynq(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynq", None)
    with pytest.raises(DeviceError, match=r"boards need pynq: pip install 'bitlane\[pynq-z7\]' \(PYNQ-Z1"):
        open_device(name)


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
