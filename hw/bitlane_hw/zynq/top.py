"""The complete design for a Zynq-7000."""

from __future__ import annotations

from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import connect

from bitlane.contract.config import AcceleratorConfig

from .fabric import ZynqFabric, hp_names
from .ps7 import ProcessingSystem

TOP = "bitlane_zynq"
FABRIC_TOP = "bitlane_fabric"
# The memory ports hp0 and hp1 of the fabric. The wires of these two leave the PS7 nearer to those of GP0 than the wires
# of HP0 and HP1. A pair of ports that shares one path to the memory controller: HP0 and HP1, or HP2 and HP3.
HP_PORTS = (2, 3)


class Zynq(wiring.Component):
    """Connect a `ZynqFabric` to the processing system.

    The registers start at the base address of M_AXI_GP0; the memory is on S_AXI_HP2 and 3. The component has no ports:
    clock and reset come from the processing system, which owns the pins.

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
    """

    def __init__(self, config: AcceleratorConfig, build: int | None = None):
        self._names = hp_names(config)
        self._fabric = ZynqFabric(config, build)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()
        m.submodules.fabric = fabric = self._fabric
        m.submodules.system = system = ProcessingSystem(HP_PORTS[: len(self._names)])
        connect(m, system.gp0, fabric.gp0)
        for name, number in zip(self._names, HP_PORTS, strict=False):
            connect(m, getattr(system, f"hp{number}"), getattr(fabric, name))
        m.d.comb += system.irq.eq(fabric.irq)
        return m
