"""The accelerator as a core for other designs: the fields that all exported files follow from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from amaranth.lib import wiring
from amaranth.lib.wiring import In

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS, Register
from bitlane.errors import DataError
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.build_digest import CORE, TWO_PORTS, build_digest
from bitlane_hw.memory.axi import memory_names
from bitlane_hw.zynq.two_ports import TwoPortAccelerator, port_of

from .cards import CARDS
from .verilog import TOP, port_name

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KERNEL_ADDRESS_BITS = 64  # of the memory ports of a kernel for Vitis


class Port(NamedTuple):
    """A port of the top module: its name, direction ("in" or "out") and bits."""

    name: str
    direction: str
    bits: int


class Word(NamedTuple):
    """A 32-bit word of the register map: its name, byte offset and register, and its number in the register."""

    name: str
    offset: int
    register: Register
    number: int

    @property
    def bits(self) -> int:
        """Meaningful bits of the word."""
        return min(32, self.register.bits - 32 * self.number)


# The upper word of a 64-bit register is NAME_high.
WORDS = tuple(
    Word(name + "_high" * number, register.offset + 4 * number, register, number)
    for name, register in REGISTERS.items()
    for number in range(register.words)
)


@dataclass(frozen=True)
class Core:
    """An accelerator with the names that other designs know it by.

    Parameters
    ----------
    config : AcceleratorConfig
        Options of the build.
    top : str, default="bitlane_accelerator"
        Name of the top module. The names of all other modules begin with it and a dot.
    memory_ports : {1, 2}, default=1
        AXI4 ports to one memory: one of the width of the build, or two of half the width. Two only with 256 bits. With
        several ports of the build, which have a memory each, 1.
    kernel : bool, default=False
        With a wrapper and a description as a kernel for Vitis. Only with memory_ports=1 and 64 address bits.
    card : str, default=""
        One of `CARDS`: with the options that link the kernel for this card. Only with a kernel.
    assertions : bool, default=False
        With a second source for simulators, which asserts what the blocks expect of each other.

    Raises
    ------
    DataError
        A value that is not possible, or not with the others.
    """

    config: AcceleratorConfig = field(default_factory=AcceleratorConfig)
    top: str = TOP
    memory_ports: int = 1
    kernel: bool = False
    card: str = ""
    assertions: bool = False

    def __post_init__(self) -> None:
        if not IDENTIFIER.fullmatch(self.top):
            raise DataError(f"top={self.top!r} is no name of a module: use letters, digits and _, no digit first")
        if self.memory_ports not in (1, 2):
            raise DataError(f"memory_ports={self.memory_ports} must be 1 or 2")
        if self.memory_ports == 2:
            try:
                port_of(self.config)
            except ValueError as error:
                raise DataError(f"memory_ports=2: {error}") from None
        if self.card and self.card not in CARDS:
            raise DataError(f"card={self.card!r} is unknown: choose one of {', '.join(CARDS)}")
        if self.card and not self.kernel:
            raise DataError(f"card={self.card!r} needs a kernel: add --kernel")
        if self.kernel and (self.memory_ports, self.config.address_bits) != (1, KERNEL_ADDRESS_BITS):
            raise DataError(
                f"a kernel has memory_ports=1 and address_bits={KERNEL_ADDRESS_BITS}, "
                f"not memory_ports={self.memory_ports} and address_bits={self.config.address_bits}"
            )

    @property
    def memory(self) -> tuple[str, ...]:
        """The names of the interfaces to memory."""
        return memory_names(self.config) if self.memory_ports == 1 else ("m_axi0", "m_axi1")

    @property
    def build(self) -> int:
        """The value of the register `build`."""
        return build_digest(self.config, CORE if self.memory_ports == 1 else TWO_PORTS)

    def component(self) -> wiring.Component:
        """Return a new component."""
        return (Accelerator if self.memory_ports == 1 else TwoPortAccelerator)(self.config)


def ports_of(component: wiring.Component) -> tuple[Port, ...]:
    """Return the ports of the module that is made from `component`, clock and reset first."""
    members = component.signature.flatten(component)
    return (
        *(Port(name, "in", 1) for name in ("clk", "rst")),
        *(Port(port_name(path), "in" if each.flow == In else "out", len(value)) for path, each, value in members),
    )
