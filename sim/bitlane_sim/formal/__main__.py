"""Prove what there is to be proved: one line a proof, exit status 1 where one is not PROVED."""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from bitlane.errors import DeviceError

from .proofs import PROOFS
from .runner import SOLVERS, Verdict, find, prove


def main(arguments: list[str] | None = None) -> int:
    """Run the proofs that were asked for, or all; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_sim.formal", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the proofs to run; all of them by default")
    parser.add_argument("--list", action="store_true", help="say what there is, and prove nothing")
    parser.add_argument("--jobs", type=int, default=2, help="proofs at a time")
    parser.add_argument("--solver", choices=list(SOLVERS), help="by default the first of these that is installed")
    parser.add_argument("--limit", type=float, default=900, help="seconds for each step of a proof")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the files, counterexamples among them, here")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(PROOFS))
    if unknown:
        parser.error(f"no proof is called {', '.join(unknown)}; --list says which there are")
    chosen = [PROOFS[name] for name in given.names or PROOFS]
    if given.list:
        for proof in chosen:
            print(f"{proof.name:<15} {proof.shows}")
        return 0
    try:
        tools = find(given.solver)
    except DeviceError as error:
        print(error, file=sys.stderr)
        return 1
    proved = 0
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(given.jobs) as pool:
        directory = given.keep or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        running = [pool.submit(prove, proof, tools, directory, given.limit) for proof in chosen]
        for done in as_completed(running):
            result = done.result()
            proof = result.proof
            proved += result.verdict is Verdict.PROVED
            print(f"{proof.name:<15} {result.verdict.value:<8} {result.seconds:6.1f} s  {proof.shows}", flush=True)
            for note in result.notes:
                print(f"    {note}", flush=True)
    print(f"{proved} of {len(chosen)} proved, with {tools.solver}")
    return 0 if proved == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
