"""What the last run found: `docs/mutation.md`, and each verdict in `runs/mutation.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from .campaign import Tried
from .operators import Mutant
from .trial import Verdict

EQUIVALENT = Path(__file__).with_name("equivalent.json")
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Summary:
    """Of a run: the verdicts that count.

    Attributes
    ----------
    seed: of the sample. tried: killed and survived. equivalent: survivors that nobody can see, and why.
    refused, same: how many were neither.
    """

    seed: int
    tried: list[Tried]
    equivalent: list[tuple[Tried, str]]
    refused: int
    same: int

    @property
    def survivors(self) -> list[Tried]:
        return [tried for tried in self.tried if tried.verdict.result == "survived"]

    @property
    def killed(self) -> int:
        return len(self.tried) - len(self.survivors)

    @property
    def rate(self) -> float:
        """The part of the mutants that is killed; 1 where there are none."""
        return self.killed / len(self.tried) if self.tried else 1.0


def summary(seed: int, done: Iterable[Tried], reasons: dict[Key, str]) -> Summary:
    """Sort verdicts."""
    found = Summary(seed, [], [], 0, 0)
    counted = {"refused": 0, "same": 0}
    for tried in done:
        if tried.verdict.result in counted:
            counted[tried.verdict.result] += 1
        elif tried.verdict.result == "survived" and tried.mutant.key in reasons:
            found.equivalent.append((tried, reasons[tried.mutant.key]))
        else:
            found.tried.append(tried)
    return Summary(seed, found.tried, found.equivalent, **counted)


def known_equivalents(path: Path = EQUIVALENT) -> dict[Key, str]:
    """Why each of the mutants that are known to change nothing does so."""
    entries = json.loads(path.read_text()) if path.exists() else []
    return {(entry["module"], entry["place"], entry["change"]): entry["reason"] for entry in entries}


def begin(path: Path, seed: int) -> None:
    """An empty log of a sample."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"seed": seed}) + "\n")


def append(path: Path, tried: Tried) -> None:
    """Add a verdict to the log."""
    with path.open("a") as file:
        file.write(json.dumps({"mutant": asdict(tried.mutant), "verdict": asdict(tried.verdict)}) + "\n")


def logged(path: Path) -> tuple[int, list[Tried]]:
    """The seed of a log, and the last verdict of each mutant."""
    first, *lines = path.read_text().splitlines()
    entries = map(json.loads, lines)
    verdicts = (Tried(Mutant(**entry["mutant"]), Verdict(**entry["verdict"])) for entry in entries)
    return int(json.loads(first)["seed"]), [*{tried.mutant.key: tried for tried in verdicts}.values()]


def where(mutant: Mutant) -> str:
    """A mutant's place and change, on a line."""
    return f"{mutant.module}.py:{mutant.line}: {mutant.change}"


def markdown(found: Summary, modules: Iterable[str], day: date) -> str:
    """The record as a page."""
    lines = [
        "# Mutation of the RTL",
        "",
        f"`make mutate` on {day.isoformat()}, seed {found.seed}: {found.killed} of {len(found.tried)} mutants killed "
        f"({100 * found.rate:.1f} %).",
        "",
        f"Besides these, Amaranth refused {found.refused}; {found.same} left the Verilog as it was; "
        f"{len(found.equivalent)} survived that change nothing that can be seen, for the reasons given below.",
        "",
        "| module | mutants | killed | survived |",
        "| --- | ---: | ---: | ---: |",
    ]
    for module in modules:
        mine = [tried for tried in found.tried if tried.mutant.module == module]
        alive = sum(tried.verdict.result == "survived" for tried in mine)
        lines.append(f"| {module} | {len(mine)} | {len(mine) - alive} | {alive} |")
    lines += ["", "## Survivors", ""]
    lines += sorted(f"- {where(tried.mutant)}" for tried in found.survivors) or ["None."]
    lines += ["", "## Equivalent", ""]
    lines += sorted(f"- {where(tried.mutant)}: {reason}" for tried, reason in found.equivalent) or ["None."]
    return "\n".join(lines) + "\n"
