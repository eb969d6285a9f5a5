"""The network that MQGrad values bits with: one hidden layer of ReLU units, a linear output for each choice of bits.

All is float64, and sums are made in an order that no library decides, so that all ranks compute the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.support.hashing import hash_words

from .choices import check_state

Floats = NDArray[np.float64]


class QNetwork:
    """Values of all choices in a state.

    Hidden weights begin evenly within +-1/sqrt(inputs), drawn from `seed`. Output weights begin with 0: at first no
    choice is worth more than another.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int, seed: int):
        drawn = hash_words(seed, np.arange(inputs * hidden)).astype(np.float64) * 2.0**-31 - 1.0
        self._into_hidden = (drawn / np.sqrt(inputs)).reshape(inputs, hidden)
        self._hidden_bias = np.zeros(hidden)
        self._into_outputs = np.zeros((outputs, hidden))
        self._output_bias = np.zeros(outputs)

    def values(self, state: Floats) -> Floats:
        """float64 [outputs] of a state float64 [inputs]."""
        return _rows_added(self._into_outputs.T * self._hidden(state)[:, None]) + self._output_bias

    def move(self, state: Floats, output: int, change: float) -> None:
        """Move one output's value in a state by about `change`, along its gradient g by the weights.

        The step is ``change * g``, divided by ``|g|**2`` if that exceeds 1: a long gradient would overshoot.
        """
        hidden = self._hidden(state)
        inward = self._into_outputs[output] * (hidden > 0)
        weights = state[:, None] * inward
        squares = 1.0 + _total(hidden**2) + _total(inward**2) + _total((weights**2).ravel())
        step = change / max(1.0, squares)
        self._into_outputs[output] += step * hidden
        self._output_bias[output] += step
        self._into_hidden += step * weights
        self._hidden_bias += step * inward

    def _hidden(self, state: Floats) -> Floats:
        return np.maximum(_rows_added(self._into_hidden * state[:, None]) + self._hidden_bias, 0.0)

    def state_dict(self) -> dict[str, Any]:
        return {name: array.copy() for name, array in self._arrays().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state(state, self._arrays())
        for name, array in self._arrays().items():
            array[...] = state[name]

    def _arrays(self) -> dict[str, Floats]:
        return {
            "into_hidden": self._into_hidden,
            "hidden_bias": self._hidden_bias,
            "into_outputs": self._into_outputs,
            "output_bias": self._output_bias,
        }


def _rows_added(array: Floats) -> Floats:
    """Rows of [rows, columns], one after the other."""
    total: Floats = array[0].copy()
    for row in array[1:]:
        total += row
    return total


def _total(array: Floats) -> float:
    """Numbers of [n], one after the other."""
    return float(sum(array.tolist()))
