"""What every check is given: the device, its driver, its own randomness, and how to fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from bitlane.contract.registers import RANDOM_ROUNDING_REGISTERS, REGISTERS, TABLE_LANE_REGISTERS, Register
from bitlane.devices.protocol import Device
from bitlane.driver.driver import Driver
from bitlane.errors import BitlaneError

from .report import Figures


class CheckFailed(BitlaneError):
    """What a check found wrong, in words."""


@dataclass(frozen=True)
class CheckContext:
    """Where a check works.

    Parameters
    ----------
    driver: of the device under test.
    rng: the check's own, so that no other check changes what it does.
    """

    driver: Driver
    rng: np.random.Generator

    @property
    def device(self) -> Device:
        """The device under test."""
        return self.driver.device

    def driver_of(self, device: DeviceProxy) -> Driver:
        """A driver as patient as this one, of what stands in front of the device under test."""
        return Driver(cast(Device, device), self.driver.timeout)


class DeviceProxy:
    """Stands in front of a device, and is that device but for what a subclass does otherwise."""

    def __init__(self, device: Device):
        self.device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)


@dataclass(frozen=True)
class Check:
    """A named check; `run` returns its figures, or raises what was wrong."""

    name: str
    run: Callable[[CheckContext], Figures]


@dataclass(frozen=True)
class RegisterWord:
    """32 bits of the register map: `mask` are those that a writable register holds."""

    register: Register
    number: int

    @property
    def name(self) -> str:
        part = ("", "") if self.register.words == 1 else (" low", " high")
        return self.register.name + part[self.number]

    @property
    def offset(self) -> int:
        return self.register.offset + 4 * self.number

    @property
    def mask(self) -> int:
        return (1 << self.register.bits) - 1 >> 32 * self.number & 0xFFFF_FFFF


def register_words() -> Iterator[RegisterWord]:
    """Every 32 bits that any build has, but those of `control`, where a write is an order."""
    for register in REGISTERS.values():
        if register.name not in ("control", *TABLE_LANE_REGISTERS, *RANDOM_ROUNDING_REGISTERS):
            yield from (RegisterWord(register, number) for number in range(register.words))


def expect(good: bool, problem: str) -> None:
    """CheckFailed with this problem unless all is good."""
    if not good:
        raise CheckFailed(problem)
