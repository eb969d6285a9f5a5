"""Lines, branches and toggles of the RTL: Verilator's counts, less the exclusions.

A point is one arm of an `if`, `case` or `?:` of the Verilog (`line` and `branch` are Verilator's names), or one bit of
a signal in one direction. Amaranth writes `If`, `Switch` and FSM states as an `if` or `case` in the process of each
signal that they assign, and `Mux` as `?:`, so an arm is counted once for each signal and each of the 32 lanes.
"""

from __future__ import annotations

import configparser
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .verilog_source import VerilogSource

KINDS = ("line", "branch", "toggle")
EXCLUSIONS = Path(__file__).with_name("exclusions.ini")
Key = tuple[str, int, int, str, str]  # kind, line, column, detail, instance
Counts = Counter[Key]


def read_counts(path: Path) -> Counts:
    """Return the counts in a file that `Harness.write_coverage` wrote."""
    counts: Counts = Counter()
    for line in path.read_text().splitlines():
        if not line.startswith("C '"):
            continue
        text, _, count = line[3:].rpartition("' ")
        field = dict(item.split("\x02", 1) for item in text.split("\x01") if item)
        kind = field["page"].partition("/")[0].removeprefix("v_")
        counts[kind, int(field["l"]), int(field["n"]), field["o"], field["h"]] += int(count)
    return counts


@dataclass(frozen=True)
class Exclusion:
    """A rule for points that no run can reach.

    Attributes
    ----------
    name : str
        Section of the file.
    pattern : str
        Regular expression that matches the beginning of the points' names.
    reason : str
        Why no run reaches them.
    """

    name: str
    pattern: str
    reason: str


def read_exclusions(path: Path = EXCLUSIONS) -> list[Exclusion]:
    """Return the exclusions of a file.

    Raises
    ------
    ValueError
        An exclusion has no reason.
    """
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(path.read_text())
    exclusions = [Exclusion(name, parser[name]["points"], parser[name].get("reason", "")) for name in parser.sections()]
    for exclusion in exclusions:
        if not exclusion.reason:
            raise ValueError(f"{path.name}: exclusion {exclusion.name!r} has no reason")
    return exclusions


@dataclass(frozen=True)
class CodePoint:
    """A line, branch or toggle point of one build.

    Attributes
    ----------
    build : str
        Name of the build.
    kind : str
        One of KINDS.
    file : str
        Python file of the component.
    name : str
        `file, instance: location, detail`.
    count : int
        How often a run reached it.
    """

    build: str
    kind: str
    file: str
    name: str
    count: int


def code_points(build: str, counts: Mapping[Key, int], source: VerilogSource, within: str = "") -> list[CodePoint]:
    """Return the points of a build, without those that Yosys adds to each process.

    `within` is the beginning of the names of the instances that count.
    """
    points = []
    for (kind, line, _column, detail, _hierarchy), count in counts.items():
        if source.is_added_by_yosys(line) or not source.instance(line).startswith(within):
            continue
        if kind == "toggle":
            file = source.file(line)
            points.append(CodePoint(build, kind, file, f"{file}: {detail}", count))
        else:
            location = source.location(line)
            name = f"{location.file}, {location.instance}: {location.text}, {detail}"
            points.append(CodePoint(build, kind, location.file, name, count))
    return points


class CodeCoverage:
    """Figures and misses of the points of all builds, less the excluded ones.

    The builds' points are counted side by side: a point that one build reaches covers no point of another build.
    """

    def __init__(self, points: Iterable[CodePoint], exclusions: Iterable[Exclusion]):
        rules = [(exclusion.name, re.compile(exclusion.pattern)) for exclusion in exclusions]
        self.excluded: Counter[str] = Counter({name: 0 for name, _ in rules})
        self._points: list[CodePoint] = []
        for point in points:
            rule = next((name for name, pattern in rules if pattern.match(point.name)), None)
            if rule is None:
                self._points.append(point)
            else:
                self.excluded[rule] += 1

    def figures(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return (points hit, points) of each file and kind, and of the file "all"."""
        totals: dict[tuple[str, str], tuple[int, int]] = {}
        for point in self._points:
            for file in (point.file, "all"):
                hit, total = totals.get((file, point.kind), (0, 0))
                totals[file, point.kind] = (hit + bool(point.count), total + 1)
        return totals

    def fraction(self, build: str, kind: str) -> float:
        """Return the fraction of a build's points of a kind that were hit."""
        hits = [bool(point.count) for point in self._points if (point.build, point.kind) == (build, kind)]
        return sum(hits) / len(hits)

    def builds(self) -> list[str]:
        """Return the names of the builds, in order."""
        return list(dict.fromkeys(point.build for point in self._points))

    def missed(self, kind: str) -> Counter[str]:
        """Return the names of the points that were never hit, `build: name`, and how many lanes have each."""
        return Counter(
            f"{point.build}: " + re.sub(r"_\d+\b", "", point.name)
            for point in self._points
            if point.kind == kind and not point.count
        )

    def unused_exclusions(self) -> list[str]:
        """Return the names of the exclusions that match no point."""
        return [name for name, count in self.excluded.items() if not count]
