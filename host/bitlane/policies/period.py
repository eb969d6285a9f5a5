"""The steps between two choices: the observations of one rank, and their exchange with all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bitlane.errors import DataError

from .choices import check_state
from .protocol import AllGather, Observation


class Period:
    """Collects the observations of `length` steps.

    An exchange sends 8 bytes for each step, and 8 bytes for the time, to each other rank.
    """

    def __init__(self, length: int):
        self._steps = 0
        self._losses = np.full(length, np.nan)
        self._untold = 0  # steps whose loss nobody told
        self._seconds = 0.0

    @property
    def complete(self) -> bool:
        return self._steps == len(self._losses)

    def add(self, observed: Observation) -> None:
        self._losses[self._steps] = np.nan if observed.loss is None else observed.loss
        self._untold += observed.loss is None
        self._steps += 1
        self._seconds += observed.seconds

    def exchange(self, share: AllGather) -> tuple[Sequence[float], float]:
        """Return the losses, as means over ranks, and the seconds of the slowest rank, and start the next period.

        Raises
        ------
        DataError
            Some rank did not report each loss; every rank raises it.
        """
        seconds = -1.0 if self._untold else self._seconds
        told = share([*self._losses.tolist(), seconds])
        self._steps, self._untold, self._seconds = 0, 0, 0.0
        for rank, numbers in enumerate(told):
            if numbers[-1] < 0:
                raise DataError(
                    f"rank {rank} did not report the loss of every step, which MQGrad needs: "
                    "call compression.observe(loss) before each backward()"
                )
        losses = [sum(numbers[step] for numbers in told) / len(told) for step in range(len(self._losses))]
        return losses, max(numbers[-1] for numbers in told)

    def state_dict(self) -> dict[str, Any]:
        return {
            "steps": self._steps,
            "losses": self._losses.copy(),
            "untold": self._untold,
            "seconds": self._seconds,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state(state, self.state_dict())
        self._losses[...] = state["losses"]
        self._steps, self._untold, self._seconds = int(state["steps"]), int(state["untold"]), float(state["seconds"])
