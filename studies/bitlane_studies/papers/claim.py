"""A claim of a paper: its measurement and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Log = Callable[[str], object]
"""Receives progress messages, one line for each training; usually the `info` method of a logger."""


class ClaimVerdict(Enum):
    """Whether a claim held in our measurement."""

    HELD = "held"
    PARTLY = "held in part"
    FAILED = "did not hold"


@dataclass(frozen=True)
class Claim:
    """The section of a page about one claim; texts are Markdown.

    Attributes
    ----------
    name : str
        Name of the plot's file.
    title : str
        Title of the section.
    paper : str
        The claim in the words of the paper, with its section.
    measured : str
        The measurement: sentences and tables.
    verdict : ClaimVerdict
        Whether the claim held.
    reason : str
        One sentence with the figures behind the verdict.
    differs : sequence of str
        Differences in data or method from the paper.
    plot : callable
        Draws the plot on a matplotlib figure.
    """

    name: str
    title: str
    paper: str
    measured: str
    verdict: ClaimVerdict
    reason: str
    differs: Sequence[str]
    plot: Callable[[Figure], None]


@dataclass(frozen=True)
class StudySize:
    """The size of the measurements; each paper adds fields for its claims.

    Parameters
    ----------
    name : str
        Name on the page, such as "full" or "quick".
    seeds : int
        Number of repetitions with different seeds.
    """

    name: str
    seeds: int


def spread(values: Sequence[float], digits: int = 4) -> str:
    """Format mean and sample standard deviation over seeds; "diverges" if a value is not finite."""
    array = np.asarray(values, np.float64)
    if not np.isfinite(array).all():
        return "diverges"
    return f"{array.mean():.{digits}g} ± {float(f'{array.std(ddof=1):.1g}'):g}"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table with text in the first column and numbers in the others."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *rows))
