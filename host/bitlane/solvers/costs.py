"""Which solver is the quickest."""

from __future__ import annotations

from .problem import Problem

GRAM_COLUMNS = 6_000  # up to which a Gram matrix is made


def quickest(problem: Problem) -> str:
    """Return the solver for a problem."""
    return "gram" if problem.has_gram and problem.table.shape[1] <= GRAM_COLUMNS else "centered"
