"""Mutate the RTL and report which mutants the tests kill: `python -m bitlane_sim.mutation`, or `make mutate`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from . import record
from .campaign import Candidate, TrialResult, run_campaign, sample_mutants
from .operators import mutants
from .trial import Sandbox
from .trial_plan import TrialPlan, is_hardware

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "mutation.md"
LOG = ROOT / "runs" / "mutation.jsonl"
GOAL = 0.95  # mutation score
# Imported once, for all trials.
PRELOADED = ("numpy", "amaranth.sim", "amaranth.back.verilog", "amaranth.lib.wiring", "amaranth.lib.fifo", "pytest")


def main(argv: Sequence[str] | None = None) -> int:
    """Try a sample of mutants and write the record; return 1 when too few are killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--count", type=int, default=850, help="number of mutants that Amaranth elaborates (default 850)"
    )
    parser.add_argument("--seed", type=int, default=None, help="seed of the sample (default: a fresh one)")
    parser.add_argument("--processes", type=int, default=2, help="number of trials at a time (default 2)")
    parser.add_argument(
        "--modules",
        nargs="+",
        metavar="PATTERN",
        help="mutate only these modules, such as 'zynq/*' datapath/rounding, and leave the page as it is",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--resume", action="store_true", help="go on with the last run and its modules; changed ones are tried again"
    )
    which.add_argument("--again", action="store_true", help="try only the survivors of the last run")
    which.add_argument("--repeat", type=int, metavar="N", help="repeat trial N of the last run, with its seed")
    arguments = parser.parse_args(argv)

    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutation.") as folder:
        sandbox = Sandbox(ROOT, Path(folder))
        patterns = record.logged(LOG).campaign.patterns if arguments.resume else arguments.modules or ["*"]
        texts = {
            name: text
            for name, text in sandbox.sources().items()
            if is_hardware(name) and any(fnmatchcase(name, pattern) for pattern in patterns)
        }
        if not texts:
            parser.error(f"no module matches {' '.join(patterns)}")
        found = {name: mutants(name, text) for name, text in texts.items()}
        candidates: Iterable[Candidate]
        modules, seeds, new = [*found], {}, None
        if arguments.repeat:
            trial = record.logged(LOG).trials[arguments.repeat - 1]
            candidates, modules = [(trial.mutant, iter(()))], [trial.mutant.module]
            seeds = {trial.mutant.key: trial.verdict.seed} if trial.verdict.seed is not None else {}
        elif arguments.again:
            log = record.logged(LOG)
            survivors = {result.mutant.key for result in log.results if result.verdict.result == "survived"}
            survivors -= record.known_equivalents().keys()
            tried = [mutant for those in found.values() for mutant in those if mutant.key in survivors]
            candidates = [(mutant, iter(())) for mutant in tried]
            modules = sorted({mutant.module for mutant in tried})
            print(f"{len(tried)} survivors of {len(modules)} modules", flush=True)
        elif arguments.resume:
            log = record.resume(LOG, texts)
            candidates = [*sample_mutants(found, log.campaign.count, log.campaign.seed, log.results)]
            print(f"{len(candidates)} mutants left of {log.campaign.count}; seed {log.campaign.seed}", flush=True)
        else:
            seed = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
            candidates = sample_mutants(found, arguments.count, seed)
            new = record.Campaign.of(seed, arguments.count, patterns, texts)
            print(f"{sum(map(len, found.values()))} mutants of {len(found)} modules; seed {seed}", flush=True)
        print("running the tests without a mutant ...", flush=True)
        plan = TrialPlan.measured(sandbox, modules, lambda name, time: print(f"{time:7.1f} s {name}", flush=True))
        plan.seeds |= seeds

        def on_result(result: TrialResult) -> None:
            verdict = result.verdict
            print(
                f"{verdict.result:9} {result.seconds:5.0f} s {record.describe(result.mutant)} [{verdict.detail}]"
                + (f" seed {verdict.seed}" if verdict.seed is not None else ""),
                flush=True,
            )
            if not arguments.repeat:
                record.append(LOG, result)

        if new:
            record.begin(LOG, new)
        run_campaign(sandbox, candidates, plan.stages, arguments.processes, on_result)
    if arguments.repeat:
        return 0
    log = record.logged(LOG)
    summary = record.summarize(log, record.known_equivalents())
    page = record.markdown(summary, found, date.today())
    if patterns == ["*"]:
        PAGE.write_text(page)
    print(page)
    print(f"{sum(result.seconds for result in log.results) / max(1, len(log.results)):.0f} s of processor time a trial")
    return 0 if summary.score >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
