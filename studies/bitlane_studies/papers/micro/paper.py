"""MiCRO: its claims, and the requirements of their measurement."""

from __future__ import annotations

from bitlane.data.datasets import load_dataset

from ..paper import Paper
from . import buildup, fidelity, scaling, traffic
from .sizes import FULL, QUICK


def check_needs() -> None:
    """Load or download the images; raise DataError if they are unavailable."""
    load_dataset("mnist")


PAPER = Paper(
    name="micro",
    title="MiCRO (Yoon, Oh; HiPC 2023)",
    check_needs=check_needs,
    measures=tuple(module.measure for module in (buildup, scaling, traffic, fidelity)),
    full=FULL,
    quick=QUICK,
)
