"""A paper whose claims are measured, and where to find one by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from bitlane.support.optional import require_extra

from .claim import Claim, Log, StudySize

S = TypeVar("S", bound=StudySize)

NAMES = ("zipml", "lqsgd", "micro", "mqgrad")  # packages beside this module; each has its PAPER in paper.py


@dataclass(frozen=True)
class Paper(Generic[S]):
    """What `bitlane reproduce NAME` goes by.

    Members
    -------
    name: of the command, and of the package.
    title: short name, authors, venue and year: how its page cites it.
    check_needs: raises BitlaneError for a library that is missing, DataError for a data set; torch is there.
    measures: each measures a claim; in the order of the page.
    full, quick: how much they measure; quick sizes are to see that all of it works.
    """

    name: str
    title: str
    check_needs: Callable[[], None]
    measures: Sequence[Callable[[S, Log], Claim]]
    full: S
    quick: S


def load_paper(name: str) -> Paper[Any]:
    """The paper of one of `NAMES`. BitlaneError where there is no torch, which all of them need."""
    require_extra("torch", f"bitlane reproduce {name}", "'bitlane[torch]'")
    found: Paper[Any] = import_module(f".{name}.paper", __package__).PAPER
    return found


def default_page(name: str) -> Path:
    """Where a paper's page goes by default."""
    return Path("docs", f"{name}.md")
