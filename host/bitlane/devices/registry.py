"""Devices by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points

from bitlane.contract.config import AcceleratorConfig
from bitlane.devices.protocol import Device
from bitlane.errors import DataError, DeviceError
from bitlane.overlays import this_board
from bitlane.support.c_library import missing_compiler
from bitlane.support.user_warnings import warn_user

Opener = Callable[[AcceleratorConfig], Device]
DeviceSpec = str | Device | list[str | Device] | tuple[str | Device, ...]

GROUP = "bitlane.devices"  # entry points: a name, and a function that opens such a device for an AcceleratorConfig
REMOTE = "pynq://"
CARD = "xrt://"
HARDWARE = ("pynq", CARD)  # how the names of devices in hardware begin


def _open_emulator(config: AcceleratorConfig) -> Device:
    from bitlane.devices.emulator import EmulatorDevice

    return EmulatorDevice(config)


def _open_cpu(config: AcceleratorConfig) -> Device:
    from bitlane.devices.cpu import CpuDevice

    return CpuDevice(config)


def _open_board(address: str) -> Device:
    board = import_module("bitlane.devices.pynq.board")
    device: Device = board.open_board(address)
    return device


def _open_card(address: str) -> Device:
    from bitlane.devices.xrt.device import open_card

    return open_card(address)


_BUILT_IN: dict[str, Opener] = {
    "cpu": _open_cpu,
    "emulator": _open_emulator,
    "pynq": lambda config: _open_board(""),
}
RTL = "rtl"  # an entry point of this distribution, whose package needs the extra `sim`


def _names() -> list[str]:
    """Names of the built-in devices, of the simulated RTL, and of other entry points."""
    plugins = sorted({point.name for point in entry_points(group=GROUP)} - {RTL})
    return [*_BUILT_IN, RTL, *plugins]


def _open_best(config: AcceleratorConfig) -> Device:
    """Open the board that this program runs on; on another machine its fastest device."""
    reasons = []
    for name in ("pynq", "cpu"):
        try:
            return _BUILT_IN[name](config)
        except DeviceError as error:
            if this_board() is not None:
                raise DeviceError(f"{error}. To train without the board's logic, choose device='emulator'") from error
            reasons.append(str(error))
    missing = "; ".join(reasons)
    warn_user(f"using the emulator, which gives the same results: {missing}")
    return _open_emulator(config)


def _open_plugin(name: str, config: AcceleratorConfig) -> Device:
    """Open the device of an entry point."""
    return _plugin(name)(config)


def _plugin(name: str) -> Opener:
    """Return the opener of an entry point. Raise DeviceError if it is not installed."""
    hint = "pip install 'bitlane[sim]'" if name == RTL else "reinstall the package that provides it"
    points = entry_points(group=GROUP, name=name)
    try:
        opener: Opener = next(iter(points)).load()
    except (ImportError, StopIteration) as error:
        raise DeviceError(f"device={name!r} is not installed: {hint} ({error or 'no entry point'})") from error
    return opener


@dataclass(frozen=True)
class Availability:
    """Whether a device can be opened here.

    Attributes
    ----------
    name : str
    available : bool
    reason : str, default=""
        Why it cannot be opened; empty if it can.
    """

    name: str
    available: bool
    reason: str = ""


def open_device(spec: str | Device, config: AcceleratorConfig | None = None) -> Device:
    """Open the device that `spec` names. A `Device` is returned unchanged.

    Parameters
    ----------
    spec : str or Device
        - ``"cpu"``: the bits of the reference in machine code (a C compiler builds it once);
        - ``"emulator"``: the numpy reference;
        - ``"rtl"``: the simulated hardware (extra ``sim`` and a C++ compiler);
        - ``"auto"``: ``"pynq"`` if this machine is a board, which raises if the board cannot be used; otherwise
          ``"cpu"``; without a C compiler ``"emulator"`` and a warning;
        - ``"pynq"``: the PYNQ board that this program runs on;
        - ``"pynq://HOST"`` or ``"pynq://HOST:PORT"``: a board on the network;
        - ``"xrt://FILE.xclbin"`` or ``"xrt://FILE.xclbin@CARD"``: a card behind XRT, the first one or that of a number
          or an address on the PCI bus.
    config : AcceleratorConfig, optional
        Options of the build, for a device that is made here; `AcceleratorConfig()` when None. A board has the build of
        its bitstream.

    Raises
    ------
    DataError
        The name is unknown.
    DeviceError
        The device cannot be opened. The message says what is missing.

    Examples
    --------
    >>> from bitlane.contract.config import AcceleratorConfig
    >>> device = open_device("emulator", AcceleratorConfig(width=128, outputs=2))
    >>> device.name
    'emulator'
    """
    if not isinstance(spec, str):
        if not isinstance(spec, Device):
            raise DataError(f"device={spec!r}: name one, such as 'auto' or 'cpu', or pass an open device")
        return spec
    config = config or AcceleratorConfig()
    if spec == "auto":
        return _open_best(config)
    if spec.startswith(REMOTE) and spec != REMOTE:
        return _open_board(spec.removeprefix(REMOTE))
    if spec.startswith(CARD) and spec != CARD:
        return _open_card(spec.removeprefix(CARD))
    if spec in _BUILT_IN:
        return _BUILT_IN[spec](config)
    if spec not in _names():
        names = [*_names(), REMOTE + "HOST", CARD + "FILE.xclbin", "auto"]
        raise DataError(f"device={spec!r} is unknown: choose one of {', '.join(names)}")
    return _open_plugin(spec, config)


@contextmanager
def opened_devices(spec: DeviceSpec, config: AcceleratorConfig | None = None) -> Iterator[list[Device]]:
    """Open the devices that `spec` names, one or a list of them, and close at the end those that were opened here.

    Parameters
    ----------
    spec, config
        As for `open_device`. A name of simulated devices may be in a list several times, that of a board only once.

    Raises
    ------
    DataError, DeviceError
        As from `open_device`.
    """
    specs = [*spec] if isinstance(spec, list | tuple) else [spec]
    boards = [each for each in specs if isinstance(each, str) and each.startswith(HARDWARE)]
    if len({*boards}) < len(boards):
        raise DataError(f"device={specs!r} lists a board twice: list each board once")
    with ExitStack() as stack:
        devices = []
        for each in specs:
            devices.append(open_device(each, config))
            if devices[-1] is not each:
                stack.callback(devices[-1].close)
        yield devices


def available_devices() -> list[Availability]:
    """Return every named device, and whether it can be opened.

    Libraries, programs and the board are looked for. Nothing is built, loaded or opened, so that opening a device may
    still fail.
    """
    reasons = [(name, _missing(name)) for name in (*_names(), CARD + "FILE.xclbin")]
    return [Availability(name, not reason, reason) for name, reason in reasons]


def _missing(name: str) -> str:
    """Return why a device cannot be opened, or "".

    The opener of an entry point may have a function `missing` for this.
    """
    if name == "emulator":
        return ""
    if name == "cpu":
        return missing_compiler()
    if name.startswith(CARD):
        from bitlane.devices.xrt.library import missing as missing_xrt

        return missing_xrt()
    try:
        if name == "pynq":
            missing = import_module("bitlane.devices.pynq.board").missing
        else:
            missing = getattr(_plugin(name), "missing", str)
        return str(missing())
    except DeviceError as error:
        return str(error)
