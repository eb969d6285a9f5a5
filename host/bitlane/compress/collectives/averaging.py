"""The average of all ranks' vectors, moved as codes and summed in float32, in order of rank.

Codes are never added to one another: those of logarithms have no sum, and those of different steps none either. Either
everybody gathers everybody's codes, or each part has an owner: all send it their codes of that part, it adds the values
up, codes the average again with a residual of its own, and sends these codes to all. Every rank decodes the same bytes,
its own included, so that all end with the same average, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from bitlane.support.hashing import derive_seed

from ..codecs.groups import Groups, shard_groups
from .cost_model import AlphaBetaModel
from .link import Link
from .restore import restore


class Quantizer(Protocol):
    """Values to bytes and back, group by group."""

    def body_bytes(self, groups: Groups) -> int:
        """Bytes of the body of such groups, whatever their values."""
        ...

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        """The body uint8 [body_bytes(groups)] of values float32 [groups.count].

        residual: float32, added first; becomes what the codes do not say. seed: of random rounding, if there is any.
        """
        ...

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        """Write, or add, the values of a body to `out` float32 [groups.count]."""
        ...


class Averaging:
    """What averages vectors with the same groups in every step.

    Parameters
    ----------
    groups: of the vector.
    link, model: the ranks, and what sending costs.
    seed: of random rounding.
    feedback: whether what codes do not say is kept, and added the next time.

    Attributes
    ----------
    residual: float32 [groups.count], what this rank did not send; None without feedback.
    owned_residual: float32 of this rank's part, what it did not say of the average; None without feedback or owners.
    """

    def __init__(
        self, groups: Groups, link: Link, model: AlphaBetaModel, seed: int, feedback: bool, device: torch.device
    ):
        self.groups, self.link, self.model, self.seed = groups, link, model, seed
        self.parts = shard_groups(groups, link.size)
        own = self.parts[link.rank]
        self.residual = torch.zeros(groups.count, device=device) if feedback else None
        self.owned_residual = torch.zeros(own.end - own.begin, device=device) if feedback else None

    def average(self, vector: Tensor, quantizer: Quantizer, step: int) -> None:
        """Make `vector` float32 [groups.count] the average of all ranks', as far as the codes tell it."""
        if self.model.prefers_reduce_scatter(quantizer.body_bytes(self.groups), self.link.size):
            self._by_owners(vector, quantizer, step)
        else:
            self._gathered(vector, quantizer, step)

    def combined_residual(self) -> Tensor:
        """float32 [groups.count]: what this rank keeps back, in units of its own vector."""
        assert self.residual is not None and self.owned_residual is not None
        own = self.parts[self.link.rank]
        kept = self.residual.clone()
        kept[own.begin : own.end] += self.owned_residual * self.link.size
        return kept

    def release(self, count: int) -> Tensor:
        """The first `count` values of `kept()`: the caller's from now on, and not added the next time."""
        assert self.residual is not None and self.owned_residual is not None
        released = self.combined_residual()[:count]
        self.residual[:count] = 0
        self.owned_residual[: max(0, count - self.parts[self.link.rank].begin)] = 0
        return released

    def state_dict(self) -> dict[str, Tensor]:
        """Residuals, copied; empty without feedback."""
        return {name: tensor.clone() for name, tensor in self._residuals().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state_dict` gave; DataError where a residual is missing, or of another length."""
        restore(self._residuals(), state)

    def _residuals(self) -> dict[str, Tensor]:
        kept = {"residual": self.residual, "owned_residual": self.owned_residual}
        return {name: tensor for name, tensor in kept.items() if tensor is not None}

    def reshard(self, kept: Tensor) -> None:
        """Keep back `kept` float32 [groups.count], in units of this rank's own vector, and nothing else."""
        assert self.residual is not None and self.owned_residual is not None
        self.residual.copy_(kept)
        self.owned_residual.zero_()

    def _gathered(self, vector: Tensor, quantizer: Quantizer, step: int) -> None:
        body = quantizer.encode(vector, self.groups, self.residual, self._seed(step, 0))
        bodies = self.link.all_gather(body, [len(body)] * self.link.size)
        self._mean(bodies, self.groups, quantizer, vector)

    def _by_owners(self, vector: Tensor, quantizer: Quantizer, step: int) -> None:
        bodies = []
        for stage, part in enumerate(self.parts):
            kept = None if self.residual is None else self.residual[part.begin : part.end]
            values = vector[part.begin : part.end]
            bodies.append(quantizer.encode(values, part.groups, kept, self._seed(step, stage)))
        own = self.parts[self.link.rank]
        received = self.link.exchange(bodies, [quantizer.body_bytes(own.groups)] * self.link.size)
        mean = torch.empty(own.end - own.begin, device=vector.device)
        self._mean(received, own.groups, quantizer, mean)
        again = quantizer.encode(mean, own.groups, self.owned_residual, self._seed(step, self.link.size))
        lengths = [quantizer.body_bytes(part.groups) for part in self.parts]
        for part, body in zip(self.parts, self.link.all_gather(again, lengths), strict=True):
            quantizer.decode(body, part.groups, vector[part.begin : part.end], add=False)

    def _mean(self, bodies: list[Tensor], groups: Groups, quantizer: Quantizer, out: Tensor) -> None:
        for rank, body in enumerate(bodies):
            quantizer.decode(body, groups, out, add=rank > 0)
        out *= 1 / self.link.size

    def _seed(self, step: int, stage: int) -> int:
        return derive_seed(self.seed, step, self.link.rank, stage)
