"""Mutate the RTL and report which mutants the tests kill: `python -m bitlane_verify.mutation`, or `make mutate`."""

from __future__ import annotations

import argparse
import importlib
import itertools
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
from .operators import Mutant, mutants
from .trial import MutantVerdict, Sandbox
from .trial_plan import TrialPlan, is_hardware

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "mutation.md"
LOG = PAGE.with_suffix(".jsonl")
SOME_MODULES_LOG = ROOT / "runs" / "mutation.jsonl"
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
        help="mutate only these modules, such as 'zynq/*' datapath/rounding, with a log of their own in runs",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--resume", action="store_true", help="go on with the last run; modules that have changed are tried again"
    )
    which.add_argument("--again", action="store_true", help="try only the survivors of the last run")
    which.add_argument("--repeat", type=int, metavar="N", help="repeat trial N of the last run, with its seed")
    arguments = parser.parse_args(argv)

    log_path = SOME_MODULES_LOG if arguments.modules else LOG
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutation.") as folder:
        sandbox = Sandbox(ROOT, Path(folder))
        patterns = arguments.modules or ["*"]
        texts = {
            name: text
            for name, text in sandbox.sources().items()
            if is_hardware(name) and any(fnmatchcase(name, pattern) for pattern in patterns)
        }
        if not texts:
            parser.error(f"no module matches {' '.join(patterns)}")
        of_modules = {name: mutants(name, text) for name, text in texts.items()}
        equivalent = record.equivalents(itertools.chain(*of_modules.values()), record.known_equivalents())
        chosen = choose(arguments, log_path, texts, of_modules, equivalent)
        print("running the tests without a mutant ...", flush=True)
        plan = TrialPlan.measured(
            sandbox, chosen.modules, lambda name, time: print(f"{time:7.1f} s {name}", flush=True), arguments.processes
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
                record.append(log_path, result)

        if chosen.campaign:
            record.begin(log_path, chosen.campaign)
        run_campaign(sandbox, chosen.candidates, plan.stages, arguments.processes, on_result)
    if arguments.repeat:
        return 0
    log = record.logged(log_path)
    summary = record.summarize(log, equivalent)
    page = record.markdown(summary, texts, date.today())
    if not arguments.modules:
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


def choose(
    arguments: argparse.Namespace,
    log_path: Path,
    texts: dict[str, str],
    of_modules: dict[str, list[Mutant]],
    equivalent: list[tuple[Mutant, str]],
) -> Choice:
    """Return what the command line asks for, of the mutants of modules with these texts but equivalent ones.

    The last run is that in the log.
    """
    if arguments.repeat:
        trial = record.logged(log_path).trials[arguments.repeat - 1]
        seeds = {trial.mutant.key: trial.verdict.seed} if trial.verdict.seed is not None else {}
        return Choice([(trial.mutant, iter(()))], [trial.mutant.module], seeds)
    left_out = [TrialResult(mutant, MutantVerdict("equivalent")) for mutant, _ in equivalent]
    if arguments.again:
        log = record.logged(log_path)
        survivors = {result.mutant.key for result in log.results if result.verdict.result == "survived"}
        survivors -= {mutant.key for mutant, _ in equivalent}
        tried = [mutant for those in of_modules.values() for mutant in those if mutant.key in survivors]
        modules = sorted({mutant.module for mutant in tried})
        print(f"{len(tried)} survivors of {len(modules)} modules", flush=True)
        return Choice([(mutant, iter(())) for mutant in tried], modules)
    if arguments.resume:
        log = record.resume(log_path, texts)
        left = [*sample_mutants(of_modules, log.campaign.count, log.campaign.seed, [*log.results, *left_out])]
        print(f"{len(left)} mutants left of {log.campaign.count}; seed {log.campaign.seed}", flush=True)
        return Choice(left, [*of_modules])
    seed = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    print(f"{sum(map(len, of_modules.values()))} mutants of {len(of_modules)} modules; seed {seed}", flush=True)
    campaign = record.Campaign.of(seed, arguments.count, texts)
    return Choice(sample_mutants(of_modules, arguments.count, seed, left_out), [*of_modules], campaign=campaign)


if __name__ == "__main__":
    sys.exit(main())
