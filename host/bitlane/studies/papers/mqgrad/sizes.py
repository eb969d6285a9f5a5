"""How much is measured of MQGrad's claims."""

from __future__ import annotations

from dataclasses import dataclass

from ..claim import Size


@dataclass(frozen=True)
class TrainingSize(Size):
    """Parameters: network: a name of `networks.NETWORKS`; steps: of each training."""

    network: str
    steps: int


FULL = TrainingSize("full", 3, "wide", 200)
QUICK = TrainingSize("quick", 2, "perceptron", 40)
