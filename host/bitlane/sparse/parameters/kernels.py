"""One step of each optimizer on values of a table. A value is a scalar or a vector of neighbours (`vectors`).

A block of a row holds `size` values, then `size` numbers of state if the optimizer has any:
FTRL z and n, AdaGrad the weight and G, SGD the weight.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters.compiling import inner as _inner
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.vectors import Lanes, load, shrink, square_root, store, where_nonzero

Settings = tuple[float, float, float, float]  # rate, beta or decay, l1, l2
Memory = NDArray[np.floating[Any]]

_FTRL, _ADAGRAD, _SGD = FTRL.code, AdaGrad.code, SGD.code


@_inner
def settings_at(code: int, table: Memory, row: int, rows_seen: float) -> Any:
    """Return row `row` of a table of settings as a tuple, with the learning rate after rows of this weight."""
    rate = table[row, 0]
    if code == _SGD:
        rate = table.dtype.type(rate / (1.0 + float(table[row, 1]) * rows_seen))
    return rate, table[row, 1], table[row, 2], table[row, 3]


@_inner
def ftrl_weight(z: Lanes, n: Lanes, settings: Settings) -> Any:
    """Return FTRL's weight."""
    alpha, beta, l1, l2 = settings
    return shrink(z, l1) / (-l2 - (beta + square_root(n)) / alpha)


@_inner
def weight(code: int, memory: Memory, at: int, size: int, like: Lanes, settings: Settings) -> Any:
    """Return the weights at `at`, in a block of `size` values.

    Parameters
    ----------
    code : int
        The optimizer.
    memory : array
        Rows side by side, one-dimensional.
    at, size : int
    like : scalar or vector
        Gives the number of weights, and their dtype.
    settings : tuple
        Of `settings_at`.
    """
    if code == _FTRL:
        return ftrl_weight(load(memory, at, like), load(memory, at + size, like), settings)
    return load(memory, at, like)


@_inner
def ftrl_step(memory: Memory, at: int, size: int, gradient: Lanes, current: Lanes, settings: Settings) -> None:
    """Update z and n; `current` is the weight."""
    z, n = load(memory, at, gradient), load(memory, at + size, gradient)
    grown = n + gradient * gradient
    sigma = (square_root(grown) - square_root(n)) / settings[0]
    store(memory, at, z + (gradient - sigma * current))
    store(memory, at + size, grown)


@_inner
def adagrad_step(memory: Memory, at: int, size: int, gradient: Lanes, settings: Settings) -> None:
    """Update weight and G."""
    learning_rate, _, l1, l2 = settings
    old, summed = load(memory, at, gradient), load(memory, at + size, gradient)
    slope = gradient + l2 * old
    grown = summed + slope * slope
    rate = learning_rate / square_root(grown)
    store(memory, at, where_nonzero(gradient, shrink(old - rate * slope, rate * l1), old))
    store(memory, at + size, where_nonzero(gradient, grown, summed))


@_inner
def sgd_step(memory: Memory, at: int, gradient: Lanes, settings: Settings) -> None:
    """Update the weight."""
    rate, _, l1, l2 = settings
    old = load(memory, at, gradient)
    store(memory, at, where_nonzero(gradient, shrink(old - rate * (gradient + l2 * old), rate * l1), old))


@_inner
def step(code: int, memory: Memory, at: int, size: int, gradient: Lanes, current: Lanes, settings: Settings) -> None:
    """Update the values at `at`, in a block of `size` values.

    Parameters
    ----------
    code : int
        The optimizer.
    memory : array
        Rows side by side, one-dimensional.
    at, size : int
    gradient : scalar or vector
    current : scalar or vector
        The weight that the gradient belongs to.
    settings : tuple
        Of `settings_at`.
    """
    if code == _FTRL:
        ftrl_step(memory, at, size, gradient, current, settings)
    elif code == _ADAGRAD:
        adagrad_step(memory, at, size, gradient, settings)
    else:
        sgd_step(memory, at, gradient, settings)


@_inner
def encode(code: int, memory: Memory, at: int, size: int, value: float, settings: Settings, accumulator: float) -> None:
    """Write a new value, whose weight is `value`, to `at` in a block of `size` values."""
    if code == _FTRL:
        alpha, beta, l1, l2 = settings
        beyond = -(value * (beta / alpha + l2))
        memory[at] = beyond + math.copysign(l1, beyond) if beyond != 0 else beyond
        memory[at + size] = 0
    else:
        memory[at] = value
        if code == _ADAGRAD:
            memory[at + size] = accumulator
