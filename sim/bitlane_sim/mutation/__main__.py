"""Mutate the RTL and report which mutants the tests kill: `python -m bitlane_sim.mutation`, or `make mutate`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
        chosen = choose(arguments, patterns, texts)
        print("running the tests without a mutant ...", flush=True)
        plan = TrialPlan.measured(
            sandbox, chosen.modules, lambda name, time: print(f"{time:7.1f} s {name}", flush=True)
        )
        plan.seeds |= chosen.seeds

        def on_result(result: TrialResult) -> None:
            verdict = result.verdict
            print(
                f"{verdict.result:9} {result.seconds:5.0f} s {record.describe(result.mutant)} [{verdict.detail}]"
                + (f" seed {verdict.seed}" if verdict.seed is not None else ""),
                flush=True,
            )
            if not arguments.repeat:
                record.append(LOG, result)

        if chosen.campaign:
            record.begin(LOG, chosen.campaign)
        run_campaign(sandbox, chosen.candidates, plan.stages, arguments.processes, on_result)
    if arguments.repeat:
        return 0
    log = record.logged(LOG)
    summary = record.summarize(log, record.known_equivalents())
    page = record.markdown(summary, texts, date.today())
    if patterns == ["*"]:
        PAGE.write_text(page)
    print(page)
    print(f"{sum(result.seconds for result in log.results) / max(1, len(log.results)):.0f} s of processor time a trial")
    return 0 if summary.score >= GOAL else 1


@dataclass(frozen=True)
class Choice:
    """What a run tries.

    Attributes
    ----------
    candidates : iterable of Candidate
    modules : sequence of str
        Modules of the mutants.
    seeds : dict
        Seeds of the tests of some mutants, by the mutant's key.
    campaign : Campaign or None
        The campaign that begins, if one does.
    """

    candidates: Iterable[Candidate]
    modules: Sequence[str]
    seeds: dict[record.Key, int] = field(default_factory=dict)
    campaign: record.Campaign | None = None


def choose(arguments: argparse.Namespace, patterns: list[str], texts: dict[str, str]) -> Choice:
    """Return what the command line asks for, of modules with these texts."""
    if arguments.repeat:
        trial = record.logged(LOG).trials[arguments.repeat - 1]
        seeds = {trial.mutant.key: trial.verdict.seed} if trial.verdict.seed is not None else {}
        return Choice([(trial.mutant, iter(()))], [trial.mutant.module], seeds)
    found = {name: mutants(name, text) for name, text in texts.items()}
    if arguments.again:
        log = record.logged(LOG)
        survivors = {result.mutant.key for result in log.results if result.verdict.result == "survived"}
        survivors -= record.known_equivalents().keys()
        tried = [mutant for those in found.values() for mutant in those if mutant.key in survivors]
        modules = sorted({mutant.module for mutant in tried})
        print(f"{len(tried)} survivors of {len(modules)} modules", flush=True)
        return Choice([(mutant, iter(())) for mutant in tried], modules)
    if arguments.resume:
        log = record.resume(LOG, texts)
        left = [*sample_mutants(found, log.campaign.count, log.campaign.seed, log.results)]
        print(f"{len(left)} mutants left of {log.campaign.count}; seed {log.campaign.seed}", flush=True)
        return Choice(left, [*found])
    seed = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    print(f"{sum(map(len, found.values()))} mutants of {len(found)} modules; seed {seed}", flush=True)
    campaign = record.Campaign.of(seed, arguments.count, patterns, texts)
    return Choice(sample_mutants(found, arguments.count, seed), [*found], campaign=campaign)


if __name__ == "__main__":
    sys.exit(main())
