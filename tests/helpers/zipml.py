"""Comparisons that were never trained, with losses as a test wants them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bitlane.evaluation.compare import ComparedModel, Comparison
from bitlane.evaluation.schedules import TrainingSchedule


def comparison(*losses: tuple[str, int, Sequence[float]], optimum: float = 1.0, cycles: float = 1000.0) -> Comparison:
    """Of (sampling, bits, losses), 32 bits first; cycles an epoch are in proportion to the bits."""
    results = [ComparedModel("float64", 64, np.array(losses[0][2]))]
    results += [
        ComparedModel(name, bits, np.array(each), cycles_per_epoch=cycles * bits / 32) for name, bits, each in losses
    ]
    epochs = len(losses[0][2])
    return Comparison("a set", "emulator", 64, TrainingSchedule(epochs=epochs), 10, 3, 8.0, optimum, tuple(results))
