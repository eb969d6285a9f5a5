"""The steps between two decisions: the observations of a rank, and their exchange between ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bitlane.errors import DataError

from .choices import check_state
from .protocol import AllGather, Observation

NO_BATCH = -np.inf  # in place of a loss


class Period:
    """Collects losses and times of `length` steps. The exchange sends 8 bytes per step and 8 for the time."""

    def __init__(self, length: int):
        self._steps = 0
        self._losses = np.full(length, np.nan)
        self._missing = 0  # steps without a reported loss
        self._seconds = 0.0

    @property
    def complete(self) -> bool:
        return self._steps == len(self._losses)

    def add(self, observed: Observation) -> None:
        if observed.has_batch:
            self._losses[self._steps] = np.nan if observed.loss is None else observed.loss
            self._missing += observed.loss is None
        else:
            self._losses[self._steps] = NO_BATCH
        self._steps += 1
        self._seconds += observed.seconds

    def exchange(self, all_gather: AllGather) -> tuple[Sequence[float], float]:
        """Exchange the period with all ranks, and start the next one.

        Returns
        -------
        tuple
            The losses, as means over the ranks that had a batch, and the time of the slowest rank, in seconds.

        Raises
        ------
        DataError
            On all ranks, if a loss of any rank was not reported.
        """
        seconds = -1.0 if self._missing else self._seconds
        reported = all_gather([*self._losses.tolist(), seconds])
        self._steps = 0
        self._missing = 0
        self._seconds = 0.0
        for rank, numbers in enumerate(reported):
            if numbers[-1] < 0:
                raise DataError(
                    f"MQGrad needs the loss of every step, and rank {rank} did not report one: "
                    "call compression.observe(loss) before each backward()"
                )
        steps = zip(*(numbers[:-1] for numbers in reported), strict=True)
        return [_mean(losses) for losses in steps], max(numbers[-1] for numbers in reported)

    def state_dict(self) -> dict[str, Any]:
        return {
            "steps": self._steps,
            "losses": self._losses.copy(),
            "untold": self._missing,  # the name in the saved format
            "seconds": self._seconds,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state(state, self.state_dict())
        self._losses[...] = state["losses"]
        self._steps = int(state["steps"])
        self._missing = int(state["untold"])
        self._seconds = float(state["seconds"])


def _mean(losses: Sequence[float]) -> float:
    """Return the mean over the ranks that had a batch; NaN if none had one."""
    reported = [loss for loss in losses if loss != NO_BATCH]
    return sum(reported) / len(reported) if reported else float("nan")
