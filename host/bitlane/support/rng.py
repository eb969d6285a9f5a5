"""Independent random generators for different purposes."""

from __future__ import annotations

import numpy as np


def generator(seed: int, purpose: int) -> np.random.Generator:
    """Return a random generator for one purpose.

    It differs from `default_rng(seed)`, with which a user may have made the data.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,)))


def seed_word(seed: int, purpose: int) -> int:
    """Return a seed of 32 bits for one purpose, for words that depend on a counter."""
    return int(np.random.SeedSequence(seed, spawn_key=(purpose,)).generate_state(1)[0])
