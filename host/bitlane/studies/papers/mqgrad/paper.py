"""MQGrad: what its claims are, and what measuring them takes."""

from __future__ import annotations

from bitlane.data.cifar10 import load_cifar10

from ..paper import Paper
from . import controller, race
from .sizes import FULL, QUICK


def check_needs() -> None:
    """Fetch or find the images; DataError where they cannot be had."""
    load_cifar10()


PAPER = Paper(
    name="mqgrad",
    title="MQGrad (Cui, Xu, Zeng, Lan, Guo, Cheng; ICTIR 2018)",
    check_needs=check_needs,
    measures=(race.measure, controller.measure),
    full=FULL,
    quick=QUICK,
)
