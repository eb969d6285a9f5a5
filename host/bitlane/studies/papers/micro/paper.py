"""MiCRO: what its claims are, and what measuring them takes."""

from __future__ import annotations

from bitlane.data.datasets import load_dataset

from ..paper import Paper
from . import buildup, fidelity, scaling, traffic
from .sizes import FULL, QUICK


def check_needs() -> None:
    """Fetch or find the images; DataError where they cannot be had."""
    load_dataset("mnist")


PAPER = Paper(
    name="micro",
    title="MiCRO (Yoon, Oh; HiPC 2023)",
    check_needs=check_needs,
    measures=tuple(module.measure for module in (buildup, scaling, traffic, fidelity)),
    full=FULL,
    quick=QUICK,
)
