"""How much is measured of MQGrad's claims."""

from __future__ import annotations

from dataclasses import dataclass

from ..claim import StudySize


@dataclass(frozen=True)
class MQGradSize(StudySize):
    """Parameters: network: a name of `networks.NETWORKS`; steps: of each training."""

    network: str
    steps: int


FULL = MQGradSize("full", 3, "wide", 200)
QUICK = MQGradSize("quick", 2, "perceptron", 40)
