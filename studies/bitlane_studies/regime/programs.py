"""All programs of the map that fit a problem: those that are expected to be quick come first."""

from __future__ import annotations

from . import ours, with_numpy, with_others, with_scikit
from .contender import Program
from .problems import FitProblem


def programs_for(problem: FitProblem) -> list[Program]:
    """Return the programs, ours first."""
    return [program for module in (ours, with_numpy, with_scikit, with_others) for program in module.programs(problem)]
