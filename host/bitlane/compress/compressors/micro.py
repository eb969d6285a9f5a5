"""MiCRO: each rank selects indices from a separate partition of the vector, so that no index is selected twice.

Rank i has partition (i + step) modulo the number of ranks n. It selects the largest magnitudes of its accumulated
gradient, the sum of gradient and residual, and sends their indices to all ranks. The ranks return their values at these
indices; it averages them in float32, in the order of ranks, and sends the averages to all. With k indices in total, a
rank sends its indices to n - 1 others, and about 2 (n - 1) / n * 4 k bytes of values. In few bits, each rank keeps the
error of its values, and the rank that averages n times the error of the averages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from bitlane.errors import DataError

from ..codecs import tensors
from ..codecs.sparse import FLOAT
from ..codecs.wire import CodecId
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.residuals import RESIDUAL_DTYPES
from ..compressor import Layout, SavedState, vector_length
from .coding import keep_error
from .memory import StateVectors
from .selection import QuotaSelection, SelectionRule, ThresholdScaling
from .settings import check_residual_dtype, checked_decay, checked_density, checked_value_bits, replace_setting
from .shares import density_count


class MiCROReducer:
    """The reducer of `MiCRO`.

    Attributes
    ----------
    counts : list of int
        Indices that each rank selected in the last step.
    index_bytes : int
        Bytes of the encoded indices of this rank in the last step, sent to each other rank.
    """

    def __init__(self, count: int, micro: MiCRO, link: Link, device: torch.device):
        self.bits = 0
        self.link = link
        self.value_bits, dtype = micro.value_bits, RESIDUAL_DTYPES[micro.residual_dtype]
        self.memory = StateVectors(count, device, "residual", dtype=dtype, decay=micro.decay)
        self.selection: SelectionRule = (
            QuotaSelection(count, micro.density)
            if micro.controller == "quotas"
            else ThresholdScaling(density_count(micro.density, count))
        )
        self.partition_bounds = [count * number // link.size for number in range(link.size + 1)]
        self.counts: list[int] = []
        self.index_bytes = 0

    def average(self, vector: Tensor, step: int) -> None:
        accumulated = self.memory.accumulate("residual", vector)
        indices = self._gather_indices(accumulated, step)
        self.counts = [len(each) for each in indices]
        self.selection.update(sum(self.counts))
        means = self._means(accumulated, indices)
        self.memory.keep("residual", accumulated)
        vector.zero_()
        for each, mean in zip(indices, means, strict=True):
            vector.scatter_(0, each, mean)

    def _gather_indices(self, accumulated: Tensor, step: int) -> list[Tensor]:
        """Return the indices that each rank has selected."""
        partitions = [(rank + step) % self.link.size for rank in range(self.link.size)]
        begins = [self.partition_bounds[each] for each in partitions]
        sizes = [self.partition_bounds[each + 1] - self.partition_bounds[each] for each in partitions]
        rank = self.link.rank
        own = self.selection.select(accumulated[begins[rank] : begins[rank] + sizes[rank]], self.link)
        codes = tensors.encode_indices(own, sizes[rank])
        self.index_bytes = len(codes)
        gathered = self.link.all_gather(codes, self.link.gather_lengths(len(codes)))
        return [
            tensors.decode_indices(each, n, accumulated.device).add_(begin)
            for begin, each, n in zip(begins, gathered, sizes, strict=True)
        ]

    def _means(self, accumulated: Tensor, indices: Sequence[Tensor]) -> list[Tensor]:
        """Return the averages at the indices of each rank, computed by that rank; keep the errors of their codes."""
        own, bits, size = indices[self.link.rank], self.value_bits, self.link.size
        lengths = [tensors.value_bytes(each, bits) for each in indices]
        replies = []
        for each in indices:
            values = accumulated.index_select(0, each)
            codes, decoded = tensors.encode_values(each, values, bits)
            keep_error(accumulated, each, values, decoded)
            replies.append(codes)
        received = self.link.exchange(replies, [lengths[self.link.rank]] * size)
        mean = tensors.decode_values(received[0], own, bits)
        for codes in received[1:]:
            mean += tensors.decode_values(codes, own, bits)
        mean *= 1 / size
        codes, decoded = tensors.encode_values(own, mean, bits)
        if decoded is not mean:
            accumulated.index_add_(0, own, mean.sub_(decoded), alpha=size)
        bodies = zip(self.link.all_gather(codes, lengths), indices, strict=True)
        return [tensors.decode_values(each, at, bits) for each, at in bodies]

    def residual(self) -> Tensor:
        return self.memory.copy("residual")

    def residual_rounding(self) -> Tensor | None:
        return self.memory.rounding("residual")

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Any]:
        return {**self.memory.state_dict(memory), **self.selection.state_dict()}

    def load_state_dict(self, state: SavedState) -> None:
        self.memory.load_state_dict(state)
        self.selection.load_state_dict(state)

    def reshard(self, states: Sequence[SavedState], residual: Tensor | None) -> None:
        assert residual is not None
        self.memory.load_state_dict({"residual": residual})
        self.selection.load_state_dict(states[0])


@dataclass(frozen=True)
class MiCRO:
    """Sparsify with exclusive, cyclic partitions and error feedback (MiCRO, Yoon and Oh, 2023, algorithm 1).

    Parameters
    ----------
    density : float, default: 0.01
        Values that all ranks together send in a step, as a share of all values.
    controller : {"quotas", "published"}, default: "quotas"
        "quotas" holds the density exactly in every step and adds a round of at most 100 bytes to each rank.
        "published" scales a threshold as the authors' code does; its density drifts.
    residual_dtype : {"float32", "bfloat16"}, default: "float32"
        The type of the residuals between steps. "bfloat16" halves their memory, and loses what rounding changes.
    value_bits, decay
        As in `TopK`.

    Examples
    --------
    >>> from bitlane.compress import DDPCompression, MiCRO
    >>> compression = DDPCompression(MiCRO(density=0.001))  # doctest: +SKIP
    """

    density: float = 0.01
    controller: Literal["quotas", "published"] = "quotas"
    residual_dtype: Literal["float32", "bfloat16"] = "float32"
    value_bits: int = FLOAT
    decay: float = 1.0
    codec: CodecId = field(default=CodecId.SPARSE, init=False)
    policy: None = field(default=None, init=False)
    whole_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_residual_dtype(self.residual_dtype)
        bits, decay = checked_value_bits(self.value_bits), checked_decay(self.decay)
        replace_setting(self, density=checked_density(self.density), value_bits=bits, decay=decay)
        if self.controller not in ("quotas", "published"):
            raise DataError(f"controller must be 'quotas' or 'published'; got {self.controller!r}")

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> MiCROReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        return MiCROReducer(vector_length(layout), self, link, device)
