"""Emulators of any build."""

from __future__ import annotations

from typing import Any

from bitlane.contract.config import AcceleratorConfig
from bitlane.devices.emulator import EmulatorDevice


def emulator(capacity_bytes: int = 128 << 20, kind: type[EmulatorDevice] = EmulatorDevice, **build: Any) -> Any:
    """An emulator, or a subclass of it, with these options of `AcceleratorConfig`."""
    return kind(AcceleratorConfig(**build), capacity_bytes)
