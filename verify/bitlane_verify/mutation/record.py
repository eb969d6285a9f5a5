"""The record of the last campaign: `docs/mutation.md`, and each trial in `docs/mutation.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

from .campaign import TrialResult
from .operators import Mutant
from .trial import MutantVerdict

EQUIVALENT = Path(__file__).with_name("equivalent.json")
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Summary:
    """The results of a campaign by kind.

    Attributes
    ----------
    seed, count : int
        Of the sample.
    counted : list of TrialResult
        Killed and survived mutants.
    equivalent : list of (Mutant, str)
        Mutants that no test can kill, and why.
    invalid, identical : int
        Numbers of mutants that were replaced by others.
    killed_later : int
        Number of killed mutants that survived their first trial.
    """

    seed: int
    count: int
    counted: list[TrialResult]
    equivalent: list[tuple[Mutant, str]]
    invalid: int
    identical: int
    killed_later: int

    @property
    def survivors(self) -> list[TrialResult]:
        return [result for result in self.counted if result.verdict.result == "survived"]

    @property
    def killed(self) -> int:
        return len(self.counted) - len(self.survivors)

    @property
    def score(self) -> float:
        """Fraction of the counted mutants that were killed; 1 without any."""
        return self.killed / len(self.counted) if self.counted else 1.0


@dataclass(frozen=True)
class Campaign:
    """Which mutants a campaign tries.

    Attributes
    ----------
    seed : int
        Of the sample.
    count : int
        Size of the sample.
    sources : dict of str to str
        SHA-256 digest of each of these modules.
    """

    seed: int
    count: int
    sources: dict[str, str]

    @classmethod
    def of(cls, seed: int, count: int, texts: dict[str, str]) -> Campaign:
        """Return the campaign over modules with these texts."""
        return cls(seed, count, {name: sha256(text.encode()).hexdigest() for name, text in texts.items()})


@dataclass(frozen=True)
class CampaignLog:
    """The log of a campaign.

    Attributes
    ----------
    campaign : Campaign
        Which mutants it tries.
    results : list of TrialResult
        The last result of each mutant.
    killed_later : int
        Number of killed mutants that survived their first trial.
    trials : list of TrialResult
        Every trial, in the order of their numbers, which count from 1.
    """

    campaign: Campaign
    results: list[TrialResult]
    killed_later: int
    trials: list[TrialResult]


def summarize(log: CampaignLog, equivalent: list[tuple[Mutant, str]]) -> Summary:
    """Sort the results of a log by kind; `equivalent` is what `equivalents` returns."""
    counted: list[TrialResult] = []
    replaced = {"invalid": 0, "identical": 0}
    known = {mutant.key for mutant, _ in equivalent}
    for result in log.results:
        if result.verdict.result in replaced:
            replaced[result.verdict.result] += 1
        elif result.mutant.key not in known:
            counted.append(result)
    sample = log.campaign
    return Summary(sample.seed, sample.count, counted, equivalent, **replaced, killed_later=log.killed_later)


def equivalents(mutants: Iterable[Mutant], reasons: dict[Key, str]) -> list[tuple[Mutant, str]]:
    """Return those of these mutants that are known to change no behaviour; `reasons` as of `known_equivalents`."""
    return [(mutant, reasons[mutant.key]) for mutant in mutants if mutant.key in reasons]


def known_equivalents(path: Path = EQUIVALENT) -> dict[Key, str]:
    """Return, by the mutant's key, why each known equivalent mutant changes no behaviour."""
    return {_key(entry): entry["reason"] + " (proved)" * entry.get("proved", False) for entry in _entries(path)}


def _entries(path: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return entries


def _key(entry: dict[str, Any]) -> Key:
    return entry["module"], entry["scope"], entry["change"]


def proved_equivalents(path: Path = EQUIVALENT) -> set[Key]:
    """Return the keys of the mutants that `equivalence` has proved to change no behaviour."""
    return {_key(entry) for entry in _entries(path) if entry.get("proved")}


def begin(path: Path, campaign: Campaign) -> None:
    """Begin the log of a campaign."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(_line(campaign))


def resume(path: Path, texts: dict[str, str]) -> CampaignLog:
    """Return the log of a campaign that goes on with modules of these texts; the file loses the trials of others.

    A module whose text has changed is tried again.
    """
    log = logged(path)
    campaign = Campaign.of(log.campaign.seed, log.campaign.count, texts)
    unchanged = {name for name, digest in campaign.sources.items() if log.campaign.sources.get(name) == digest}
    lines = [_line(campaign), *(_line(result) for result in log.trials if result.mutant.module in unchanged)]
    new = path.with_suffix(".new")
    new.write_text("".join(lines))
    new.replace(path)  # the complete log or the old one, if this is cut short
    return logged(path)


def append(path: Path, result: TrialResult) -> None:
    """Add a trial to the log."""
    with path.open("a") as file:
        file.write(_line(result))


def _line(entry: Campaign | TrialResult) -> str:
    """Return a line of the log."""
    return json.dumps(asdict(entry)) + "\n"


def logged(path: Path) -> CampaignLog:
    """Read a log."""
    first, *lines = path.read_text().splitlines()
    last: dict[Key, TrialResult] = {}
    survived: set[Key] = set()
    trials = [
        TrialResult(Mutant(**entry["mutant"]), MutantVerdict(**entry["verdict"]), entry["seconds"])
        for entry in map(json.loads, lines)
    ]
    for result in trials:
        last[result.mutant.key] = result
        if result.verdict.result == "survived":
            survived.add(result.mutant.key)
    later = sum(last[key].verdict.result == "killed" for key in survived)
    return CampaignLog(Campaign(**json.loads(first)), [*last.values()], later, trials)


def describe(mutant: Mutant) -> str:
    """Return a mutant's file, line and change as one line."""
    return f"{mutant.module}.py:{mutant.line}: {mutant.change}"


def markdown(summary: Summary, modules: Iterable[str], day: date) -> str:
    """Return the record as a page that lists all `modules`."""
    lines = [
        "# Mutation of the RTL",
        "",
        f"`make mutate` on {day.isoformat()}, seed {summary.seed}: {summary.killed} of {len(summary.counted)} mutants "
        f"killed ({100 * summary.score:.1f} %), of a sample of {summary.count}.",
        "",
        "A mutant is one small change of the RTL's source. It is killed when a unit test or a simulation of a complete "
        "build fails. The log, `docs/mutation.jsonl`, has each trial with the seed of its tests: "
        "`python -m bitlane_verify.mutation --repeat N` repeats trial N; `--resume` continues a run that ended early.",
        "",
        f"Not counted: {summary.invalid} mutants that Amaranth does not elaborate, {summary.identical} that leave the "
        f"Verilog unchanged. {len(summary.equivalent)} that change the Verilog but no behaviour are not tried again.",
        "",
        *_later(summary.killed_later),
        "| module | mutants | killed | survived |",
        "| --- | ---: | ---: | ---: |",
    ]
    for module in modules:
        results = [result for result in summary.counted if result.mutant.module == module]
        survived = sum(result.verdict.result == "survived" for result in results)
        lines.append(f"| {module} | {len(results)} | {len(results) - survived} | {survived} |")
    lines += ["", "## Survivors", ""]
    lines += sorted(f"- {describe(result.mutant)}" for result in summary.survivors) or ["None."]
    lines += ["", "## Equivalent mutants", ""]
    lines += sorted(f"- {describe(mutant)}: {reason}" for mutant, reason in summary.equivalent) or ["None."]
    return "\n".join(lines) + "\n"


def _later(count: int) -> list[str]:
    """Return the lines on mutants that survived at first."""
    if not count:
        return []
    return [f"{count} of the killed mutants survived at first: the tests that kill them were written afterwards.", ""]
