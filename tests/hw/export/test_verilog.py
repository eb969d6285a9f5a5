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

from bitlane_hw.export.verilog import TOP, generate

ROWS_PER_BEAT, OUTPUTS = 2, 1
CONFIG = small_config(ROWS_PER_BEAT, OUTPUTS)
A = CONFIG.address_bits
LITE = {
    "awaddr": 12, "awprot": 3, "awvalid": 1, "wdata": 32, "wstrb": 4, "wvalid": 1, "bready": 1,
    "araddr": 12, "arprot": 3, "arvalid": 1, "rready": 1,
}  # fmt: skip
LITE_ANSWERS = {
    "awready": 1, "wready": 1, "bresp": 2, "bvalid": 1, "arready": 1, "rdata": 32, "rresp": 2, "rvalid": 1,
}  # fmt: skip
FULL = {
    **{f"{c}{name}": bits for c in ("ar", "aw")
       for name, bits in {"id": 1, "addr": A, "len": 8, "size": 3, "burst": 2, "valid": 1}.items()},
    "wdata": 64 * ROWS_PER_BEAT, "wstrb": 8 * ROWS_PER_BEAT, "wlast": 1, "wvalid": 1, "bready": 1, "rready": 1,
}  # fmt: skip
FULL_ANSWERS = {
    "arready": 1, "awready": 1, "wready": 1, "bid": 1, "bresp": 2, "bvalid": 1,
    "rid": 1, "rdata": 64 * ROWS_PER_BEAT, "rresp": 2, "rlast": 1, "rvalid": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("verilog") / "top.v"
    generate(CONFIG, path)
    return path.read_text()


def test_ports(text: str) -> None:
    """A clock, a reset, an interrupt, and two AXI ports with their usual names."""
    header = text[text.index(f"module {TOP}(") :]
    header = header[: header.index("endmodule")]
    ports = {
        name: (direction, int(high or 0) + 1)
        for direction, high, name in re.findall(
            r"^  (input|output) (?:wire |reg )?(?:\[(\d+):0\] )?(\w+);", header, re.M
        )
    }
    expected = {"clk": ("input", 1), "rst": ("input", 1), "irq": ("output", 1)}
    for prefix, names, direction in (
        ("s_axi", LITE, "input"),
        ("s_axi", LITE_ANSWERS, "output"),
        ("m_axi", FULL, "output"),
        ("m_axi", FULL_ANSWERS, "input"),
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


def test_another_process_generates_the_same_text(text: str, tmp_path: Path) -> None:
    """The text does not depend on the hash seed of Python."""
    path = tmp_path / "top.v"
    environment = {**os.environ, "PYTHONHASHSEED": "1234", "PYTHONPATH": os.pathsep.join(sys.path)}
    sizes = {name: getattr(CONFIG, name) for name in ("max_features", "row_buffer_beats", "fifo_beats")}
    options = [f"--{name.replace('_', '-')}={size}" for name, size in sizes.items()]
    shape = [f"--width={64 * ROWS_PER_BEAT}", f"--outputs={OUTPUTS}"]
    command = [sys.executable, "-m", "bitlane_hw.export.verilog", str(path), *shape, *options]
    subprocess.run(command, env=environment, check=True)
    assert path.read_text() == text
