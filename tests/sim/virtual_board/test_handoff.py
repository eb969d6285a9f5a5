"""The handoff, read by pynq's own parser, for both families."""

from __future__ import annotations

from pathlib import Path

import pytest
from pynqmetadata.frontends import Metadata
from pynqmetadata.views.runtime import RuntimeMetadataParser

from bitlane.contract.registers import REGISTERS, VLNV, absent_registers
from bitlane_hw.build_digest import build_digest
from bitlane_hw.export.hwh import INSTANCE, RANGE
from bitlane_sim.virtual_board.boards import PYNQ_Z2, ZCU104, BoardKind, write_overlay

pytestmark = pytest.mark.pynq


def parsed(bit: Path) -> RuntimeMetadataParser:
    return RuntimeMetadataParser(Metadata(input=bit.with_suffix(".hwh")))


@pytest.mark.parametrize("kind", [PYNQ_Z2, ZCU104], ids=lambda kind: kind.name)
def test_what_pynq_finds(kind: BoardKind, tmp_path: Path) -> None:
    found = parsed(write_overlay(kind, tmp_path, divisors=(5, 3)))
    ip = found.ip_dict[INSTANCE]
    assert (ip["type"], ip["phys_addr"], ip["addr_range"]) == (VLNV, kind.system.base, RANGE)
    assert ip["parameters"] == {
        "BOARD": kind.name,
        "BUILD": str(build_digest(kind.config)),
        "WIDTH": str(kind.config.width),
        "OUTPUTS": "1",
        "CLOCK_MHZ": str(kind.pll_mhz / 15),
    }
    enabled = {i: (clock["enable"], clock["divisor0"], clock["divisor1"]) for i, clock in found.clock_dict.items()}
    assert enabled == {i: (int(i == 0), 5, 3) for i in range(4)}
    assert not found.interrupt_pins


def test_every_register_is_there(kind: BoardKind, tmp_path: Path) -> None:
    """With its offset, its access, and its fields; those of shards and ports only in builds that have some."""
    absent = absent_registers(True, True, 1)
    of_build = [register for register in REGISTERS.values() if register.name not in absent]
    registers = parsed(write_overlay(kind, tmp_path)).ip_dict[INSTANCE]["registers"]
    words = {}
    for register in of_build:
        words[register.name] = register.offset
        if register.words == 2:
            words[f"{register.name}_high"] = register.offset + 4
    assert {name: register["address_offset"] for name, register in registers.items()} == words
    for register in of_build:
        found = registers[register.name]
        assert found["access"] == ("read-write" if register.writable else "read-only")
        fields = {name: (field["bit_offset"], field["bit_width"]) for name, field in found["fields"].items()}
        assert fields == {field.name: (field.low, field.bits) for field in register.fields}


@pytest.mark.parametrize("kind", [PYNQ_Z2, ZCU104], ids=lambda kind: kind.name)
def test_the_interrupt(kind: BoardKind, tmp_path: Path) -> None:
    found = parsed(write_overlay(kind, tmp_path, interrupt=True))
    assert found.interrupt_pins[f"{INSTANCE}/irq"]["controller"] == "axi_intc_0"
    assert found.ip_dict["axi_intc_0"]["phys_addr"] == kind.system.controller
    assert found.interrupt_controllers["axi_intc_0"]["raw_irq"] == (61 if kind is PYNQ_Z2 else 121)
