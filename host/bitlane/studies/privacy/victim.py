"""Who is attacked: a small network with smooth activations, its gradient of one image, and what a rank sends of it."""

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
from bitlane.compress.training.experiment import layout_of
from bitlane.compress.training.networks import CLASSES

WIDTH = 12  # channels of each convolution


def smooth_network(channels: int, side: int, seed: int) -> nn.Module:
    """Three convolutions of 5 x 5, two of them with stride 2, and a full layer, weights drawn from `seed`.

    The attack needs second derivatives, so that tanh stands where networks usually have ReLU (as Zhu et al., 2019).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            *(nn.Conv2d(channels, WIDTH, 5, 2, 2), nn.Tanh()),
            *(nn.Conv2d(WIDTH, WIDTH, 5, 2, 2), nn.Tanh()),
            *(nn.Conv2d(WIDTH, WIDTH, 5, 1, 2), nn.Tanh()),
            *(nn.Flatten(), nn.Linear(WIDTH * (side // 4) ** 2, CLASSES)),
        )


class Victim:
    """A network as it is now.

    Attributes
    ----------
    layout: places of its parameters in the vector of all gradients, as ranks send it.
    """

    def __init__(self, network: nn.Module):
        parameters = {name: each.detach().clone() for name, each in network.named_parameters()}
        self.layout: Layout = layout_of(list(parameters.values()))

        def loss(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
            return cross_entropy(functional_call(network, parameters, (image[None],)), label[None])

        self._parameters = parameters
        self._each = vmap(grad(loss), in_dims=(None, 0, 0))

    def gradients(self, images: Tensor, classes: Tensor) -> Tensor:
        """float32 [k, n]: the gradient of each image's cross-entropy by itself.

        images: float32 [k, channels, side, side]; the result can be differentiated by them. classes: int64 [k].
        """
        found = self._each(self._parameters, images, classes)
        return torch.cat([found[name].flatten(1) for name in reversed(list(found))], 1)


def decoded_payloads(compressor: Compressor | None, layout: Layout, gradients: Sequence[Tensor]) -> Tensor:
    """float32 [steps, n]: what the payloads of one rank say in consecutive steps with these `gradients` float32 [n].

    A rank without others applies what it sends, and nothing else, so that its average is its payload, decoded.
    """
    if compressor is None:
        return torch.stack(list(gradients))

    def work(rank: ThreadTransport) -> Tensor:
        reducer = compressor.reducer(layout, Link(rank, repr(compressor)), AlphaBetaModel(), torch.device("cpu"))
        found = torch.stack(list(gradients))
        for step, vector in enumerate(found):
            reducer.average(vector, step)
        return found

    return run_ranks_in_threads(1, work)[0]


def step_bytes(compressor: Compressor | None, layout: Layout, gradients: Sequence[Tensor]) -> int:
    """Bytes that the first of as many ranks as there are `gradients` float32 [n] sends to the others in a step.

    Without the header of the step; without a compressor, what ring all-reduce of float32 sends.
    """
    ranks = len(gradients)
    if compressor is None:
        return 2 * (ranks - 1) * 4 * len(gradients[0]) // ranks

    def work(rank: ThreadTransport) -> int:
        reducer = compressor.reducer(layout, Link(rank, repr(compressor)), AlphaBetaModel(), torch.device("cpu"))
        reducer.average(gradients[rank.rank].clone(), 0)
        return rank.sent

    return run_ranks_in_threads(ranks, work)[0]
