"""Paths from inputs of the tops to outputs without a register: `python -m bitlane_verify.formal.port_paths`.

AXI forbids such paths between the signals of an interface (Arm IHI 0022, section A3.1.1), because two components with
such paths can make a loop. They are a property of the circuit: neither a simulation nor a property of traces sees them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

from amaranth.hdl import Fragment
from amaranth.hdl._ir import build_netlist
from amaranth.lib import wiring

from bitlane_hw.accelerator import Accelerator
from bitlane_hw.export.verilog import ports
from bitlane_hw.zynq.fabric import ZynqFabric
from bitlane_hw.zynq.two_ports import TwoPortAccelerator

from .proof import CONFIG, PORTED

CLOCK = "clk"  # the netlist has edges from it to the output of each register
ALL_OPTIONS = replace(CONFIG, width=128, level_slots=64, random_rounding=True)
TOPS: dict[str, Callable[[], wiring.Component]] = {
    "64 bits": lambda: Accelerator(CONFIG, 0),
    "128 bits, all options": lambda: Accelerator(ALL_OPTIONS, 0),
    "two ports, two memories": lambda: Accelerator(PORTED, 0),
    "encoders on two ports": lambda: Accelerator(replace(PORTED, encoder=2), 0),
    "encoder": lambda: Accelerator(replace(CONFIG, encoder=2), 0),
    "two AXI4 ports": lambda: TwoPortAccelerator(replace(CONFIG, width=256), 0),
    "AXI3, one port": lambda: ZynqFabric(CONFIG, 0),
    "AXI3, two ports": lambda: ZynqFabric(replace(CONFIG, width=128), 0),
}


def port_paths(component: wiring.Component) -> list[tuple[str, str]]:
    """Return the names of each input of a component, and of each output that depends on it in the same cycle.

    It follows each bit of the netlist of Amaranth from the outputs back to registers, memories and inputs.
    """
    netlist = build_netlist(Fragment.get(component, None), ports=ports(component))
    top = netlist.top
    inputs = {bit: name for name, (start, width) in top.ports_i.items() for bit in range(start, start + width)}
    found = set()
    for output, value in top.ports_o.items():
        waiting, seen = list(value), set(value)
        while waiting:
            net = waiting.pop()
            if net.is_const:
                continue
            if netlist.cells[net.cell] is top:
                found.add((inputs[net.bit], output))
                continue
            sources = {source for source, _ in netlist.cells[net.cell].comb_edges_to(net.bit)} - seen
            seen |= sources
            waiting += sources
    return sorted((source, target) for source, target in found if source != CLOCK)


def main() -> int:
    """Print a line for each top, and its paths. Return 1 if there is one."""
    failed = False
    for name, make in TOPS.items():
        start = time.monotonic()
        paths = port_paths(make())
        failed |= bool(paths)
        verdict = "no path from an input to an output" if not paths else f"{len(paths)} paths"
        print(f"{name:<{max(map(len, TOPS))}} {time.monotonic() - start:6.1f} s  {verdict}", flush=True)
        for source, target in paths:
            print(f"    from {source} to {target}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
