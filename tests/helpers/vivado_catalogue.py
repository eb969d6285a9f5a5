"""What the vendor's IP that the recipes use has: pins, interfaces, properties. From the vendor's guides PG201, PG164,
PG247 and PG099, as far as the recipes go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Properties = Mapping[str, str]


@dataclass(frozen=True)
class Ports:
    """Of one cell: pins driven and driving, of which some must be connected, and interfaces."""

    inputs: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()  # inputs
    masters: frozenset[str] = frozenset()
    slaves: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Entry:
    """An IP of the catalogue: the properties it knows with their defaults, and its ports, which depend on them."""

    ports: Callable[[Properties], Ports]
    properties: Mapping[str, str] = field(default_factory=dict)
    spaces: tuple[str, ...] = ()  # address spaces
    segments: tuple[str, ...] = ()  # address segments


def _processing_system(properties: Properties) -> Ports:
    inputs, needed, masters, slaves = set(), set(), set(), set()
    for enable, interface, clock, here in (
        ("PSU__USE__M_AXI_GP0", "M_AXI_HPM0_FPD", "maxihpm0_fpd_aclk", masters),
        ("PSU__USE__M_AXI_GP1", "M_AXI_HPM1_FPD", "maxihpm1_fpd_aclk", masters),
        ("PSU__USE__M_AXI_GP2", "M_AXI_HPM0_LPD", "maxihpm0_lpd_aclk", masters),
        ("PSU__USE__S_AXI_GP2", "S_AXI_HP0_FPD", "saxihp0_fpd_aclk", slaves),
        ("PSU__USE__S_AXI_GP3", "S_AXI_HP1_FPD", "saxihp1_fpd_aclk", slaves),
    ):
        if properties[f"CONFIG.{enable}"] == "1":
            here.add(interface)
            inputs.add(clock)
            needed.add(clock)
    if properties["CONFIG.PSU__USE__IRQ0"] == "1":
        inputs.add("pl_ps_irq0")
    outputs = {"pl_resetn0"} | ({"pl_clk0"} if properties["CONFIG.PSU__FPGA_PL0_ENABLE"] == "1" else set())
    return Ports(*map(frozenset, (inputs, outputs, needed, masters, slaves)))


def _smartconnect(properties: Properties) -> Ports:
    pins = frozenset({"aclk", "aresetn"})
    count = {side: int(properties[f"CONFIG.NUM_{side}I"]) for side in "SM"}
    return Ports(
        inputs=pins,
        needed=pins,
        slaves=frozenset(f"S{number:02}_AXI" for number in range(count["S"])),
        masters=frozenset(f"M{number:02}_AXI" for number in range(count["M"])),
    )


def _resets(_: Properties) -> Ports:
    needed = frozenset({"slowest_sync_clk", "ext_reset_in"})
    return Ports(
        inputs=needed | {"aux_reset_in", "mb_debug_sys_rst", "dcm_locked"},
        outputs=frozenset(
            {"mb_reset", "bus_struct_reset", "peripheral_reset", "interconnect_aresetn", "peripheral_aresetn"}
        ),
        needed=needed,
    )


def _interrupts(properties: Properties) -> Ports:
    needed = frozenset({"s_axi_aclk", "s_axi_aresetn", "intr"})
    single = properties["CONFIG.C_IRQ_CONNECTION"] == "1"  # else the interrupt is an interface
    return Ports(needed, frozenset({"irq"} if single else ()), needed, slaves=frozenset({"s_axi"}))


CATALOGUE = {
    "xilinx.com:ip:zynq_ultra_ps_e": Entry(
        _processing_system,
        {
            "CONFIG.PSU__USE__M_AXI_GP0": "1",
            "CONFIG.PSU__USE__M_AXI_GP1": "1",
            "CONFIG.PSU__USE__M_AXI_GP2": "0",
            "CONFIG.PSU__MAXIGP0__DATA_WIDTH": "128",
            "CONFIG.PSU__USE__S_AXI_GP2": "0",
            "CONFIG.PSU__SAXIGP2__DATA_WIDTH": "128",
            "CONFIG.PSU__USE__S_AXI_GP3": "0",
            "CONFIG.PSU__SAXIGP3__DATA_WIDTH": "128",
            "CONFIG.PSU__USE__IRQ0": "0",
            "CONFIG.PSU__FPGA_PL0_ENABLE": "1",
            "CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ": "100",
        },
        ("Data",),
        tuple(
            f"SAXIGP{port + 2}/HP{port}_{name}"
            for port in range(2)
            for name in ("DDR_LOW", "DDR_HIGH", "LPS_OCM", "QSPI")
        ),
    ),
    "xilinx.com:ip:proc_sys_reset": Entry(_resets),
    "xilinx.com:ip:smartconnect": Entry(_smartconnect, {"CONFIG.NUM_SI": "2", "CONFIG.NUM_MI": "1"}),
    "xilinx.com:ip:axi_intc": Entry(_interrupts, {"CONFIG.C_IRQ_CONNECTION": "0"}, segments=("S_AXI/Reg",)),
}
