"""The sizes of the measurements of MQGrad."""

from __future__ import annotations

from dataclasses import dataclass

from ..claim import StudySize


@dataclass(frozen=True)
class MQGradSize(StudySize):
    """The size of the measurements.

    Parameters
    ----------
    network : str
        A network of `networks.NETWORKS`.
    steps : int
        Steps of each training.
    """

    network: str
    steps: int


FULL = MQGradSize("full", 3, "wide", 200)
QUICK = MQGradSize("quick", 2, "perceptron", 40)
