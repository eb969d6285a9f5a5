"""The papers whose claims are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from bitlane.support.optional import require_extra

from .claim import Claim, Log, StudySize

S = TypeVar("S", bound=StudySize)

NAMES = ("zipml", "lqsgd", "micro", "mqgrad")  # subpackages; each defines PAPER in paper.py


@dataclass(frozen=True)
class Paper(Generic[S]):
    """A paper and the measurements of its claims.

    Attributes
    ----------
    name : str
        Name of the subpackage, and argument of `bitlane reproduce`.
    title : str
        Citation: short name, authors, venue and year.
    check_needs : callable
        Raises BitlaneError if a library is missing and DataError if a data set is missing; torch is present.
    measures : sequence of callable
        The measurements of the claims, in the order of the page.
    full, quick : StudySize
        The size of the measurements, and a toy size to check that everything works.
    """

    name: str
    title: str
    check_needs: Callable[[], None]
    measures: Sequence[Callable[[S, Log], Claim]]
    full: S
    quick: S


def load_paper(name: str) -> Paper[Any]:
    """Return a paper of `NAMES`; raise BitlaneError if torch is missing."""
    require_extra("torch", f"bitlane reproduce {name}", "'bitlane[torch]'")
    paper: Paper[Any] = import_module(f".{name}.paper", __package__).PAPER
    return paper


def default_page(name: str) -> Path:
    """Return the default file of the page of a paper."""
    return Path("docs", f"{name}.md")
