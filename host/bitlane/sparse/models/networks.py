"""The dense layers of networks, by torch: with ReLU between them, over embeddings pooled by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bitlane.support.one_thread import one_thread

Arrays = Mapping[str, NDArray[Any]]


class Dense:
    """A perceptron: inputs [rows, inputs] to one score for each row.

    Its weights come from outside with each call, as numpy arrays by name.

    Parameters
    ----------
    inputs : int
        Numbers of a row.
    hidden : sequence of int
        Sizes of the hidden layers; each ends with a ReLU.
    intercept : bool
        Whether the last layer has a bias.
    device : str, default="cpu"
        Where torch computes, such as ``"cuda"``.

    Attributes
    ----------
    shapes : dict from str to tuple of int
        The weights.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], intercept: bool, device: str = "cpu"):
        self.device = torch.device(device)
        sizes = (inputs, *hidden)
        with torch.device("meta"):  # without memory: all weights come from outside
            layers = [layer for m, n in pairwise(sizes) for layer in (nn.Linear(m, n), nn.ReLU())]
            self.module = nn.Sequential(*layers, nn.Linear(sizes[-1], 1, bias=intercept))
        self.shapes = {name: tuple(each.shape) for name, each in self.module.named_parameters()}

    def initial(self, seed: int) -> dict[str, NDArray[np.float32]]:
        """Return the first weights: uniform in +-sqrt(6 / inputs of the layer) (He et al., 2015); biases are 0.

        They depend on the seed only, not on torch.
        """
        weights = {}
        for index, (name, shape) in enumerate(self.shapes.items()):
            weights[name] = np.zeros(shape, np.float32)
            if len(shape) == 2:
                bound = np.sqrt(6 / shape[1])
                weights[name][:] = np.random.default_rng([seed, index]).uniform(-bound, bound, shape)
        return weights

    def scores(self, inputs: NDArray[Any], dense: Arrays) -> NDArray[Any]:
        """Return the scores of `inputs` [rows, inputs], in their dtype."""
        with one_thread(), torch.no_grad():
            return self._numpy(self._call(self._tensor(inputs), self._tensors(dense)))

    def gradients(
        self, inputs: NDArray[Any], dense: Arrays, slope: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return scores and gradients.

        Parameters
        ----------
        inputs : float [rows, inputs]
        dense : mapping from name to array
        slope : callable
            Takes the scores [rows] of the layers and returns the derivative of each row's loss by them.

        Returns
        -------
        scores, slopes : float [rows]
        inner : float [rows, inputs]
            Derivative of each row's loss by its inputs.
        outer : dict from name to array
            Derivative of the sum of all rows' losses by the weights.
        """
        with one_thread():
            leaf = self._tensor(inputs).requires_grad_()
            weights = {name: each.requires_grad_() for name, each in self._tensors(dense).items()}
            output = self._call(leaf, weights)
            scores = self._numpy(output.detach())
            slopes = slope(scores)
            inner, *outer = torch.autograd.grad(output, [leaf, *weights.values()], self._tensor(slopes))
            named = zip(weights, outer, strict=True)
            return scores, slopes, self._numpy(inner), {name: self._numpy(each) for name, each in named}

    def _call(self, inputs: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        scores: Tensor = torch.func.functional_call(self.module, dict(weights), (inputs,)).squeeze(1)
        return scores

    def _tensors(self, dense: Arrays) -> dict[str, Tensor]:
        return {name: self._tensor(dense[name]) for name in self.shapes}

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def _numpy(self, tensor: Tensor) -> NDArray[Any]:
        array: NDArray[Any] = tensor.cpu().numpy()
        return array
