"""The map as text: one line a cell, and below it all programs of all cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .picture import PictureRow, draw

ONE_PERCENT, TENTH = "1.01", "1.001"
LOSSES = {"squared_error": "squares", "log_loss": "log loss", "hinge": "hinge"}
EVEN = 1.1  # times closer than this are a draw


class CellVerdict(NamedTuple):
    """Who wins a cell.

    Attributes
    ----------
    cell : dict
        What `one_cell` wrote.
    ours, rival : dict or None
        The quickest program of each side that reached the target from the table of floats.
    stored : dict or None
        Our quickest program that starts from an encoded table, which takes no part in the verdict.
    factor, stored_factor : float
        The rival's time over ours, and over that from an encoded table: above 1 bitlane wins; nan if a side has none.
    """

    cell: dict[str, Any]
    ours: dict[str, Any] | None
    rival: dict[str, Any] | None
    stored: dict[str, Any] | None
    factor: float
    stored_factor: float


def seconds_of(program: dict[str, Any] | None, target: str, kind: str = "warm") -> float:
    """Return a program's time to a target; infinite if it did not reach it."""
    reached = program["reached"].get(target) if program else None
    return float(reached[kind]) if reached else math.inf


def verdict(cell: dict[str, Any], target: str = TENTH) -> CellVerdict:
    """Return the quickest program of each side."""

    def quickest(sides: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
        return min(
            (each for each in sides if target in each["reached"]),
            key=lambda each: seconds_of(each, target),
            default=None,
        )

    mine = [each for each in cell["programs"] if each["ours"]]
    ours = quickest(each for each in mine if not each["given"])
    rival = quickest(each for each in cell["programs"] if not each["ours"])
    stored = quickest(each for each in mine if each["given"])
    rivals = seconds_of(rival, target)
    factors = [rivals / seconds_of(each, target) if each and rival else math.nan for each in (ours, stored)]
    return CellVerdict(cell, ours, rival, stored, *factors)


def winner(found: CellVerdict) -> str:
    """Return what to use in a cell."""
    if math.isnan(found.factor):
        side = found.ours or found.rival
        return str(side["name"]) if side else "none reached it"
    assert found.ours is not None and found.rival is not None
    if found.factor >= EVEN:
        return f"**{found.ours['name']}**, {found.factor:.1f} times"
    if found.factor > 1 / EVEN:
        return "either"
    return f"{found.rival['name']}, {1 / found.factor:.1f} times"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (headings, *rows)]
    lines.insert(1, "| --- " * len(headings) + "|")
    return "\n".join(lines)


def seconds(number: float) -> str:
    """Return a time with three digits."""
    return "-" if not math.isfinite(number) else f"{number:.3g}"


def about(cell: dict[str, Any]) -> str:
    """Return the table and the models of a cell in words."""
    models = f", {cell['models']} models" if cell["models"] > 1 else ""
    l1 = ", l1" if cell["penalty"] == "l1" else ""
    return f"{LOSSES[cell['loss']]}{l1}, {cell['source']}, {cell['rows']:,} x {cell['columns']:,}{models}"


def map_text(measured: Sequence[dict[str, Any]]) -> str:
    """Return one line a cell: the best of each side to 1 % and to 0.1 %, and what to use."""
    rows = []
    for cell in measured:
        near, found = verdict(cell, ONE_PERCENT), verdict(cell)
        pairs = ((near.ours, found.ours), (near.stored, found.stored), (near.rival, found.rival))
        times = [
            f"{seconds(seconds_of(first, ONE_PERCENT))} / {seconds(seconds_of(second, TENTH))}"
            for first, second in pairs
        ]
        cold = " / ".join(seconds(seconds_of(each, TENTH, "cold")) for each in (found.ours, found.rival))
        rows.append((about(cell), *times, cold, winner(found)))
    headings = (
        "cell",
        "bitlane: s to 1 % / 0.1 %",
        "encoded before",
        "best rival",
        "first call: bitlane / rival",
        "use",
    )
    return markdown(headings, rows)


def program_rows(cell: dict[str, Any]) -> Iterator[Sequence[str]]:
    """Yield one line a program, the quickest first."""
    for each in sorted(cell["programs"], key=lambda each: seconds_of(each, TENTH)):
        reached = each["reached"].get(TENTH) or each["reached"].get(ONE_PERCENT)
        note = "; ".join(filter(None, (f"given {each['given']}" if each["given"] else "", each["reason"])))
        yield (
            f"{each['name']} ({each['version']})",
            *(seconds(seconds_of(each, target)) for target in (ONE_PERCENT, TENTH)),
            seconds(seconds_of(each, TENTH, "cold")),
            f"{reached['memory'] / 1e6:,.0f}" if reached else "-",
            f"{reached['bytes_read'] / 1e9:.3g}" if reached and reached["bytes_read"] else "-",
            note,
        )


def programs_text(measured: Sequence[dict[str, Any]]) -> str:
    """Return a table of all programs for each cell."""
    headings = ("program", "s to 1 %", "s to 0.1 %", "cold", "MB above the table", "GB read", "notes")
    parts = []
    for cell in measured:
        low = cell["least"] / cell["optimum"] - 1
        below = f" A program ended {-low:.1e} below it." if low < -1e-5 else ""
        head = f"## {cell['name']}\n\n{about(cell)}; {cell['bytes'] / 1e6:,.0f} MB as float32; "
        parts.append(f"{head}optimum {cell['optimum']:.6g}.{below}\n\n{markdown(headings, list(program_rows(cell)))}\n")
    return "\n".join(parts)


def _name(program: dict[str, Any] | None) -> str:
    return str(program["name"]) if program else ""


def write_report(measured: Sequence[dict[str, Any]], folder: Path) -> str:
    """Write map.md, programs.md and map.svg into the folder, and return the map."""
    text = map_text(measured)
    (folder / "map.md").write_text(text + "\n", encoding="utf-8")
    (folder / "programs.md").write_text(programs_text(measured), encoding="utf-8")
    verdicts = [verdict(cell) for cell in measured]
    named = [
        PictureRow(about(each.cell), each.factor, each.stored_factor, each.cell["loss"], _name(each.rival))
        for each in verdicts
    ]
    draw(named, folder / "map.svg")
    return text
