"""LQ-SGD: what its claims are, and what measuring them takes."""

from __future__ import annotations

from ...datasets import load_dataset
from ..paper import Paper
from . import overhead, tables
from .sizes import FULL, QUICK


def check_needs() -> None:
    """Fetch or find the images; DataError where they cannot be had."""
    load_dataset("mnist")


PAPER = Paper(
    name="lqsgd",
    title="LQ-SGD (Li, Bai, Wu, Chadli, Mammar, Bouvry; 2025)",
    check_needs=check_needs,
    measures=(tables.measure, overhead.measure),
    full=FULL,
    quick=QUICK,
)
