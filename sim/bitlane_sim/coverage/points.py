"""Lines, branches and toggles of the RTL: what Verilator counted, less what is excluded.

A point is one arm of an `if`, `case` or `?:` of the Verilog (`line` and `branch` are Verilator's own names), or one
bit of a signal in one direction. Amaranth's `If`, `Switch` and FSM states become an `if` or `case` in the process of
each signal that they assign, and `Mux` becomes `?:`, so arms are counted once for each signal and each of the
thirty-two lanes.
"""

from __future__ import annotations

import configparser
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .source import Lines

KINDS = ("line", "branch", "toggle")
EXCLUSIONS = Path(__file__).with_name("exclusions.ini")
Key = tuple[str, int, int, str, str]  # kind, line, column, what of it, instance


def read_counts(path: Path) -> Counter[Key]:
    """What a simulator wrote with `Harness.write_coverage`; counts of several files add up."""
    counts: Counter[Key] = Counter()
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
    """Points that no run can reach: those whose name the pattern matches from its beginning, and why."""

    name: str
    pattern: str
    reason: str


def exclusions(path: Path = EXCLUSIONS) -> list[Exclusion]:
    """All of a file. ValueError where one has no reason."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(path.read_text())
    found = [Exclusion(name, parser[name]["points"], parser[name].get("reason", "")) for name in parser.sections()]
    for exclusion in found:
        if not exclusion.reason:
            raise ValueError(f"{path.name}: {exclusion.name} has no reason")
    return found


@dataclass(frozen=True)
class Point:
    """One point: kind, file of the component, its name (file, instance: place, what of it), count."""

    kind: str
    file: str
    name: str
    count: int


def points(counts: Mapping[Key, int], lines: Lines) -> list[Point]:
    """Of the Verilog's own, without what Yosys adds."""
    found = []
    for (kind, line, _column, what, _hierarchy), count in counts.items():
        if lines.exists_for_yosys(line):
            continue
        if kind == "toggle":
            found.append(Point(kind, lines.file(line), f"{lines.file(line)}: {what}", count))
        else:
            place = lines.place(line)
            found.append(Point(kind, place.file, f"{place.file}, {place.instance}: {place.text}, {what}", count))
    return found


class Report:
    """Figures and misses of the RTL's coverage."""

    def __init__(self, found: Iterable[Point], excluded: Iterable[Exclusion]):
        rules = [(exclusion.name, re.compile(exclusion.pattern)) for exclusion in excluded]
        self.used: Counter[str] = Counter({name: 0 for name, _ in rules})
        self._kept: list[Point] = []
        for point in found:
            rule = next((name for name, pattern in rules if pattern.match(point.name)), None)
            if rule is None:
                self._kept.append(point)
            else:
                self.used[rule] += 1

    def figures(self) -> dict[tuple[str, str], tuple[int, int]]:
        """For each file and kind, and for the file "all": points that were hit, points."""
        totals: dict[tuple[str, str], tuple[int, int]] = {}
        for point in self._kept:
            for file in (point.file, "all"):
                hit, of = totals.get((file, point.kind), (0, 0))
                totals[file, point.kind] = (hit + bool(point.count), of + 1)
        return totals

    def share(self, kind: str) -> float:
        """Of all points of a kind, those that were hit."""
        hit, of = self.figures()["all", kind]
        return hit / of

    def missed(self, kind: str) -> Counter[str]:
        """Names of points never hit; how many have it (one for each lane)."""
        return Counter(
            re.sub(r"_\d+\b", "", point.name) for point in self._kept if point.kind == kind and not point.count
        )

    def unused(self) -> list[str]:
        """Exclusions that match nothing: they can go."""
        return [name for name, count in self.used.items() if not count]
