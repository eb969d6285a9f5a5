"""All checks with Verilog of others: `python -m bitlane_verify.foreign`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bitlane.errors import BitlaneError
from bitlane_hw.export.build_options import fail
from bitlane_verify.formal.__main__ import prove_all
from bitlane_verify.formal.runner import find_tools

from .axi_checks import PROOFS
from .shared_memory import random_rounds, train_on_shared_memories
from .sources import VERILOG_AXI, WB2AXIP


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each check; return 1 if one of them fails."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_verify.foreign",
        description="Prove wb2axip's AXI properties of the RTL, and train on two cores behind verilog-axi's crossbar.",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the jobs (default: a new one)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep all files, also counterexamples, in DIR")
    given = parser.parse_args(argv)
    seed = int.from_bytes(os.urandom(4), "little") if given.seed is None else given.seed
    rounds = random_rounds(seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = (given.keep or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for sources in (WB2AXIP, VERILOG_AXI):
                sources.text()
            print(f"{WB2AXIP.repository} at {WB2AXIP.commit}")
            proved = prove_all(list(PROOFS.values()), find_tools(), folder)
            print(f"{VERILOG_AXI.repository} at {VERILOG_AXI.commit}")
            run = train_on_shared_memories(folder, seed, rounds)
        except BitlaneError as error:
            fail(parser, error)
        except AssertionError as error:
            print(f"{error}; repeat the run with --seed {seed}", file=sys.stderr)
            return 1
    differences = run.differences()
    print(
        f"{len(rounds)} rounds of two jobs, seed {seed}: the addresses of both cores waited in {run.waiting:,} cycles, "
        f"both received data in {run.receiving:,}"
    )
    print("\n".join(differences) if differences else "all weights and losses equal those of the reference, bit for bit")
    return 0 if proved and not differences else 1


if __name__ == "__main__":
    raise SystemExit(main())
