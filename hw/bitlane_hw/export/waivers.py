"""Waivers of Verilator's lint for the exported Verilog: `verilator --lint-only -Wall TOP.vlt TOP.v` is then silent."""

from __future__ import annotations

from .core import Core

# Notes on the way in which Yosys writes a netlist; the reasons go into the file.
RULES = {
    "CASEINCOMPLETE": "a state machine has fewer states than its register has values",
    "DECLFILENAME": "one file has all modules",
    "INITIALDLY": "a trigger changes after all blocks wait for it, so that simulators with four states run them",
    "PROCASSINIT": "registers have initial values and a reset",
    "UNSIGNED": "comparisons with constants are not simplified",
    "UNUSEDSIGNAL": "intermediate results of the synthesis are kept",
    "WIDTHEXPAND": "operands are extended by the rules of Verilog",
    "WIDTHTRUNC": "results are cut by the rules of Verilog",
}


def waivers(core: Core) -> str:
    """Return the file of waivers of a core, for its Verilog file alone."""
    lines = [f'// {reason}\nlint_off -rule {rule} -file "*{core.top}.v"' for rule, reason in RULES.items()]
    return "\n".join(["`verilator_config", "// Made by bitlane_hw.export; do not edit.", *lines, ""])
