"""MQGrad: what its claims are, and what measuring them takes."""

from __future__ import annotations

from ...datasets import load_dataset
from ..paper import Paper
from .sizes import FULL, QUICK


def check_needs() -> None:
    """Fetch or find the images; DataError where they cannot be had."""
    load_dataset("mnist")


PAPER = Paper(
    name="mqgrad",
    title="MQGrad (Cui, Xu, Zeng, Lan, Guo, Cheng; ICTIR 2018)",
    check_needs=check_needs,
    measures=(),
    full=FULL,
    quick=QUICK,
)
