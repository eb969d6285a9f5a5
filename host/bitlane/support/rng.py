"""Random generators that are independent for each purpose."""

from __future__ import annotations

import numpy as np


def generator(seed: int, purpose: int) -> np.random.Generator:
    """Randomness of its own for a purpose: not `default_rng(seed)`, with which a user may have made the data."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,)))
