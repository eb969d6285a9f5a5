"""The figures of `make nightly`, from the files in docs/history: a table, and curves of figures that two days have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

FORMAT = 1
FIELDS = {
    "date": str,
    "commit": str,
    "minutes": (int, float),
    "cpu": str,
    "versions": dict,
    "figures": dict,
    "reasons": dict,
}
# A column: its title, and the figure and numbers that it shows, joined by a word.
COLUMNS = (
    ("proofs proved", "proofs", ("proved", "tried"), " of "),
    ("mutants killed", "mutants", ("killed", "total"), " of "),
    ("coverage bins hit", "coverage", ("hit", "total"), " of "),
    ("random runs, mismatches", "soak", ("runs", "mismatches"), ", "),
    ("bound over cycles, 784 features", "throughput", ("features 784, staleness 1",), ""),
    ("bound over cycles, staleness 0", "throughput", ("features 784, staleness 0",), ""),
    ("time of a fit over scikit-learn's", "fit", ("ratio",), ""),
)
WIDTH, HEIGHT, MARGIN = 360, 150, 34  # of a curve, in pixels


@dataclass(frozen=True)
class Day:
    """The figures of a day.

    Attributes
    ----------
    date : date
    commit, cpu : str
    minutes : float
        Time that each figure had.
    figures : dict of str to (dict of str to number, or None)
    reasons : dict of str to str
        Why a figure is None.
    """

    date: date
    commit: str
    cpu: str
    minutes: float
    figures: Mapping[str, Mapping[str, Any] | None]
    reasons: Mapping[str, str]

    def number(self, figure: str, name: str) -> float | None:
        """Return a number of a figure, or None."""
        return (self.figures.get(figure) or {}).get(name)


def read_history(folder: Path) -> list[Day]:
    """Return the days in order. Raise ValueError, one line that names the file, if one is damaged."""
    return sorted((read_day(path) for path in folder.glob("*.json")), key=lambda day: day.date)


def read_day(path: Path) -> Day:
    """Return the day of a file."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name} is not JSON: {error}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f"{path.name} is not a history file of format {FORMAT}: `make nightly` writes one")
    for field, kind in FIELDS.items():
        if not isinstance(record.get(field), kind):
            raise ValueError(f"{path.name} has no valid {field!r}")
    for name, numbers in record["figures"].items():
        if numbers is not None and not isinstance(numbers, dict):
            raise ValueError(f"{path.name}: figure {name!r} is neither null nor an object")
        if numbers is None and name not in record["reasons"]:
            raise ValueError(f"{path.name}: figure {name!r} is null without a reason")
    if record["date"] != path.stem:
        raise ValueError(f"{path.name} has the date {record['date']}")
    try:
        day = date.fromisoformat(record["date"])
    except ValueError:
        raise ValueError(f"{path.name} is not named by a date, YYYY-MM-DD.json") from None
    return Day(day, *(record[name] for name in ("commit", "cpu", "minutes", "figures", "reasons")))


def table(days: Sequence[Day]) -> list[list[str]]:
    """Return heading and rows, newest first."""
    cells = [["date", "commit", *(title for title, *_ in COLUMNS), "minutes a figure, machine"]]
    for day in reversed(days):
        row = [day.date.isoformat(), day.commit[:10]]
        for _, figure, names, joint in COLUMNS:
            numbers = [day.number(figure, name) for name in names]
            row.append("-" if None in numbers else joint.join(f"{number:,}" for number in numbers))
        cells.append([*row, f"{day.minutes:g}, {day.cpu}"])
    return cells


def curves(days: Sequence[Day]) -> list[str]:
    """Return an SVG for the first number of each column that at least two days have."""
    pictures = []
    for title, figure, names, _ in COLUMNS:
        points = [(day.date, number) for day in days if (number := day.number(figure, names[0])) is not None]
        if len(points) > 1:
            pictures.append(curve(title, points))
    return pictures


def curve(title: str, points: Sequence[tuple[date, float]]) -> str:
    """Return an SVG of numbers over days."""
    first, last = points[0][0], points[-1][0]
    low, high = min(number for _, number in points), max(number for _, number in points)
    days, span = (last - first).days or 1, (high - low) or 1

    def position(day: date, number: float) -> tuple[float, float]:
        x = MARGIN + (WIDTH - 2 * MARGIN) * (day - first).days / days
        return round(x, 1), round(HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (number - low) / span, 1)

    positions = [position(*point) for point in points]
    dots = "".join(
        f'<circle cx="{x}" cy="{y}" r="3"><title>{day}: {number:,}</title></circle>'
        for (x, y), (day, number) in zip(positions, points, strict=True)
    )
    base, line = HEIGHT - MARGIN + 16, " ".join(f"{x},{y}" for x, y in positions)
    return (
        f'<svg class="history" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'font-size="11" fill="currentColor"><text x="{MARGIN}" y="14" font-size="12">{escape(title)}</text>'
        f'<text x="{MARGIN - 4}" y="{base}">{first}</text>'
        f'<text x="{WIDTH - MARGIN}" y="{base}" text-anchor="end">{last}</text>'
        f'<text x="{WIDTH - MARGIN + 4}" y="{positions[-1][1] + 4}">{points[-1][1]:g}</text>'
        f'<polyline points="{line}" fill="none" stroke="currentColor"/>{dots}</svg>'
    )
