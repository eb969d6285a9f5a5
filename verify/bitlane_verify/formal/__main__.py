"""The command that runs the proofs: `python -m bitlane_verify.formal`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from bitlane.errors import DeviceError

from .proof import Proof
from .proofs import PROOFS
from .runner import SOLVERS, ProofTools, ProofVerdict, find_tools, prove


def main(arguments: list[str] | None = None) -> int:
    """Run the selected proofs and print a line for each.

    Parameters
    ----------
    arguments : list of str, optional
        Arguments of the command line; by default those of the process.

    Returns
    -------
    int
        0 if all selected proofs succeeded, else 1.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_verify.formal",
        description="Prove properties of the RTL. Exits with status 1 unless every selected proof succeeds.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="proof to run (default: all proofs)")
    parser.add_argument("--list", action="store_true", help="list the proofs without running them")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="proofs to run in parallel (default: 2)")
    parser.add_argument("--solver", choices=list(SOLVERS), help="SMT solver (default: the first installed)")
    parser.add_argument("--limit", type=float, default=900, metavar="S", help="seconds for each step (default: 900)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep all files, also counterexamples, in DIR")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(PROOFS))
    if unknown:
        parser.error(f"unknown proof: {', '.join(unknown)}; --list prints the names")
    chosen = [PROOFS[name] for name in given.names or PROOFS]
    if given.list:
        width = max(map(len, PROOFS))
        for proof in chosen:
            print(f"{proof.name:<{width}} {proof.shows}")
        return 0
    try:
        tools = find_tools(given.solver)
    except DeviceError as error:
        print(error, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        directory = given.keep or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        return 0 if prove_all(chosen, tools, directory, given.jobs, given.limit) else 1


def prove_all(proofs: Sequence[Proof], tools: ProofTools, directory: Path, jobs: int = 2, limit: float = 900) -> bool:
    """Run proofs, print a line for each, and return whether all succeeded.

    Parameters
    ----------
    proofs : sequence of Proof
    tools : ProofTools
        The programs.
    directory : Path
        Folder for the files of the proofs.
    jobs : int, default=2
        Proofs to run in parallel.
    limit : float, default=900
        Seconds for each step.
    """
    width = max(len(proof.name) for proof in proofs)
    proved = 0
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(prove, proof, tools, directory, limit) for proof in proofs]
        for done in as_completed(running):
            result = done.result()
            proof = result.proof
            proved += result.verdict is ProofVerdict.PROVED
            print(f"{proof.name:<{width}} {result.verdict.value:<8} {result.seconds:6.1f} s  {proof.shows}", flush=True)
            for note in result.notes:
                print(f"    {note}", flush=True)
    print(f"{proved} of {len(proofs)} proved, with {tools.solver}")
    return proved == len(proofs)


if __name__ == "__main__":
    sys.exit(main())
