"""The victim of an attack: a small network with smooth activations, its gradients, and their payloads."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import ThreadTransport, run_ranks_in_threads
from bitlane.compress.compressor import Compressor, Layout
from bitlane.compress.seeded import seeded
from bitlane.compress.training.experiment import layout_of
from bitlane.compress.training.networks import CLASSES

WIDTH = 12  # channels of each convolution


def smooth_network(channels: int, side: int, seed: int) -> nn.Module:
    """Return a network of three 5 x 5 convolutions, two of them with stride 2, and a dense layer.

    It has tanh instead of ReLU, because the attack needs second derivatives (as in Zhu et al., 2019).

    Parameters
    ----------
    channels, side : int
        Shape of an image.
    seed : int
        Seed of the weights.
    """
    with seeded(seed):
        return nn.Sequential(
            *(nn.Conv2d(channels, WIDTH, 5, 2, 2), nn.Tanh()),
            *(nn.Conv2d(WIDTH, WIDTH, 5, 2, 2), nn.Tanh()),
            *(nn.Conv2d(WIDTH, WIDTH, 5, 1, 2), nn.Tanh()),
            *(nn.Flatten(), nn.Linear(WIDTH * (side // 4) ** 2, CLASSES)),
        )


class Victim:
    """A copy of the weights of a network, which computes gradients.

    Attributes
    ----------
    layout : Layout
        Spans of its parameters in the gradient vector that ranks send.
    """

    def __init__(self, network: nn.Module):
        parameters = {name: each.detach().clone() for name, each in network.named_parameters()}
        self.layout: Layout = layout_of(list(parameters.values()))

        def loss(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
            return cross_entropy(functional_call(network, parameters, (image[None],)), label[None])

        self._parameters = parameters
        self._each = vmap(grad(loss), in_dims=(None, 0, 0))

    def gradients(self, images: Tensor, classes: Tensor) -> Tensor:
        """Return the gradient of the cross-entropy of each image separately.

        Parameters
        ----------
        images : Tensor, float32 [k, channels, side, side]
            The images. The result is differentiable with respect to them.
        classes : Tensor, int64 [k]
            Their classes.

        Returns
        -------
        Tensor, float32 [k, n]
            The gradients.
        """
        gradients = self._each(self._parameters, images, classes)
        return torch.cat([gradients[name].flatten(1) for name in reversed(list(gradients))], 1)


def decoded_payloads(compressor: Compressor | None, layout: Layout, gradients: Sequence[Tensor]) -> Tensor:
    """Return the decoded payloads of one rank in consecutive steps, float32 [steps, n], for `gradients` float32 [n].

    The average of a single rank is its decoded payload.
    """
    if compressor is None:
        return torch.stack(list(gradients))

    def work(rank: ThreadTransport) -> Tensor:
        reducer = compressor.reducer(layout, Link(rank, repr(compressor)), AlphaBetaModel(), torch.device("cpu"))
        vectors = torch.stack(list(gradients))
        for step, vector in enumerate(vectors):
            reducer.average(vector, step)
        return vectors

    return run_ranks_in_threads(1, work)[0]


def step_bytes(compressor: Compressor | None, layout: Layout, gradients: Sequence[Tensor]) -> int:
    """Return the bytes that the first rank sends to the others in a step, without the header.

    Parameters
    ----------
    compressor : Compressor or None
        None for ring all-reduce in float32.
    layout : Layout
        The parameters of the model.
    gradients : sequence of Tensor, float32 [n]
        One gradient for each rank.
    """
    ranks = len(gradients)
    if compressor is None:
        return 2 * (ranks - 1) * 4 * len(gradients[0]) // ranks

    def work(rank: ThreadTransport) -> int:
        reducer = compressor.reducer(layout, Link(rank, repr(compressor)), AlphaBetaModel(), torch.device("cpu"))
        reducer.average(gradients[rank.rank].clone(), 0)
        return rank.sent

    return run_ranks_in_threads(ranks, work)[0]
