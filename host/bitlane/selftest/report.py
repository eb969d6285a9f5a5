"""The result of a self test, as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bitlane.support.atomic import atomic_write
from bitlane.support.text import align_columns

from .blocks import SystemBlock

Figures = Mapping[str, int | float | str]

NAME_WIDTH = 56  # of the longest name of a check


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes
    ----------
    block : str
        Name of the block that it checked.
    name : str
        Name of the check, which begins with the block.
    seconds : float
        Time that it took.
    figures : mapping
        Measurements and counts; empty if the check failed.
    problem : str, default=""
        The first difference that it found; empty if it passed.
    """

    block: str
    name: str
    seconds: float
    figures: Figures
    problem: str = ""

    @property
    def passed(self) -> bool:
        return not self.problem

    @property
    def line(self) -> str:
        """Its line in the report."""
        text = self.problem or ", ".join(f"{name} {_shown(value)}" for name, value in self.figures.items())
        return f"{'pass' if self.passed else 'FAIL'}  {self.name:<{NAME_WIDTH}} {self.seconds:7.3f} s  {text}".rstrip()


@dataclass(frozen=True)
class SelfTestReport:
    """The result of a self test.

    Attributes
    ----------
    facts : mapping
        Facts about the device, the host and the test.
    blocks : tuple of SystemBlock
        The blocks of the build.
    results : tuple of CheckResult
        Results of all checks, in the order in which they ran.
    """

    facts: Figures
    blocks: tuple[SystemBlock, ...]
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(result.passed for result in self.results)

    @property
    def failed_blocks(self) -> list[str]:
        """Names of the blocks with a failed check. The first one is where the first difference appeared."""
        return list(dict.fromkeys(result.block for result in self.results if not result.passed))

    @property
    def verdict(self) -> str:
        """One line: how many checks passed or failed."""
        seconds = sum(result.seconds for result in self.results)
        failed = sum(not result.passed for result in self.results)
        if not failed:
            return f"all {len(self.results)} checks of {len(self.blocks)} blocks passed in {seconds:.1f} s"
        return (
            f"{failed} of {len(self.results)} checks FAILED in {len(self.failed_blocks)} of {len(self.blocks)} blocks "
            f"in {seconds:.1f} s"
        )

    def summary(self) -> str:
        """Return a table of the blocks, the verdict, and what to do about a failure."""
        cells = [["block", "checks", "result", "compared"]]
        for block in self.blocks:
            results = [result for result in self.results if result.block == block.name]
            failed = sum(not result.passed for result in results)
            cells.append([block.name, str(len(results)), f"FAIL ({failed})" if failed else "pass", block.compared])
        lines = [align_columns(cells, left=len(cells[0])), "", self.verdict]
        if not self.passed:
            lines += self._advice()
        return "\n".join(lines)

    def _advice(self) -> Iterator[str]:
        """Lines that name the first failed block and say what to do."""
        first = next(result for result in self.results if not result.passed)
        block = next(block for block in self.blocks if block.name == first.block)
        files = ", ".join(f"hw/bitlane_hw/{name}.py" for name in block.files)
        yield f"The first failure is in the {block.name}: {first.problem}"
        yield "Later failures may follow from it, because each check uses the blocks of the checks before it."
        if files:
            yield f"If you changed the RTL, look at {files} first."
        yield f"Run the test again with --seed {self.facts['seed']} to repeat it; attach this report to an issue."

    def text(self) -> str:
        """Return the report as it is printed."""
        lines = [*header_lines(self.facts), *(result.line for result in self.results), "", self.summary(), ""]
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """Write the report to a file, completely or not at all: JSON if its name ends with .json, otherwise text."""
        if path.suffix == ".json":
            results = [{**asdict(result), "passed": result.passed} for result in self.results]
            report = {
                "facts": dict(self.facts),
                "passed": self.passed,
                "blocks": [block.name for block in self.blocks],
                "failed_blocks": self.failed_blocks,
                "results": results,
            }
            text = json.dumps(report, indent=1) + "\n"
        else:
            text = self.text()
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def header_lines(facts: Figures) -> Iterator[str]:
    """Yield the lines before the first result."""
    yield "bitlane self test"
    width = max(map(len, facts))
    for name, value in facts.items():
        yield f"  {name:<{width}}  {_shown(value)}"
    yield ""


def _shown(value: int | float | str) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else value
