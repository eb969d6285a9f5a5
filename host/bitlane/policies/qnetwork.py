"""The value network of MQGrad: one hidden layer of ReLU units, and a linear output for each choice of bits.

It computes in float64 with a fixed order of summation, so that all ranks get identical numbers.
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
    """Computes the values of all choices in a state.

    Initial hidden weights are uniform within +-1/sqrt(inputs), drawn from `seed`. Initial output weights are 0, so that
    all choices have the same value.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int, seed: int):
        drawn = hash_words(seed, np.arange(inputs * hidden)).astype(np.float64) * 2.0**-31 - 1.0
        self._into_hidden = (drawn / np.sqrt(inputs)).reshape(inputs, hidden)
        self._hidden_bias = np.zeros(hidden)
        self._into_outputs = np.zeros((outputs, hidden))
        self._output_bias = np.zeros(outputs)

    def values(self, inputs: Floats) -> Floats:
        """Return the values, float64 [outputs], for the inputs float64 [inputs] of a state."""
        return _sum_rows(self._into_outputs.T * self._hidden(inputs)[:, None]) + self._output_bias

    def update_value(self, inputs: Floats, output: int, change: float) -> None:
        """Change the value of one output by about `change`, by a step along its gradient g by the weights.

        The step is ``change * g / max(1, |g|**2)``, because a step along a long gradient would overshoot.
        """
        hidden = self._hidden(inputs)
        inward = self._into_outputs[output] * (hidden > 0)
        weights = inputs[:, None] * inward
        squares = 1.0 + _total(hidden**2) + _total(inward**2) + _total((weights**2).ravel())
        step = change / max(1.0, squares)
        self._into_outputs[output] += step * hidden
        self._output_bias[output] += step
        self._into_hidden += step * weights
        self._hidden_bias += step * inward

    def _hidden(self, inputs: Floats) -> Floats:
        return np.maximum(_sum_rows(self._into_hidden * inputs[:, None]) + self._hidden_bias, 0.0)

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


def _sum_rows(array: Floats) -> Floats:
    """Sum the rows of an array [rows, columns] in their order."""
    total: Floats = array[0].copy()
    for row in array[1:]:
        total += row
    return total


def _total(array: Floats) -> float:
    """Sum the numbers of an array [n] in their order."""
    return float(sum(array.tolist()))
