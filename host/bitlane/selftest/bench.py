"""What a check uses: the device under test, its own random numbers, and the exception for a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import Register, absent_registers
from bitlane.contract.software_registers import EVERY_REGISTER, registers_of
from bitlane.devices.protocol import Device
from bitlane.driver.driver import Driver
from bitlane.errors import BitlaneError

from .blocks import SystemBlock
from .report import Figures


class CheckFailed(BitlaneError):
    """A check found a difference; the message names it."""


@dataclass(frozen=True)
class CheckContext:
    """The device under test and the random numbers of one check.

    Attributes
    ----------
    driver : Driver
        Driver of the device under test.
    rng : numpy.random.Generator
        Random numbers of this check only, so that no other check changes them.
    """

    driver: Driver
    rng: np.random.Generator

    @property
    def device(self) -> Device:
        """The device under test."""
        return self.driver.device

    @property
    def config(self) -> AcceleratorConfig:
        """Options of its build."""
        return self.driver.config

    def driver_of(self, device: DeviceProxy) -> Driver:
        """Return a driver of a proxy, with the timeout of this driver."""
        return Driver(cast(Device, device), self.driver.timeout)

    def read(self, name: str) -> int:
        """Return the low 32 bits of a register."""
        return self.device.read(EVERY_REGISTER[name].offset)


class DeviceProxy:
    """A device that passes everything on to another one. Subclasses change single methods."""

    def __init__(self, device: Device):
        self.device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)


@dataclass(frozen=True)
class BlockCheck:
    """A check of a block.

    Attributes
    ----------
    block : SystemBlock
        The block that it checks.
    title : str
        Its name within the block.
    run : callable
        Returns the figures of the check, or raises an error that names the difference.
    """

    block: SystemBlock
    title: str
    run: Callable[[CheckContext], Figures]

    @property
    def name(self) -> str:
        """Name in reports."""
        return f"{self.block.name}: {self.title}"


@dataclass(frozen=True)
class RegisterWord:
    """32 bits of the register map. `mask` has the bits that a writable register holds."""

    register: Register
    number: int

    @property
    def name(self) -> str:
        suffixes = ("", "") if self.register.words == 1 else (" low", " high")
        return self.register.name + suffixes[self.number]

    @property
    def offset(self) -> int:
        return self.register.offset + 4 * self.number

    @property
    def mask(self) -> int:
        return (1 << self.register.bits) - 1 >> 32 * self.number & 0xFFFF_FFFF


def register_words(config: AcceleratorConfig) -> Iterator[RegisterWord]:
    """Yield every register word of a build except `control`, where a write is a command."""
    absent = absent_registers(True, config.random_rounding, config.encoder, config.shards, config.ports)
    for register in registers_of(config).values():
        if register.name not in ("control", *absent):
            yield from (RegisterWord(register, number) for number in range(register.words))


def expect(condition: bool, problem: str) -> None:
    """Raise CheckFailed with this message unless the condition holds."""
    if not condition:
        raise CheckFailed(problem)
