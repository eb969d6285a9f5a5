"""Top-k sparsification: each rank sends the largest magnitudes of its vector to all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ..codecs import tensors
from ..codecs.wire import CodecId
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.residuals import RESIDUAL_DTYPES
from ..compressor import Layout, SavedState, vector_length
from .memory import StateVectors
from .settings import check_residual_dtype, checked_density, checked_flag, replace_setting
from .shares import LargestSelection


def all_gather_average(link: Link, body: Tensor, out: Tensor) -> None:
    """Average the sparse vectors of all ranks.

    Each rank sends its payload to all, and sums all of them in float32 in the order of ranks, so that all ranks get
    identical bytes. A payload is freed when it is added.

    Parameters
    ----------
    link : Link
        The connection to the other ranks.
    body : Tensor, uint8
        The sparse vector of this rank, from `tensors.encode`.
    out : Tensor, float32 [n]
        The average; zero where no rank has a value.
    """
    bodies = link.all_gather(body, link.gather_lengths(len(body)))
    out.zero_()
    while bodies:
        indices, values = tensors.decode(bodies.pop(0), len(out), out.device)
        out.scatter_add_(0, indices, values)  # indices of one rank are unique
    out.mul_(1 / link.size)


def take(indices: Tensor, values: Tensor, *others: Tensor) -> Tensor:
    """Return the values at ascending indices as a body of `tensors.encode`; set them to zero, and those of `others`."""
    body = tensors.encode(indices, values.index_select(0, indices), len(values))
    for each in (values, *others):
        each.index_fill_(0, indices, 0)
    return body


class TopKReducer:
    """The reducer of `TopK`; stateless without error feedback."""

    def __init__(self, count: int, topk: TopK, link: Link, device: torch.device):
        self.bits = 0
        self.density = topk.density
        self.link = link
        self.error_feedback = topk.error_feedback
        self.selection = LargestSelection(count)
        names, dtype = ["residual"] if self.error_feedback else [], RESIDUAL_DTYPES[topk.residual_dtype]
        self.memory = StateVectors(count, device, *names, dtype=dtype)

    def average(self, vector: Tensor, step: int) -> None:
        accumulated = self.memory.accumulate("residual", vector) if self.error_feedback else vector
        body = take(self.selection.select(accumulated, self.density), accumulated)
        if self.error_feedback:
            self.memory.keep("residual", accumulated)
        all_gather_average(self.link, body, vector)

    def residual(self) -> Tensor | None:
        return self.memory.copy("residual") if self.error_feedback else None

    def residual_rounding(self) -> Tensor | None:
        return self.memory.rounding("residual") if self.error_feedback else None

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Any]:
        return self.memory.state_dict(memory)

    def load_state_dict(self, state: SavedState) -> None:
        self.memory.load_state_dict(state)

    def reshard(self, states: Sequence[SavedState], residual: Tensor | None) -> None:
        if residual is not None:
            self.memory.load_state_dict({"residual": residual})


@dataclass(frozen=True)
class TopK:
    """Send the k values with the largest magnitudes, in float32, with their indices (Aji and Heafield, 2017).

    The selection is exact and covers the whole vector; of segments (`overlap=True`) each has a share of the k values.
    Ranks select different indices, so that n ranks average up to n k values in a step.

    Parameters
    ----------
    density : float, default: 0.01
        Values that each rank sends, as a share of all values.
    error_feedback : bool, default: True
        Keep the values that are not sent, and add them in the next step.
    residual_dtype : {"float32", "bfloat16"}, default: "float32"
        The type of the residuals between steps. "bfloat16" halves their memory, and loses what rounding changes.

    Examples
    --------
    >>> from bitlane.compress import DDPCompression, TopK
    >>> compression = DDPCompression(TopK(density=0.001))  # doctest: +SKIP
    """

    density: float = 0.01
    error_feedback: bool = True
    residual_dtype: Literal["float32", "bfloat16"] = "float32"
    codec: CodecId = field(default=CodecId.SPARSE, init=False)
    policy: None = field(default=None, init=False)
    whole_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        feedback = checked_flag("error_feedback", self.error_feedback)
        check_residual_dtype(self.residual_dtype, feedback)
        replace_setting(self, density=checked_density(self.density), error_feedback=feedback)

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> TopKReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        return TopKReducer(vector_length(layout), self, link, device)
