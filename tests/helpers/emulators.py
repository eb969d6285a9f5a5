"""Emulators of any build, and the fastest device with their bits."""

from __future__ import annotations

from typing import Any

from bitlane.contract.config import AcceleratorConfig
from bitlane.devices.emulator import EmulatorDevice
from bitlane.devices.protocol import Device
from bitlane.devices.registry import open_device
from bitlane.support.c_library import missing_compiler

FASTEST = "emulator" if missing_compiler() else "cpu"  # `tests/verify/equivalence` shows that their bits are the same


def emulator(capacity_bytes: int = 128 << 20, kind: type[EmulatorDevice] = EmulatorDevice, **build: Any) -> Any:
    """An emulator, or a subclass of it, with these options of `AcceleratorConfig`."""
    return kind(AcceleratorConfig(**build), capacity_bytes)


def fastest(**build: Any) -> Device:
    """A device for a test that needs any, with these options of `AcceleratorConfig`."""
    return open_device(FASTEST, AcceleratorConfig(**build))
