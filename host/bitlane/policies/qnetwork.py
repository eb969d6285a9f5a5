"""The value network of MQGrad: one hidden layer of ReLU units, and a linear output for each choice of bits.

All numbers are float64, and sums have a fixed order that does not depend on a library: all ranks get the same numbers.
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
    """The values of all choices in a state.

    The hidden weights start uniformly within +-1/sqrt(inputs), drawn from `seed`. The output weights start at 0: all
    choices have the same value.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int, seed: int):
        drawn = hash_words(seed, np.arange(inputs * hidden)).astype(np.float64) * 2.0**-31 - 1.0
        self._into_hidden = (drawn / np.sqrt(inputs)).reshape(inputs, hidden)
        self._hidden_bias = np.zeros(hidden)
        self._into_outputs = np.zeros((outputs, hidden))
        self._output_bias = np.zeros(outputs)

    def values(self, state: Floats) -> Floats:
        """Return the values, float64 [outputs], of a state, float64 [inputs]."""
        return _rows_added(self._into_outputs.T * self._hidden(state)[:, None]) + self._output_bias

    def move(self, state: Floats, output: int, change: float) -> None:
        """Change the value of one output in a state by about `change`, along its gradient g by the weights.

        The step is ``change * g``, divided by ``|g|**2`` if that exceeds 1, because a long gradient would overshoot.
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
    """Return the sum of the rows of [rows, columns], added in order."""
    total: Floats = array[0].copy()
    for row in array[1:]:
        total += row
    return total


def _total(array: Floats) -> float:
    """Return the sum of the numbers [n], added in order."""
    return float(sum(array.tolist()))
