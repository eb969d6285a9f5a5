"""Devices by name."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from ..contract import WORD_BITS
from ..errors import DataError, DeviceError
from .protocol import Buffer, Device

__all__ = ["Availability", "Buffer", "Device", "available_devices", "open_device"]


class Sizes(TypedDict):
    """What a device that is made here can be asked to have: `open_device`."""

    width: int
    outputs: int
    level_slots: int
    random: bool


def _open_emulator(sizes: Sizes) -> Device:
    from .emulator import EmulatorDevice

    return EmulatorDevice(**sizes)


def _open_rtl(sizes: Sizes) -> Device:
    try:
        module = importlib.import_module("bitlane_sim.device")
        config = importlib.import_module("bitlane_hw.config")
    except ImportError as error:
        raise DeviceError(
            f"the simulated device needs the package's extra: pip install 'bitlane[sim]' ({error})"
        ) from error
    try:
        chosen = config.AcceleratorConfig(**sizes)
    except ValueError as error:
        raise DataError(str(error)) from error
    device: Device = module.RtlDevice(chosen)
    return device


def _open_pynq(sizes: Sizes) -> Device:
    from .pynq import open_board

    return open_board()


_OPENERS: dict[str, Callable[[Sizes], Device]] = {
    "emulator": _open_emulator,
    "rtl": _open_rtl,
    "pynq": _open_pynq,
}
REMOTE = "pynq://"


@dataclass(frozen=True)
class Availability:
    """Whether a named device can be opened here, and if not, why."""

    name: str
    available: bool
    reason: str = ""


def open_device(
    spec: str | Device, width: int = WORD_BITS, outputs: int = 1, level_slots: int = 0, random: bool = False
) -> Device:
    """The device that `spec` names, opened; a `Device` is returned as it is.

    Parameters
    ----------
    spec: "emulator" (the numpy reference), "rtl" (the Verilated hardware), "auto" (rtl where it can be
        opened, otherwise the emulator, with a warning), "pynq" (the board that this runs on), "pynq://HOST" (one on the
        network, port after a colon), or a `Device`.
    width: of the memory port of a device made here, in bits: `contract.PORT_WIDTHS`. A board's is what it is.
    outputs: models that it trains at a time, 1 to `contract.MAX_OUTPUTS`; likewise.
    level_slots: levels that each lane's table holds, `contract.DEFAULT_LEVEL_SLOTS` where features have levels of
        their own; 0 for digit lanes, which have no tables. Likewise.
    random: whether model and coefficients can be rounded at random (`rounding`). Likewise.

    Raises
    ------
    DataError: a name that is not known, a width, outputs or level slots that no hardware has.
    DeviceError: a device that cannot be opened; the message says what is missing.
    """
    if not isinstance(spec, str):
        return spec
    sizes: Sizes = {"width": width, "outputs": outputs, "level_slots": level_slots, "random": random}
    if spec == "auto":
        try:
            return _open_rtl(sizes)
        except DeviceError as error:
            warnings.warn(f"using the emulator, which gives the same results: {error}", stacklevel=2)
            return _open_emulator(sizes)
    if spec.startswith(REMOTE) and spec != REMOTE:
        from .pynq import open_board

        return open_board(spec.removeprefix(REMOTE))
    if spec not in _OPENERS:
        raise DataError(f"device={spec!r} is unknown: choose one of {', '.join([*_OPENERS, REMOTE + 'HOST', 'auto'])}")
    return _OPENERS[spec](sizes)


def available_devices() -> list[Availability]:
    """Every named device, and whether it can be opened (each is opened and closed once)."""
    found = []
    for name in _OPENERS:
        try:
            open_device(name).close()
        except DeviceError as error:
            found.append(Availability(name, False, str(error)))
        else:
            found.append(Availability(name, True))
    return found
