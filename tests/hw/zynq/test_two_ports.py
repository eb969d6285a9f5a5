"""The accelerator behind two AXI4 ports: its ports, its build register, and the widths that it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers.simulation import run

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import IDENTITY, REGISTERS
from bitlane_hw.build_digest import TWO_PORTS, build_digest
from bitlane_hw.export.verilog import ports
from bitlane_hw.zynq.two_ports import TwoPortAccelerator, port_of

CONFIG = AcceleratorConfig(256, max_features=128, row_buffer_beats=128)


@pytest.fixture(scope="module")
def dut() -> TwoPortAccelerator:
    return TwoPortAccelerator(CONFIG)


def test_ports_of_the_verilog(dut: TwoPortAccelerator) -> None:
    """Two complete AXI4 ports of 128 bits, with the addresses of the build, and the registers."""
    widths = {name: len(value) for name, (value, _) in ports(dut).items()}
    for port in ("m_axi0", "m_axi1"):
        assert (widths[f"{port}_rdata"], widths[f"{port}_wdata"], widths[f"{port}_wstrb"]) == (128, 128, 16)
        assert widths[f"{port}_araddr"] == widths[f"{port}_awaddr"] == CONFIG.address_bits
    assert {name.partition("_")[0] for name in widths} == {"m", "s", "irq"}


def test_registers_are_reached(dut: TwoPortAccelerator) -> None:
    """Through the AXI4-Lite port, with no memory traffic."""
    found = []

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.s_axi.rready, 1)
        for name in ("identity", "build", "port_bits"):
            ctx.set(dut.s_axi.araddr, REGISTERS[name].offset)
            ctx.set(dut.s_axi.arvalid, 1)
            while not ctx.get(dut.s_axi.arready):
                await ctx.tick()
            await ctx.tick()
            ctx.set(dut.s_axi.arvalid, 0)
            while not ctx.get(dut.s_axi.rvalid):
                await ctx.tick()
            found.append(ctx.get(dut.s_axi.rdata))
            await ctx.tick()
        assert not any(ctx.get(port.arvalid) or ctx.get(port.awvalid) for port in (dut.m_axi0, dut.m_axi1))

    run(dut, testbench)
    assert found == [IDENTITY, build_digest(CONFIG, TWO_PORTS), 256]


@pytest.mark.parametrize("width", [64, 128, 512])
def test_another_width_is_refused(width: int) -> None:
    with pytest.raises(ValueError, match=f"width={width} must be 256 for two ports of 128 bits"):
        port_of(AcceleratorConfig(width))
