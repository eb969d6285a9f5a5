"""Independent random generators for different purposes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .scalars import as_integer


def generator(seed: int, purpose: int) -> np.random.Generator:
    """Return a random generator for one purpose.

    It differs from `default_rng(seed)`, with which a user may have made the data.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,)))


def as_seed(random_state: Any, most: int | None = None) -> int:
    """Return the seed that an estimator's `random_state` stands for.

    Parameters
    ----------
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        A fresh seed for None; the next number of 32 bits of a generator.
    most : int, optional
        The largest seed.

    Raises
    ------
    DataError
        Another value.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(1 << 32, dtype=np.uint32))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(1 << 32))
    return as_integer("random_state", random_state, 0, most)


def seed_word(seed: int, purpose: int) -> int:
    """Return a seed of 32 bits for one purpose, for words that depend on a counter."""
    return int(np.random.SeedSequence(seed, spawn_key=(purpose,)).generate_state(1)[0])
