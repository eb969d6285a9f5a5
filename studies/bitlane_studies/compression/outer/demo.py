"""DeMo: each rank keeps its momentum to itself, and sends the largest components of its cosine transform.

Peng, Quesnelle and Kingma, 2024 (arXiv 2411.19870), algorithm 1. In each step

    m = beta m + g                        momentum of this rank
    q = largest components of DCT(m)      of each chunk
    m = m - DCT^-1(q)                     what was not sent stays, as with error feedback
    w = w - rate sign(DCT^-1(mean of q over the ranks))

A chunk of a matrix has up to 64 rows and columns, that of a vector up to 64 values. A component is sent as the place in
its chunk, 2 bytes, and a bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import pi
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

BETA, SIDE = 0.999, 64
COMPONENT_BYTES = 4


@cache
def cosines(n: int) -> Tensor:
    """Return the orthonormal matrix of the cosine transform of n values, float32 [n, n]."""
    k, x = torch.arange(n, dtype=torch.float64).unsqueeze(1), torch.arange(n, dtype=torch.float64) + 0.5
    matrix: Tensor = torch.cos(pi / n * k * x) * (2 / n) ** 0.5
    matrix[0] /= 2**0.5
    return matrix.float()


def chunk_side(length: int) -> int:
    """Return the largest divisor of a length that is at most `SIDE`."""
    return max(side for side in range(1, min(SIDE, length) + 1) if length % side == 0)


class Chunks:
    """The chunks of a parameter: a matrix, or a vector as a matrix of one row.

    Parameters
    ----------
    shape : torch.Size
        Of the parameter.

    Attributes
    ----------
    size : int
        Values of a chunk.
    """

    def __init__(self, shape: torch.Size):
        self._shape = shape
        rows, columns = (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1:].numel())
        self._sides = chunk_side(rows), chunk_side(columns)
        self.size = self._sides[0] * self._sides[1]
        self._counts = rows // self._sides[0], columns // self._sides[1]

    def transformed(self, values: Tensor) -> Tensor:
        """Return the components of each chunk, float32 [chunks, values of a chunk]."""
        (a, b), (m, n) = self._sides, self._counts
        blocks = values.reshape(m, a, n, b).transpose(1, 2)
        components: Tensor = cosines(a) @ blocks @ cosines(b).T
        return components.reshape(m * n, a * b)

    def restored(self, components: Tensor) -> Tensor:
        """Return the parameter of which `transformed` gave these components."""
        (a, b), (m, n) = self._sides, self._counts
        blocks = cosines(a).T @ components.reshape(m, n, a, b) @ cosines(b)
        return blocks.transpose(1, 2).reshape(self._shape)


class DeMo(torch.optim.Optimizer):
    """Steps with the signs of the averaged components of all ranks. Every rank calls `step` equally often.

    Parameters
    ----------
    parameters : iterable of Tensor, float32
    rate : float
    density : float
        Share of the components of a chunk that is sent; one at least.
    weight_decay : float
        Decoupled, as that of AdamW.
    """

    def __init__(self, parameters: Iterable[Tensor], rate: float, density: float, weight_decay: float):
        super().__init__(parameters, {"lr": rate, "density": density, "weight_decay": weight_decay})
        self.declared_bytes = 0

    def step(self, closure: Any = None) -> Any:
        """Average and step once."""
        assert closure is None
        with torch.no_grad():
            self._step()

    def _step(self) -> None:
        steps = [(each, group) for group in self.param_groups for each in group["params"]]
        sent = [self._extracted(each, group["density"]) for each, group in steps]
        own = torch.cat([part.flatten().view(torch.uint8) for pair in sent for part in pair])
        gathered = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, own)
        self.declared_bytes += len(own) * (len(gathered) - 1)
        at = 0
        for (parameter, group), (places, values) in zip(steps, sent, strict=True):
            count, chunks = 2 * places.numel(), self.state[parameter]["chunks"]
            total = torch.zeros(places.shape[0], chunks.size)
            for body in gathered:
                where = body[at : at + count].view(torch.int16).view_as(places).long()
                what = body[at + count : at + 2 * count].view(torch.bfloat16).view_as(values)
                total.scatter_add_(1, where, what.float() / len(gathered))
            at += 2 * count
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            parameter.sub_(chunks.restored(total).sign_(), alpha=group["lr"])

    def _extracted(self, parameter: Tensor, density: float) -> tuple[Tensor, Tensor]:
        """Take the largest components from the momentum; return their places, int16, and values, bfloat16."""
        state = self.state[parameter]
        if not state:
            state["momentum"], state["chunks"] = torch.zeros_like(parameter), Chunks(parameter.shape)
        assert parameter.grad is not None
        momentum, chunks = state["momentum"], state["chunks"]
        momentum.mul_(BETA).add_(parameter.grad)
        components = chunks.transformed(momentum)
        places = components.abs().topk(max(1, round(density * chunks.size)), 1).indices
        values = components.gather(1, places).bfloat16()
        momentum.sub_(chunks.restored(torch.zeros_like(components).scatter_(1, places, values.float())))
        return places.to(torch.int16), values
