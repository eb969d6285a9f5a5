"""The generated Verilog: its ports, and that the same sources always generate the same text."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.places import ROOT
from tests.helpers.run_shapes import small_config

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.export.verilog import TOP, generate

LITE = {
    "awaddr": 12, "awprot": 3, "awvalid": 1, "wdata": 32, "wstrb": 4, "wvalid": 1, "bready": 1,
    "araddr": 12, "arprot": 3, "arvalid": 1, "rready": 1,
}  # fmt: skip
LITE_ANSWERS = {
    "awready": 1, "wready": 1, "bresp": 2, "bvalid": 1, "arready": 1, "rdata": 32, "rresp": 2, "rvalid": 1,
}  # fmt: skip


def memory_port(config: AcceleratorConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Return the outputs and the inputs of the AXI4 master, without its prefix."""
    address = {"id": 1, "addr": config.address_bits, "len": 8, "size": 3, "burst": 2, "valid": 1}
    outputs = {
        **{f"{channel}{name}": bits for channel in ("ar", "aw") for name, bits in address.items()},
        "wdata": config.width, "wstrb": config.width // 8, "wlast": 1, "wvalid": 1, "bready": 1, "rready": 1,
    }  # fmt: skip
    inputs = {
        "arready": 1, "awready": 1, "wready": 1, "bid": 1, "bresp": 2, "bvalid": 1,
        "rid": 1, "rdata": config.width, "rresp": 2, "rlast": 1, "rvalid": 1,
    }  # fmt: skip
    return outputs, inputs


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.slow)], ids=["64 bits", "128 bits"])
def config(request: pytest.FixtureRequest) -> AcceleratorConfig:
    return small_config(request.param)


@pytest.fixture(scope="module")
def text(config: AcceleratorConfig, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("verilog") / "top.v"
    generate(config, path)
    return path.read_text()


def test_ports(config: AcceleratorConfig, text: str) -> None:
    """A clock, a reset, an interrupt, and two AXI ports with their usual names."""
    header = text[text.index(f"module {TOP}(") :]
    header = header[: header.index("endmodule")]
    ports = {
        name: (direction, int(high or 0) + 1)
        for direction, high, name in re.findall(
            r"^  (input|output) (?:wire |reg )?(?:\[(\d+):0\] )?(\w+);", header, re.M
        )
    }
    memory_outputs, memory_inputs = memory_port(config)
    expected = {"clk": ("input", 1), "rst": ("input", 1), "irq": ("output", 1)}
    for prefix, names, direction in (
        ("s_axi", LITE, "input"),
        ("s_axi", LITE_ANSWERS, "output"),
        ("m_axi", memory_outputs, "output"),
        ("m_axi", memory_inputs, "input"),
    ):
        expected |= {f"{prefix}_{name}": (direction, bits) for name, bits in names.items()}
    assert ports == expected


def test_one_top_module(text: str) -> None:
    modules = re.findall(r"^module (\S+?)\(", text, re.M)
    assert modules.count(TOP) == 1
    assert all(name == TOP or name.startswith((f"{TOP}.", f"\\{TOP}.")) for name in modules)


def test_text_contains_no_paths(text: str) -> None:
    assert str(ROOT) not in text
    assert "(* src" not in text


@pytest.mark.slow
def test_another_process_generates_the_same_text(config: AcceleratorConfig, text: str, tmp_path: Path) -> None:
    """The text does not depend on the hash seed of Python."""
    path = tmp_path / "top.v"
    environment = {**os.environ, "PYTHONHASHSEED": "1234", "PYTHONPATH": os.pathsep.join(sys.path)}
    names = ("width", "outputs", "max_features", "row_buffer_beats", "fifo_beats")
    options = [f"--{name.replace('_', '-')}={getattr(config, name)}" for name in names]
    command = [sys.executable, "-m", "bitlane_hw.export.verilog", str(path), *options]
    subprocess.run(command, env=environment, check=True)
    assert path.read_text() == text
