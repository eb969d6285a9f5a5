"""Prove that mutants change no behaviour: `python -m bitlane_verify.mutation.equivalence [PATTERN ...]`.

A block is elaborated with and without the mutant. Yosys cleans both circuits up, pairs their signals by name, and
proves with its SAT solver that all pairs are equal in every cycle: in the first cycles after power-up (`sat`), and in a
cycle after cycles in which they were equal (`equiv_induct`). Memories are registers here. What is proved holds for the
small builds of the proofs. A pair that is not proved says nothing.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

from bitlane_verify.formal.runner import ProofTools, find_tools

from . import record
from .operators import Mutant, mutants
from .trial import Sandbox

ROOT = Path(__file__).parents[3]
# Blocks that contain what a module defines, where that is no block.
USERS = {
    "common/fixed_point": ("datapath/scalar.StepProduct", "datapath/scalar.Predict", "datapath/update.UpdateLanes"),
    "common/signatures": ("control/control.Control", "datapath/rounding.ModelRounding", "engine.Engine"),
    "datapath/terms": ("datapath/gradient.GradientPass",),
    "encoder/payloads": ("encoder/group_rows.GroupRows",),
}
STEPS = 1  # of the base case, and of the induction
# `zinit` makes all registers begin with 0, because `equiv_make` forgets the initial values.
PREPARE = (
    "read_rtlil {name}.il; hierarchy -top {name}; proc; flatten; opt_clean; memory_map; opt_clean -purge; async2sync; "
    "dffunmap; zinit -all; opt_clean -purge; design -stash {name}; "
)
SCRIPT = (
    "".join(PREPARE.format(name=name) for name in ("without", "with"))
    + "design -copy-from without -as without without; design -copy-from with -as with with; "
    + "equiv_make without with both; hierarchy -top both; opt_clean; design -save pairs; "
    + "equiv_miter -assert base both; hierarchy -top base; flatten; opt_clean; sat -verify -prove-asserts "
    + f"-set-init-zero -tempinduct -tempinduct-baseonly -maxsteps {STEPS} base; design -load pairs; "
    + f"equiv_struct; equiv_simple; equiv_induct -seq {STEPS}; equiv_status -assert"
)
# Run by a process that imports the RTL with or without the mutant.
ELABORATE = """
import importlib, pathlib, sys
from amaranth.back import rtlil
from bitlane_hw.export.verilog import ports
from bitlane_verify.formal.blocks import make_block
module, _, kind = sys.argv[1].rpartition(".")
block = make_block(getattr(importlib.import_module("bitlane_hw." + module.replace("/", ".")), kind))
text = rtlil.convert(block, name=sys.argv[2], ports=ports(block), emit_src=False)
pathlib.Path(sys.argv[2] + ".il").write_text(text)
"""


def blocks_of(mutant: Mutant, source: str) -> tuple[str, ...]:
    """Return the blocks that a mutant of a module may change, as `module.Class`."""
    components = [
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and any("Component" in ast.unparse(base) for base in node.bases)
    ]
    scope = mutant.scope.partition(".")[0]
    chosen = [scope] if scope in components else [] if mutant.module in USERS else components
    return tuple(f"{mutant.module}.{each}" for each in chosen) or USERS[mutant.module]


def is_proved(block: str, rtl: Path, mutated: Path, tools: ProofTools, seconds: float = 300) -> bool:
    """Return whether a block is proved to behave the same in two folders of RTL, within a time."""
    with tempfile.TemporaryDirectory(prefix="equivalence.") as folder:
        for name, path in (("without", rtl), ("with", mutated)):
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), *filter(None, sys.path)])}
            subprocess.run(
                [sys.executable, "-W", "ignore", "-c", ELABORATE, block, name], cwd=folder, env=environment, check=True
            )
        command = [tools.yosys, "-q", "-p", SCRIPT]
        try:
            done = subprocess.run(
                command, cwd=folder, env=tools.environment, capture_output=True, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def main(argv: list[str] | None = None) -> int:
    """Print a line for each known equivalent mutant. Return 1 if one that is recorded as proved is not."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_verify.mutation.equivalence", description=__doc__)
    parser.add_argument("patterns", nargs="*", default=["*"], metavar="PATTERN", help="modules, such as 'zynq/*'")
    patterns = parser.parse_args(argv).patterns
    known, proved, tools, lost = record.known_equivalents(), record.proved_equivalents(), find_tools(), 0
    with tempfile.TemporaryDirectory(prefix="equivalence.") as folder:
        sandbox = Sandbox(ROOT, Path(folder))
        for module, source in sandbox.sources().items():
            if not any(fnmatchcase(module, pattern) for pattern in patterns):
                continue
            for mutant in mutants(module, source):
                if mutant.key not in known:
                    continue
                mutated = sandbox.install(mutant, "mutated")
                rtl = sandbox.root / "hw"
                found = all(is_proved(block, rtl, mutated, tools) for block in blocks_of(mutant, source))
                lost += mutant.key in proved and not found
                print(f"{'proved' if found else 'open':6} {record.describe(mutant)}", flush=True)
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
