"""What a self test found, as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bitlane.support.atomic import atomic_write

Figures = Mapping[str, int | float | str]

NAME_WIDTH = 44  # of the longest name of a check


@dataclass(frozen=True)
class CheckResult:
    """What one check found.

    Parameters
    ----------
    name: of the check: "what: which".
    seconds: that it took.
    figures: what it measured or went through; empty where it failed.
    problem: what was wrong, in words; empty where nothing was.
    """

    name: str
    seconds: float
    figures: Figures
    problem: str = ""

    @property
    def passed(self) -> bool:
        return not self.problem

    @property
    def line(self) -> str:
        """One line of the report."""
        said = self.problem or ", ".join(f"{name} {_shown(value)}" for name, value in self.figures.items())
        return f"{'pass' if self.passed else 'FAIL'}  {self.name:<{NAME_WIDTH}} {self.seconds:7.3f} s  {said}".rstrip()


@dataclass(frozen=True)
class SelfTestReport:
    """A whole self test.

    Parameters
    ----------
    facts: about the device, the host and the test.
    results: of all checks, in order.
    """

    facts: Figures
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether every check did."""
        return all(result.passed for result in self.results)

    @property
    def verdict(self) -> str:
        """The last line of the report."""
        failed = [result.name for result in self.results if not result.passed]
        seconds = sum(result.seconds for result in self.results)
        if not failed:
            return f"all {len(self.results)} checks passed in {seconds:.1f} s"
        return f"{len(failed)} of {len(self.results)} checks FAILED in {seconds:.1f} s: {', '.join(failed)}"

    def text(self) -> str:
        """The report as it is printed."""
        return "\n".join([*header_lines(self.facts), *(result.line for result in self.results), "", self.verdict, ""])

    def write(self, path: Path) -> None:
        """Writes the report, whole or not at all: as JSON where the name ends with .json, else as text."""
        if path.suffix == ".json":
            results = [{**asdict(result), "passed": result.passed} for result in self.results]
            text = json.dumps({"facts": dict(self.facts), "passed": self.passed, "results": results}, indent=1) + "\n"
        else:
            text = self.text()
        with atomic_write(path) as part:
            part.write_text(text, encoding="utf-8")


def header_lines(facts: Figures) -> Iterator[str]:
    """The lines before the first result."""
    yield "bitlane self test"
    width = max(map(len, facts))
    for name, value in facts.items():
        yield f"  {name:<{width}}  {_shown(value)}"
    yield ""


def _shown(value: int | float | str) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else value
