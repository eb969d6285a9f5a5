"""Devices by name."""

import importlib
import sys
from types import SimpleNamespace

import pytest

from bitlane.contract import REGISTERS
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


@pytest.mark.parametrize("name", ["emulator", "auto"])
def test_a_device_has_the_width_and_outputs_asked_for(no_simulator, recwarn, name):
    device = open_device(name, width=256, outputs=3, level_slots=64)
    registers = ("port_bits", "outputs", "level_slots")
    assert [device.read(REGISTERS[register].offset) for register in registers] == [256, 3, 64]


def test_the_simulator_is_built_as_asked_for(monkeypatch):
    """With stand-ins for its two modules."""
    config = SimpleNamespace(AcceleratorConfig=lambda **sizes: sizes)
    device = SimpleNamespace(RtlDevice=lambda config: ("rtl", config))
    modules = {"bitlane_hw.config": config, "bitlane_sim.device": device}
    monkeypatch.setattr(importlib, "import_module", modules.__getitem__)
    assert open_device("rtl", 512, 2, 64) == ("rtl", {"width": 512, "outputs": 2, "level_slots": 64})
    assert open_device("auto") == ("rtl", {"width": 64, "outputs": 1, "level_slots": 0})


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"width": 32}, "width=32 must be one of 64, 128, 256, 512"),
        ({"outputs": 16}, "outputs=16 must be 1 to 15"),
        ({"level_slots": 8}, "level_slots=8 must be 0, or a power of two, 16 at least"),
        ({"level_slots": 48}, "level_slots=48 must be 0"),
    ],
)
@pytest.mark.parametrize("name", ["emulator", "auto"])
def test_hardware_that_nobody_builds(no_simulator, recwarn, name, sizes, message):
    with pytest.raises(DataError, match=message):
        open_device(name, **sizes)


def test_what_the_simulators_configuration_refuses(monkeypatch):
    def refuse(width, **others):
        raise ValueError(f"width={width} must be even")

    modules = {"bitlane_hw.config": SimpleNamespace(AcceleratorConfig=refuse), "bitlane_sim.device": None}
    monkeypatch.setattr(importlib, "import_module", modules.__getitem__)
    with pytest.raises(DataError, match="width=33 must be even"):
        open_device("rtl", width=33)


def test_a_device_is_taken_as_it_is():
    device = EmulatorDevice()
    assert open_device(device) is device
    assert open_device(device, width=512) is device


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
