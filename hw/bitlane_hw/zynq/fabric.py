"""The accelerator with the AXI3 ports of a Zynq-7000."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.build_digest import ZYNQ, build_digest

from .axi3 import HP_DATA_BITS, gp_signature, hp_signature
from .memory_port import MemoryPort
from .port_pair import PortPair
from .register_port import RegisterPort

ADDRESS_BITS = 32


def hp_names(config: AcceleratorConfig) -> tuple[str, ...]:
    """Return the names of the HP ports of a build: `hp0` for 64 bits, `hp0` and `hp1` for 128 bits.

    Raises
    ------
    ValueError
        The build does not fit the ports of a Zynq-7000.
    """
    if config.ports > 1:
        raise ValueError(f"ports={config.ports} must be 1 on a Zynq-7000")
    if config.width not in (HP_DATA_BITS, 2 * HP_DATA_BITS):
        raise ValueError(f"width={config.width} must be 64 (one HP port) or 128 (two) on a Zynq-7000")
    if config.address_bits != ADDRESS_BITS:
        raise ValueError(f"address_bits={config.address_bits} must be {ADDRESS_BITS} on a Zynq-7000")
    return tuple(f"hp{i}" for i in range(config.width // HP_DATA_BITS))


class ZynqFabric(wiring.Component):
    """All of the programmable logic. The processing system is outside.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build: 64 or 128 bits, with 32-bit addresses.
    build : int or None, default=None
        Value of the `build` register; None for `build_digest`.

    Raises
    ------
    ValueError
        The build does not fit the ports of a Zynq-7000.

    Members
    -------
    gp0 : AXI3, in
        The registers.
    hp0 : AXI3, out
        The memory.
    hp1 : AXI3, out
        The memory. Only if the width is 128.
    irq : 1 bit, out
        The interrupt of the accelerator, one cycle later.
    """

    def __init__(self, config: AcceleratorConfig, build: int | None = None):
        self._config = config
        self._build = build_digest(config, ZYNQ) if build is None else build
        ports = {name: Out(hp_signature()) for name in hp_names(config)}
        super().__init__({"gp0": In(gp_signature()), **ports, "irq": Out(1)})

    def elaborate(self, platform):
        m = Module()
        names = hp_names(self._config)
        m.submodules.accelerator = accelerator = Accelerator(self._config, self._build)
        m.submodules.registers = registers = RegisterPort()
        m.submodules.memory = memory = MemoryPort() if len(names) == 1 else PortPair()
        connect(m, flipped(self.gp0), registers.gp)
        connect(m, registers.lite, accelerator.s_axi)
        connect(m, accelerator.m_axi_read, memory.read)
        connect(m, accelerator.m_axi_write, memory.write)
        for name in names:
            connect(m, getattr(memory, name), flipped(getattr(self, name)))
        m.d.sync += self.irq.eq(accelerator.irq)
        return m
