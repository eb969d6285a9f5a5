"""The accelerator with two memory ports of half its width, for the HP ports of a Zynq UltraScale+."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.build_digest import TWO_PORTS, build_digest
from bitlane_hw.control.registers import ADDRESS_BITS
from bitlane_hw.memory.axi import AXI4Lite

from .hp_port import ULTRASCALE_DATA_BITS, HpPort
from .port_pair import PortPair

WIDTH = 2 * ULTRASCALE_DATA_BITS


def port_of(config: AcceleratorConfig) -> HpPort:
    """Return the kind of port of a build.

    Raises
    ------
    ValueError
        The build does not have twice the width of such a port, or several memories.
    """
    if config.ports > 1:
        raise ValueError(f"ports={config.ports} must be 1: both ports reach one memory")
    if config.width != WIDTH:
        raise ValueError(f"width={config.width} must be {WIDTH} for two ports of {ULTRASCALE_DATA_BITS} bits")
    return HpPort(config.address_bits, ULTRASCALE_DATA_BITS, is_axi3=False)


class TwoPortAccelerator(wiring.Component):
    """Connect an `Accelerator` to two AXI4 ports through a `PortPair`.

    A port of a Zynq UltraScale+ has at most 128 bits. Two of them, which lead to different ports of the memory
    controller, give a build of 256 bits one beat a cycle. They outlive a reset of the logic, and the pair ends the
    bursts that it cuts off.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build: 256 bits.
    build : int or None, default=None
        Value of the `build` register; None for `build_digest`.

    Raises
    ------
    ValueError
        The build has another width.

    Members
    -------
    s_axi : AXI4Lite, in
        The registers.
    m_axi0 : AXI4 of 128 bits, out
        First memory port, with all writes.
    m_axi1 : AXI4 of 128 bits, out
        Second memory port.
    irq : 1 bit, out
        The interrupt.
    """

    def __init__(self, config: AcceleratorConfig, build: int | None = None):
        self._config, self._port = config, port_of(config)
        self._build = build_digest(config, TWO_PORTS) if build is None else build
        super().__init__(
            {
                "s_axi": In(AXI4Lite(ADDRESS_BITS)),
                "m_axi0": Out(self._port.signature),
                "m_axi1": Out(self._port.signature),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.accelerator = accelerator = Accelerator(self._config, self._build)
        m.submodules.memory = memory = PortPair(self._port)
        connect(m, flipped(self.s_axi), accelerator.s_axi)
        connect(m, accelerator.m_axi_read, memory.read)
        connect(m, accelerator.m_axi_write, memory.write)
        connect(m, memory.hp0, flipped(self.m_axi0))
        connect(m, memory.hp1, flipped(self.m_axi1))
        m.d.comb += self.irq.eq(accelerator.irq)
        return m
