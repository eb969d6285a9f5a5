"""ZipML: its claims, and the requirements of their measurement."""

from __future__ import annotations

from bitlane.data.cifar10 import load_cifar10
from bitlane.data.datasets import load_dataset

from ..paper import Paper
from . import batches, convergence, end_to_end, fewest, network, speed, tomography, variance
from .sizes import FULL, QUICK
from .tasks import REAL


def check_needs() -> None:
    """Load or download every data set; raise DataError if one is unavailable."""
    for name in REAL:
        load_dataset(name)
    load_cifar10()


PAPER = Paper(
    name="zipml",
    title="ZipML (Zhang, Li, Kara, Alistarh, Liu, Zhang; ICML 2017)",
    check_needs=check_needs,
    measures=(
        convergence.measure,
        end_to_end.measure,
        fewest.measure,
        batches.measure,
        speed.measure,
        variance.measure,
        network.measure,
        tomography.measure,
    ),
    full=FULL,
    quick=QUICK,
)
