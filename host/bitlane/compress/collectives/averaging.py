"""The average of the vectors of all ranks: sent as codes, decoded and summed in float32 in the order of ranks.

Codes are decoded before they are added, because logarithmic codes and codes with different scales have no sum. There
are two collectives:

- all-gather: each rank sends its codes to all others, and each decodes and averages all of them;
- reduce-scatter and all-gather: each rank owns one shard of the vector. The others send it their codes of that shard.
  It averages them, encodes the average with a second residual, and sends these codes to all.

Every rank decodes the same bytes, including its own, so that all ranks end with identical averages.
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
from .residuals import add_residual, rounding_bound
from .restore import restore, saved


class Quantizer(Protocol):
    """Encodes values to bytes and decodes them, group by group."""

    def body_bytes(self, groups: Groups) -> int:
        """Return the bytes of a body; they depend only on the groups."""
        ...

    def encode(self, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
        """Encode values.

        Parameters
        ----------
        values : Tensor, float32 [groups.count]
            The values.
        groups : Groups
            Their groups.
        residual : Tensor, float32 [groups.count], or None
            Added to the values before encoding; overwritten with the quantization error.
        seed : int
            Seed of stochastic rounding; ignored by deterministic quantizers.

        Returns
        -------
        Tensor, uint8 [body_bytes(groups)]
            The body.
        """
        ...

    def decode(self, body: Tensor, groups: Groups, out: Tensor, add: bool) -> None:
        """Decode a body to `out`, float32 [groups.count]; with `add`, add the values to it."""
        ...


class Averaging:
    """Averages vectors with the same groups in every step.

    Parameters
    ----------
    groups : Groups
        The groups of the vector.
    link : Link
        The connection to the other ranks.
    model : AlphaBetaModel
        The cost model that chooses the collective.
    seed : int
        Seed of stochastic rounding.
    error_feedback : bool
        Whether quantization errors are kept and added in the next step.
    device : torch.device
        The device of the vectors.
    residual_dtype : torch.dtype, default: torch.float32
        The type of the residuals: float32 or bfloat16.

    Attributes
    ----------
    residual : Tensor, residual_dtype [groups.count], or None
        Quantization error of this rank's vector; None without error feedback.
    owned_residual : Tensor, residual_dtype [values of the owned shard], or None
        Quantization error of the averages that this rank encoded; None without error feedback.
    """

    def __init__(
        self,
        groups: Groups,
        link: Link,
        model: AlphaBetaModel,
        seed: int,
        error_feedback: bool,
        device: torch.device,
        residual_dtype: torch.dtype = torch.float32,
    ):
        self.groups = groups
        self.link = link
        self.model = model
        self.seed = seed
        self.shards = shard_groups(groups, link.size)
        own = self.shards[link.rank]
        self.residual: Tensor | None = None
        self.owned_residual: Tensor | None = None
        if error_feedback:
            self.residual = torch.zeros(groups.count, dtype=residual_dtype, device=device)
            self.owned_residual = torch.zeros(own.end - own.begin, dtype=residual_dtype, device=device)

    def average(self, vector: Tensor, quantizer: Quantizer, step: int) -> None:
        """Replace `vector`, float32 [groups.count], by the average of the decoded vectors of all ranks."""
        if self.rounds_average(quantizer):
            self._reduce_scatter(vector, quantizer, step)
        else:
            self._all_gather(vector, quantizer, step)

    def rounds_average(self, quantizer: Quantizer) -> bool:
        """Return whether the average is encoded, too, as in reduce-scatter and all-gather."""
        return self.model.prefers_reduce_scatter(quantizer.body_bytes(self.groups), self.link.size)

    def regroup(self, groups: Groups) -> None:
        """Continue with other groups of the same values, and other shards; only without error feedback."""
        assert self.residual is None
        self.groups, self.shards = groups, shard_groups(groups, self.link.size)

    def combined_residual(self) -> Tensor:
        """Return the sum of both residuals, float32 [groups.count], in units of this rank's vector."""
        assert self.residual is not None and self.owned_residual is not None
        own = self.shards[self.link.rank]
        combined = self.residual.to(torch.float32, copy=True)
        combined[own.begin : own.end] += self.owned_residual.float() * self.link.size
        return combined

    def residual_rounding(self) -> Tensor | None:
        """Return a bound on what rounding changed in `combined_residual()`, float32 [groups.count]; None if nothing."""
        if self.residual is None or self.owned_residual is None or self.residual.dtype == torch.float32:
            return None
        own, bound = self.shards[self.link.rank], rounding_bound(self.residual)
        bound[own.begin : own.end] += rounding_bound(self.owned_residual) * self.link.size
        return bound

    def release(self, count: int) -> Tensor:
        """Return the first `count` values of `combined_residual()`, and set them to zero here."""
        assert self.residual is not None and self.owned_residual is not None
        released = self.combined_residual()[:count]
        self.residual[:count] = 0
        self.owned_residual[: max(0, count - self.shards[self.link.rank].begin)] = 0
        return released

    def state_dict(self, memory: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Return copies of the residuals, in the memory of earlier copies if it is given; none without them."""
        return saved(self._residuals(), memory)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state of `state_dict`; raise DataError if a residual is missing or has another length."""
        restore(self._residuals(), state)

    def _residuals(self) -> dict[str, Tensor]:
        residuals = {"residual": self.residual, "owned_residual": self.owned_residual}
        return {name: tensor for name, tensor in residuals.items() if tensor is not None}

    def reshard(self, residual: Tensor) -> None:
        """Set the combined residual to `residual`, float32 [groups.count], in units of this rank's vector."""
        assert self.residual is not None and self.owned_residual is not None
        self.residual.copy_(residual)
        self.owned_residual.zero_()

    def _all_gather(self, vector: Tensor, quantizer: Quantizer, step: int) -> None:
        body = _encode(quantizer, vector, self.groups, self.residual, self._seed(step, 0))
        bodies = self.link.all_gather(body, [len(body)] * self.link.size)
        self._mean(bodies, self.groups, quantizer, vector)

    def _reduce_scatter(self, vector: Tensor, quantizer: Quantizer, step: int) -> None:
        bodies = []
        for stage, shard in enumerate(self.shards):
            residual = None if self.residual is None else self.residual[shard.begin : shard.end]
            values = vector[shard.begin : shard.end]
            bodies.append(_encode(quantizer, values, shard.groups, residual, self._seed(step, stage)))
        own = self.shards[self.link.rank]
        received = self.link.exchange(bodies, [quantizer.body_bytes(own.groups)] * self.link.size)
        mean = torch.empty(own.end - own.begin, device=vector.device)
        self._mean(received, own.groups, quantizer, mean)
        encoded_mean = _encode(quantizer, mean, own.groups, self.owned_residual, self._seed(step, self.link.size))
        lengths = [quantizer.body_bytes(shard.groups) for shard in self.shards]
        for shard, body in zip(self.shards, self.link.all_gather(encoded_mean, lengths), strict=True):
            quantizer.decode(body, shard.groups, vector[shard.begin : shard.end], add=False)

    def _mean(self, bodies: list[Tensor], groups: Groups, quantizer: Quantizer, out: Tensor) -> None:
        for rank, body in enumerate(bodies):
            quantizer.decode(body, groups, out, add=rank > 0)
        out *= 1 / self.link.size

    def _seed(self, step: int, stage: int) -> int:
        return derive_seed(self.seed, step, self.link.rank, stage)


def _encode(quantizer: Quantizer, values: Tensor, groups: Groups, residual: Tensor | None, seed: int) -> Tensor:
    """Encode values with a residual of either type, or without one.

    With a residual in bfloat16 the values are overwritten: they hold the sum, and then minus its quantization error,
    which has the bits of that of a float32 residual. The residual is that error, rounded to the nearest.
    """
    if residual is None or residual.dtype == torch.float32:
        return quantizer.encode(values, groups, residual, seed)
    add_residual(values, residual)
    body = quantizer.encode(values, groups, None, seed)
    values.neg_()
    quantizer.decode(body, groups, values, add=True)
    residual.copy_(values).neg_()
    return body
