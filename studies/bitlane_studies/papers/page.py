"""The page of a paper: each claim with its measurement and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bitlane.support.atomic import atomic_write
from bitlane.support.optional import require_extra

from .claim import Claim
from .paper import Paper


def render_page(paper: Paper[Any], claims: Sequence[Claim], plots: str, about: str) -> str:
    """Return the page as Markdown.

    Parameters
    ----------
    paper : Paper
        The paper.
    claims : sequence of Claim
        Its measured claims.
    plots : str
        Folder of the plots, relative to the page.
    about : str
        Version, date, size and duration of the measurement.
    """
    rows = [f"| [{claim.title}](#{anchor(claim.title)}) | {claim.verdict.value} | {claim.reason} |" for claim in claims]
    sections = [_section(claim, plots) for claim in claims]
    return "\n".join(
        [
            "# Claims of the paper, and our measurements",
            "",
            f"The claims of {paper.title}, measured on available data. Written by `bitlane reproduce {paper.name}`: "
            f"{about}",
            "",
            "| claim | verdict | measurement |",
            "| --- | --- | --- |",
            *rows,
            "",
            "\n".join(sections),
        ]
    )


def anchor(title: str) -> str:
    """Return the anchor of a section title."""
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
            "**Differences from the paper.**",
            "",
            *(f"- {each}" for each in claim.differs),
            "",
        ]
    )


def write_page(paper: Paper[Any], claims: Sequence[Claim], out: Path, about: str) -> list[Path]:
    """Write the plots and the page; each file is written atomically, and the page last.

    Parameters
    ----------
    paper : Paper
        The paper.
    claims : sequence of Claim
        Its measured claims.
    out : Path
        File of the page. The plots are PNG files in the folder of this name without suffix.
    about : str
        Version, date, size and duration of the measurement.

    Returns
    -------
    list of Path
        The plots, then the page.
    """
    folder = out.with_suffix("")
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{claim.name}.png" for claim in claims]
    for claim, path in zip(claims, paths, strict=True):
        with atomic_write(path) as temporary:
            _plot(claim, temporary)
    with atomic_write(out) as temporary:
        temporary.write_text(render_page(paper, claims, folder.name, about), encoding="utf-8")
    return [*paths, out]


def _plot(claim: Claim, path: Path) -> None:
    matplotlib = require_extra("matplotlib", "plotting")
    matplotlib.use("Agg")
    pyplot = require_extra("matplotlib.pyplot", "plotting")
    figure = pyplot.figure(layout="constrained", dpi=80)
    try:
        claim.plot(figure)
        figure.savefig(path, format="png")
    finally:
        pyplot.close(figure)
