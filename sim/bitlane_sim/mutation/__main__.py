"""Mutate the RTL and see which tests notice: `python -m bitlane_sim.mutation`, or `make mutate`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from . import record
from .campaign import Sampled, Tried, campaign, sampled
from .ladder import Ladder, is_hardware
from .operators import mutants
from .trial import Sandbox

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "mutation.md"
LOG = ROOT / "runs" / "mutation.jsonl"
GOAL = 0.95  # of the mutants killed
WARM = ("numpy", "amaranth.sim", "amaranth.back.verilog", "amaranth.lib.wiring", "amaranth.lib.fifo", "pytest")


def main(argv: Sequence[str] | None = None) -> int:
    """Try a sample of mutants and write the record; exit status 1 where too few are killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="mutants that Amaranth elaborates (default 500)")
    parser.add_argument("--seed", type=int, default=None, help="of the sample; fresh when not given")
    parser.add_argument("--processes", type=int, default=2, help="trials at a time (default 2)")
    parser.add_argument("--again", action="store_true", help="only what survived in the last run")
    arguments = parser.parse_args(argv)
    seed = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed

    for name in WARM:  # once, for every process
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutation.") as folder:
        sandbox = Sandbox(ROOT, Path(folder))
        found = {name: mutants(name, text) for name, text in sandbox.sources().items() if is_hardware(name)}
        print(f"{sum(map(len, found.values()))} mutants of {len(found)} modules; seed {seed}", flush=True)
        print("all tests without a mutant ...", flush=True)
        ladder = Ladder.of(sandbox, found)

        def tell(tried: Tried) -> None:
            print(f"{tried.verdict.result:8} {record.where(tried.mutant)} [{tried.verdict.by}]", flush=True)
            record.append(LOG, tried)

        sample: Iterable[Sampled]
        if arguments.again:
            seed, before = record.logged(LOG)
            now = {mutant.key: mutant for those in found.values() for mutant in those}
            alive = [tried.mutant.key for tried in before if tried.verdict.result == "survived"]
            sample = ((now[key], iter(())) for key in alive if key in now)
        else:
            record.begin(LOG, seed)
            sample = sampled(found, arguments.count, seed)
        campaign(sandbox, sample, ladder.stages, arguments.processes, tell)
    result = record.summary(*record.logged(LOG), record.known_equivalents())
    page = record.markdown(result, found, date.today())
    PAGE.write_text(page)
    print(page)
    return 0 if result.rate >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
