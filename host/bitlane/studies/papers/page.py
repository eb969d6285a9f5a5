"""The page: every claim, what was measured, and whether it held."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bitlane.support.atomic import atomic_write
from bitlane.support.optional import require_extra

from .claim import Claim
from .paper import Paper


def render_page(paper: Paper[Any], claims: Sequence[Claim], plots: str, about: str) -> str:
    """The page as Markdown; `plots` is the folder of its plots as it is linked, `about` how it was measured."""
    rows = [f"| [{claim.title}](#{anchor(claim.title)}) | {claim.verdict.value} | {claim.reason} |" for claim in claims]
    sections = [_section(claim, plots) for claim in claims]
    return "\n".join(
        [
            "# What the paper claims, and what was measured here",
            "",
            f"{paper.title}, claim by claim, on data at hand. Written by `bitlane reproduce {paper.name}`: {about}",
            "",
            "| claim | | |",
            "| --- | --- | --- |",
            *rows,
            "",
            "\n".join(sections),
        ]
    )


def anchor(title: str) -> str:
    """What a section of this title is linked as."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")


def _section(claim: Claim, plots: str) -> str:
    return "\n".join(
        [
            f"## {claim.title}",
            "",
            f"**The paper.** {claim.paper}",
            "",
            f"**Measured.** {claim.measured}",
            "",
            f"![{claim.title}]({plots}/{claim.name}.png)",
            "",
            f"**{claim.verdict.value.capitalize()}.** {claim.reason}",
            "",
            "**Different here.**",
            "",
            *(f"- {each}" for each in claim.differs),
            "",
        ]
    )


def write_page(paper: Paper[Any], claims: Sequence[Claim], out: Path, about: str) -> list[Path]:
    """Write the plots as PNGs in a folder beside `out`, of its name, then the page; returns all paths, the page's last.

    Each file appears whole or not at all, and the page after its plots.
    """
    folder = out.with_suffix("")
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{claim.name}.png" for claim in claims]
    for claim, path in zip(claims, paths, strict=True):
        with atomic_write(path) as part:
            _plot(claim, part)
    with atomic_write(out) as part:
        part.write_text(render_page(paper, claims, folder.name, about), encoding="utf-8")
    return [*paths, out]


def _plot(claim: Claim, path: Path) -> None:
    matplotlib = require_extra("matplotlib", "plotting")
    matplotlib.use("Agg")
    pyplot = require_extra("matplotlib.pyplot", "plotting")
    figure = pyplot.figure(layout="constrained", dpi=80)
    try:
        claim.draw(figure)
        figure.savefig(path, format="png")
    finally:
        pyplot.close(figure)
