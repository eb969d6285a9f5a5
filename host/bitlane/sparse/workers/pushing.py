"""How a worker sends its gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.servers.row_codecs import Part


@dataclass(frozen=True)
class PushSettings:
    """How gradients are sent: as they are."""

    kind: str = "full"


class Pusher:
    """Turns the gradients of a minibatch into parts of a step."""

    residual_rows = 0

    def __init__(self, settings: PushSettings, values: int, seed: int):
        self.settings = settings

    def choose(self, keys: NDArray[np.uint64], gradients: NDArray[np.float32]) -> list[Part]:
        """Return what is sent now."""
        return [Part("float32", keys, gradients)]

    def flush(self) -> list[Part]:
        """Return what still waits."""
        return []
