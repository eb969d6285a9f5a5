"""The job of the study: MNIST's digits as numbers, its epochs and batch sizes."""

from __future__ import annotations

import numpy as np

from bitlane.data.datasets import load_dataset
from bitlane_studies.float_sgd import Floats

ROWS = 60_000
EPOCHS = 20
BATCHES = 16, 64, 1024


def mnist(rows: int = ROWS) -> tuple[Floats, Floats]:
    """Return pixels, float32 [rows, 784], and digits, float32 [rows]."""
    data = load_dataset("mnist")
    return np.asarray(data.X[:rows], np.float32), np.asarray(data.y[:rows], np.float32)
