"""Top-k sparsification: each rank sends the largest magnitudes of its vector to all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from bitlane.support.hashing import derive_seed
from bitlane.support.scalars import as_integer

from ..codecs.sparse import FLOAT
from ..codecs.wire import CodecId
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.residuals import RESIDUAL_DTYPES
from ..compressor import Layout, SavedState, vector_length
from .chunks import ChunkSelection
from .coding import all_gather_average, take
from .memory import StateVectors
from .settings import (
    check_residual_dtype,
    checked_decay,
    checked_density,
    checked_flag,
    checked_value_bits,
    replace_setting,
)
from .shares import LargestSelection


class TopKReducer:
    """The reducer of `TopK`; stateless without error feedback."""

    def __init__(self, count: int, topk: TopK, link: Link, device: torch.device):
        self.bits = 0
        self.topk = topk
        self.link = link
        self.error_feedback = topk.error_feedback
        self.selection = ChunkSelection() if topk.chunked else LargestSelection(count)
        names, dtype = ["residual"] if self.error_feedback else [], RESIDUAL_DTYPES[topk.residual_dtype]
        self.memory = StateVectors(count, device, *names, dtype=dtype, decay=topk.decay)

    def average(self, vector: Tensor, step: int) -> None:
        accumulated = self.memory.accumulate("residual", vector) if self.error_feedback else vector
        indices = self.selection.select(accumulated, self.topk.density)
        body = take(indices, accumulated, bits=self.topk.value_bits, seed=self._seed(step))
        if self.error_feedback:
            self.memory.keep("residual", accumulated)
        all_gather_average(self.link, body, vector, self.topk.value_bits)

    def _seed(self, step: int) -> int | None:
        """Return the seed of stochastic rounding; None for rounding to the nearest, or for none."""
        is_drawn = not self.error_feedback and self.topk.value_bits < FLOAT
        return derive_seed(self.topk.seed, step, self.link.rank) if is_drawn else None

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
    """Send the k values with the largest magnitudes, with their indices (Aji and Heafield, 2017).

    The selection is exact and covers the whole vector; of segments (`overlap=True`) each has a share of the k values.
    With `chunked` it covers each chunk for itself. Ranks select different indices, so that n ranks average up to n k
    values in a step.

    In chunks, with 2 bits and a decay of 0.95, and with `DiLoCo`, it is SparseLoCo (Sarfi et al., 2025, arXiv
    2508.15706).

    Parameters
    ----------
    density : float, default: 0.01
        Values that each rank sends, as a share of all values.
    error_feedback : bool, default: True
        Keep the values that are not sent, and add them in the next step.
    residual_dtype : {"float32", "bfloat16"}, default: "float32"
        The type of the residuals between steps. "bfloat16" halves their memory, and loses what rounding changes.
    value_bits : {32, 8, 4, 2}, default: 32
        Bits of a value. 32 is float32; fewer bits share a scale of 3 bytes in each chunk of 4,096 values that has some.
        Rounding is to the nearest level, and its error is kept; without error feedback it is stochastic and unbiased.
    chunked : bool, default: False
        Send the largest values of each chunk of 4,096 values: a share of `density`, rounded, at least one.
    decay : float, default: 1.0
        Factor of the residuals from step to step, above 0 and at most 1; below 1 they forget what was never sent.
    seed : int, default: 0
        Seed of stochastic rounding.

    Examples
    --------
    >>> from bitlane.compress import DDPCompression, TopK
    >>> compression = DDPCompression(TopK(density=0.001))  # doctest: +SKIP
    """

    density: float = 0.01
    error_feedback: bool = True
    residual_dtype: Literal["float32", "bfloat16"] = "float32"
    value_bits: int = FLOAT
    chunked: bool = False
    decay: float = 1.0
    seed: int = 0
    codec: CodecId = field(default=CodecId.SPARSE, init=False)
    policy: None = field(default=None, init=False)
    whole_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        feedback = checked_flag("error_feedback", self.error_feedback)
        check_residual_dtype(self.residual_dtype, feedback)
        replace_setting(
            self,
            density=checked_density(self.density),
            error_feedback=feedback,
            value_bits=checked_value_bits(self.value_bits),
            chunked=checked_flag("chunked", self.chunked),
            decay=checked_decay(self.decay, feedback),
            seed=as_integer("seed", self.seed, 0),
        )

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> TopKReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        return TopKReducer(vector_length(layout), self, link, device)
