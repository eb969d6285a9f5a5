"""Random runs of the RTL against the numpy reference, both through the driver: `make soak`.

    python -m bitlane_verify.equivalence.soak --minutes 10

Every weight bit, loss word, state register and counter must be equal; without stalls the cycles as well.
Each run has a separate seed; `--seed N --runs 1` repeats one. `--grid` takes other builds: each number of shards and
memory ports in beats of up to 256 bits, with digit lanes and with tables; `--grid 512` those of 512 bits.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from bitlane.contract.layout import BEAT_WIDTHS

from .random_jobs import CONFIGS, grid
from .rig import EquivalenceRig

GRID_WIDTHS = (64, 128, 256)


def main() -> int:
    """Run until the time or the number of runs is reached. Return exit status 1 if anything differed."""
    parser = argparse.ArgumentParser(description="Random runs of the RTL against the numpy reference.")
    parser.add_argument("--minutes", type=float, default=10.0, help="stop after this time (default: 10)")
    parser.add_argument("--runs", type=int, default=None, help="stop after this number of runs")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first run (default: a fresh one)")
    parser.add_argument(
        "--grid",
        type=int,
        nargs="*",
        choices=BEAT_WIDTHS,
        metavar="WIDTH",
        help="every number of shards and ports at these widths (64 128 256)",
    )
    arguments = parser.parse_args()
    first: int = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    end = time.monotonic() + 60 * arguments.minutes
    runs, failures = 0, 0
    bench = EquivalenceRig(CONFIGS if arguments.grid is None else grid(arguments.grid or GRID_WIDTHS))
    while time.monotonic() < end and runs != arguments.runs:
        if wrong := bench.run(first + runs):
            failures += 1
            print(wrong, flush=True)
        runs += 1
        if sys.stderr.isatty():
            print(f"\r{runs} runs, {failures} wrong", end="", file=sys.stderr)
    bench.close()
    print(f"{runs} runs from seed {first}, {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
