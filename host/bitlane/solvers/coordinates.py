"""Coordinate descent on a quadratic function with an L1 penalty: `coordinates.c`, or numpy with the same bits."""

from __future__ import annotations

import ctypes
import logging
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import Floats
from bitlane.support.c_library import LibraryError, load_library

SOURCE = Path(__file__).with_name("coordinates.c")
SETTLED = 1e-10  # of the most that a sweep has moved
SWEEPS = 200

Chosen = NDArray[np.intp]

_logger = logging.getLogger(__name__)


def least_model(hessian: Floats, slope: Floats, point: Floats, lasso: Floats) -> Floats:
    """Return the step d that minimises ``slope @ d + d @ hessian @ d / 2 + sum(lasso * |point + d|)``.

    By coordinate descent, first over all parameters, then over those that moved or are not 0, until no parameter
    moves by much of what the first sweep changed.

    Parameters
    ----------
    hessian : float64 array [n, n]
        Its diagonal is above 0.
    slope, point, lasso : float64 arrays [n]

    Returns
    -------
    float64 array [n]
    """
    matrix, start, penalty = (np.ascontiguousarray(each) for each in (hessian, point, lasso))
    state = State(matrix, start, penalty, np.zeros_like(slope), slope.copy())
    sweep, everything = c_sweep() or numpy_sweep, np.arange(len(slope))
    chosen, most = everything, 0.0
    for _ in range(SWEEPS):
        moved = sweep(state, chosen)
        most = max(most, moved)
        if moved > SETTLED * most:
            chosen = np.flatnonzero((point + state.step != 0) | (lasso == 0))
        elif chosen is everything:
            break
        else:
            chosen = everything
    return state.step


class State(NamedTuple):
    """What a sweep reads, and the step so far with the gradient of the quadratic function there, which it changes."""

    hessian: Floats
    point: Floats
    lasso: Floats
    step: Floats
    gradient: Floats


def numpy_sweep(state: State, chosen: Chosen) -> float:
    """Minimise over each of some parameters in turn, and return the sum of the squared moves by their curvatures."""
    hessian, point, lasso, step, gradient = state
    moved = 0.0
    for j in chosen.tolist():
        curvature = float(hessian[j, j])
        wanted = float(point[j] + step[j] - gradient[j] / curvature)
        value = math.copysign(max(abs(wanted) - float(lasso[j]) / curvature, 0.0), wanted)
        change = value - float(point[j]) - float(step[j])
        if change:
            step[j] += change
            gradient += change * hessian[j]
            moved += change * change * curvature
    return moved


@cache
def c_sweep() -> Callable[[State, Chosen], float] | None:
    """Return `numpy_sweep` in C, built if this machine has not built it yet; None, and a log line, if it cannot."""
    try:
        function = load_library([SOURCE], {}).bitlane_coordinate_sweep
    except LibraryError as error:
        _logger.warning("note: L1 penalties are solved by numpy, many times slower than compiled code: %s", error)
        return None
    function.argtypes = [ctypes.c_void_p] * 6 + [ctypes.c_ssize_t] * 2
    function.restype = ctypes.c_double

    def sweep(state: State, chosen: Chosen) -> float:
        addresses = (array.ctypes.data for array in (*state, chosen))
        return float(function(*addresses, len(chosen), len(state.step)))

    return sweep
