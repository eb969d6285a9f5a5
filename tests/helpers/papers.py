"""A fictitious paper with three claims."""

from __future__ import annotations

from bitlane_studies.papers.claim import Claim, ClaimVerdict, StudySize, markdown_table
from bitlane_studies.papers.paper import Paper


def claim(name: str, verdict: ClaimVerdict = ClaimVerdict.HELD) -> Claim:
    return Claim(
        name=name,
        title=f"The {name}'s claim, 5 or 6",
        paper=f"{name} says so.",
        measured=markdown_table(["", "a"], [[name, "1"]]),
        verdict=verdict,
        reason=f"{name} is 1.",
        differs=(f"{name} is other.", "so is all."),
        plot=lambda figure: figure.subplots().plot([0, 1]),
    )


CLAIMS = [claim("one"), claim("two", ClaimVerdict.FAILED), claim("three", ClaimVerdict.PARTLY)]

PAPER = Paper(
    name="made-up",
    title="Somebody (2026)",
    check_needs=lambda: None,
    measures=[lambda *_, each=each: each for each in CLAIMS],
    full=StudySize("full", 7),
    quick=StudySize("quick", 5),
)
