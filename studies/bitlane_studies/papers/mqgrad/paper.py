"""MQGrad: its claims, and the requirements of their measurement."""

from __future__ import annotations

from bitlane.data.cifar10 import load_cifar10

from ..paper import Paper
from . import controller, race
from .sizes import FULL, QUICK


def check_needs() -> None:
    """Load or download the images; raise DataError if they are unavailable."""
    load_cifar10()


PAPER = Paper(
    name="mqgrad",
    title="MQGrad (Cui, Xu, Zeng, Lan, Guo, Cheng; ICTIR 2018)",
    check_needs=check_needs,
    measures=(race.measure, controller.measure),
    full=FULL,
    quick=QUICK,
)
