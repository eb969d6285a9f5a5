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
from bitlane_hw.export.verilog import TOP, for_simulators, generate, generate_fabric, generate_two_ports

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
    environment = {**os.environ, "PYTHONHASHSEED": "1234", "PYTHONPATH": os.pathsep.join(sys.path)}
    names = ("width", "outputs", "max_features", "row_buffer_beats", "fifo_beats")
    options = [f"--{name.replace('_', '-')}={getattr(config, name)}" for name in names]
    command = [sys.executable, "-m", "bitlane_hw.export", str(tmp_path), *options]
    subprocess.run(command, env=environment, check=True)
    assert (tmp_path / f"{TOP}.v").read_text() == text


# --- four-state simulators
SMALL = {"max_features": 128, "row_buffer_beats": 128, "fifo_beats": 64}
BUILDS = {
    **{f"{width} bits": (generate, AcceleratorConfig(width, **SMALL)) for width in (128, 256, 512)},
    "three outputs": (generate, AcceleratorConfig(outputs=3, **SMALL)),
    "table lanes": (generate, AcceleratorConfig(128, level_slots=64, **SMALL)),
    "random rounding": (generate, AcceleratorConfig(random_rounding=True, **SMALL)),
    "encoder": (generate, AcceleratorConfig(encoder=2, **SMALL)),
    "all but the encoder": (generate, AcceleratorConfig(512, 2, level_slots=64, random_rounding=True, **SMALL)),
    "AXI3 ports": (generate_fabric, AcceleratorConfig(128, address_bits=32, **SMALL)),
    "two AXI4 ports": (generate_two_ports, AcceleratorConfig(256, **SMALL)),
}
BLOCK = re.compile(r"^  always @\*.*\n(.*)", re.MULTILINE)


def asleep(text: str) -> list[str]:
    """The first lines of the blocks `always @*` that a signal with a constant value would not run.

    A block runs if it reads a trigger: a signal of its module that is 0 first, and 1 after all blocks have started.
    """
    found = []
    for module in text.split("\nendmodule\n"):
        began = set(re.findall(r"^  reg (\S+) +=( 0|1'h0);$", module, re.MULTILINE))
        set_later = set(re.findall(r"^  initial (\S+) <= 1'h1;$", module, re.MULTILINE))
        reading = [f"if ({name} ) begin end" for name, _ in began if name in set_later]
        found += [line for line in BLOCK.findall(module) if line.strip() not in reading]
    return found


def check(text: str) -> None:
    assert len(BLOCK.findall(text)) > 100
    assert asleep(text) == []
    assert "[-1:0]" not in text


def test_every_block_runs_at_power_up(text: str) -> None:
    check(text)


@pytest.mark.slow  # elaborates ten accelerators
@pytest.mark.parametrize("build", BUILDS)
def test_every_block_of_every_build_runs_at_power_up(build: str, tmp_path: Path) -> None:
    write, config = BUILDS[build]
    write(config, tmp_path / "top.v")
    check((tmp_path / "top.v").read_text())


YOSYS = r"""
module a(x);
  reg \$auto$verilog_backend.cc:1:dump_module$1  = 0;
  wire [-1:0] \token.output ;
  always @*
    x[0] = y;
  always @* begin
    if (\$auto$verilog_backend.cc:1:dump_module$1 ) begin end
    z = y;
  end
endmodule
module b(x);
  assign x = 1'h0;
endmodule
"""


def test_blocks_without_a_trigger_are_found_and_get_one() -> None:
    assert asleep(YOSYS) == ["    x[0] = y;", r"    if (\$auto$verilog_backend.cc:1:dump_module$1 ) begin end"]
    mended = for_simulators(YOSYS)
    assert asleep(mended) == [] and "[-1:0]" not in mended
    assert mended.count("x[0] = y;") == mended.count("z = y;") == mended.count("initial") == 1
    assert mended.endswith(YOSYS[YOSYS.index("module b") :])
