"""Data that levels are tried on, and both ways to run the loops."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane import optimal_levels
from bitlane.levels.bins import Bins
from bitlane.support import jit

DATA = {
    "normal": lambda rng, n: rng.normal(size=n),
    "laplace": lambda rng, n: rng.laplace(size=n),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
    "uniform": lambda rng, n: rng.random(n),
    "two-spike": lambda rng, n: rng.choice([-1.0, 1.0], n) + rng.normal(0, 0.001, n),
    "repeated": lambda rng, n: rng.binomial(150, 0.5, n).astype(float),
}


def levels_of(*arguments, **options):
    """`optimal_levels` with its information; with and without numba, which must give the same bits."""
    options["return_info"] = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "numba", lambda: None)
        levels, info = optimal_levels(*arguments, **options)
    if jit.numba() is not None:
        compiled, compiled_info = optimal_levels(*arguments, **options)
        assert np.array_equal(levels, compiled) and info == compiled_info
    return levels, info


def bins_of(values, cuts):
    """Bins that begin at the values of sorted ranks `cuts`, and the largest value."""
    values = np.sort(values)
    groups = [np.asarray(each) for each in np.split(values, cuts)]
    first = np.array([each[0] for each in groups] + [values[-1]])
    away = [each - each[0] for each in groups] + [np.zeros(0)]
    weight = np.array([len(each) for each in groups] + [0.0])
    return Bins(first, weight, np.array([each.sum() for each in away]), np.array([(each**2).sum() for each in away]))
