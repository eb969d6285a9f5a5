"""A claim of a paper, what was measured of it, and whether it held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

Log = Callable[[str], object]  # told what is being done, a line for each training


class Verdict(Enum):
    """Whether a claim held here."""

    HELD = "held"
    PARTLY = "held in part"
    FAILED = "did not hold"


@dataclass(frozen=True)
class Claim:
    """What the page has of a claim; texts are Markdown.

    Members
    -------
    name: of the plot's file, and the section's anchor.
    title: of its section.
    paper: what the paper says, with its section.
    measured: tables and sentences.
    verdict, reason: whether it held, and a sentence that says by what.
    differs: where data or method are not the paper's.
    draw: draws the plot on a figure of matplotlib.
    """

    name: str
    title: str
    paper: str
    measured: str
    verdict: Verdict
    reason: str
    differs: Sequence[str]
    draw: Callable[[Any], None]


@dataclass(frozen=True)
class StudySize:
    """How much is measured; each paper adds what its claims go by.

    Parameters
    ----------
    name: what the page calls it.
    seeds: how often everything is measured, with other draws.
    """

    name: str
    seeds: int


def spread(values: Sequence[float], digits: int = 4) -> str:
    """Mean and sample standard deviation over seeds, as text; "diverges" where one is not finite."""
    found = np.asarray(values, np.float64)
    if not np.isfinite(found).all():
        return "diverges"
    return f"{found.mean():.{digits}g} ± {float(f'{found.std(ddof=1):.1g}'):g}"


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rule, *rows))
