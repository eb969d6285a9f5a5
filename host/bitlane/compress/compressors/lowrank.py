"""Compressors that send a matrix of gradients as two thin factors: PowerSGD, and LQ-SGD with codes of few bits.

With M the sum of a rank's gradient and what it kept, and Q the factor of the step before, its columns orthonormalised
(PowerSGD: Vogels et al., 2019, algorithms 1 and 2; LQ-SGD: Li et al., 2025, algorithm 1):

    P = average of M Q, orthonormalised;  Q' = average of M^T P;  all apply P Q'^T;  a rank keeps M - P S^T

where S is what came from this rank of the average Q': its M^T P as it was sent and, where it owns a part of Q', also
what the codes of the average did not say, once for each rank. So the sum over ranks is conserved whatever is lost.

LQ-SGD here codes each rank's M Q, and all ranks orthonormalise the average of the decoded values, from the same bytes;
the paper would orthonormalise on each rank and average codes, which are no numbers that have an average. A column of Q
of which nothing is left, after a zero gradient or one of a lower rank, is drawn anew, as is all of Q without a warm
start; uniform between -1 and 1 where the papers have a normal distribution, since only what Q spans counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.policies.protocol import BitPolicy, FixedBits
from bitlane.support.hashing import derive_seed, hash_words

from ..codecs import log
from ..codecs.groups import Groups
from ..codecs.wire import CodecId
from ..collectives.averaging import Averaging, Quantizer
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..compressor import Layout, ParameterSpan, SavedState, vector_length
from .factors import Float32Quantizer, LogQuantizer
from .matrix import Matrix
from .orthonormal import orthonormalize


@dataclass(frozen=True)
class PowerSGD:
    """Factors in float32 (Vogels et al., 2019).

    A parameter of two or more dimensions is a matrix [shape[0], rest]. What is none, and a matrix that its factors
    would not make smaller, is averaged in float32.

    Parameters
    ----------
    rank: columns of each factor.
    warm_start: whether a step begins with Q of the step before; a new one is drawn otherwise.
    min_compression: a matrix has factors where it has more than so many times their values.
    seed: of what is drawn.
    """

    rank: int = 1
    warm_start: bool = True
    min_compression: float = 1.0
    seed: int = 0
    codec: CodecId = field(default=CodecId.FLOAT, init=False)
    policy: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        _check_settings(self.rank, self.min_compression)

    def quantizer(self, bits: int) -> Quantizer:
        return Float32Quantizer()

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> LowRankReducer:
        return LowRankReducer(self, 0, layout, link, model, device)


@dataclass(frozen=True)
class LQSGD:
    """Factors as levels of logarithms, each column with scales of its own (Li et al., 2025).

    Parameters that stay as they are (`PowerSGD` says which) are coded like factors, with error feedback. Bodies are a
    quarter of those of `PowerSGD` at 8 bits. The bytes that ranks send are too where both go the same way; where
    `LinkModel` finds a single round quicker for the smaller bodies alone, more than two ranks save less.

    Parameters
    ----------
    rank, warm_start, min_compression, seed: as those of `PowerSGD`.
    bits: a value, 2 to 8, or a policy that chooses them.
    alpha: curve of the levels, equation 5; the larger, the denser near zero.
    """

    rank: int = 1
    bits: int | BitPolicy = 8
    alpha: float = 10.0
    warm_start: bool = True
    min_compression: float = 1.0
    seed: int = 0
    codec: CodecId = field(default=CodecId.LOG, init=False)

    def __post_init__(self) -> None:
        _check_settings(self.rank, self.min_compression)
        log.check(self.bits if isinstance(self.bits, int) else 8, self.alpha)

    @property
    def policy(self) -> BitPolicy:
        return FixedBits(self.bits) if isinstance(self.bits, int) else self.bits

    def quantizer(self, bits: int) -> Quantizer:
        return LogQuantizer(bits, self.alpha)

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> LowRankReducer:
        return LowRankReducer(self, self.policy.start().bits, layout, link, model, device)


class LowRankReducer:
    """The reducer of both. All P travel in one exchange; all Q, and what stays as it is, in another."""

    def __init__(
        self,
        settings: PowerSGD | LQSGD,
        bits: int,
        layout: Layout,
        link: Link,
        model: AlphaBetaModel,
        device: torch.device,
    ):
        self.settings, self.bits, self.count = settings, bits, vector_length(layout)
        self._places = [each for each in layout if is_factored(each, settings)]
        self._matrices = [Matrix(*matrix_shape(each), settings.rank, device) for each in self._places]
        lefts = [len(matrix.whole) for matrix in self._matrices for _ in range(settings.rank)]
        rights = [matrix.whole.shape[1] for matrix in self._matrices for _ in range(settings.rank)]
        others = [each for each in layout if not is_factored(each, settings)]
        lengths = [each.end - each.begin for each in others]
        self._left = Averaging(Groups.of(*lefts), link, model, settings.seed, False, device)
        self._right = Averaging(Groups.of(*rights, *lengths), link, model, settings.seed, True, device)
        self._start = torch.zeros(sum(rights), device=device)
        ends = np.cumsum([sum(rights), *lengths]).tolist()
        self._others = [(slice(a.begin, a.end), slice(*b)) for a, b in zip(others, pairwise(ends), strict=True)]

    def average(self, vector: Tensor, step: int) -> None:
        quantizer = self.settings.quantizer(self.bits)
        gradients = self._views(vector)
        left = torch.empty(self._left.groups.count, device=vector.device)
        right = torch.empty(self._right.groups.count, device=vector.device)
        lefts, rights = self._factors(left, 0), self._factors(right, 1)
        for k, (matrix, start) in enumerate(zip(self._matrices, self._factors(self._start, 1), strict=True)):
            q = orthonormalize(start, partial(self._drawn, step, k, start.shape[1]))
            matrix.times(gradients[k], q, lefts[k])
        self._left.average(left, quantizer, step)
        for p, matrix, q in zip(lefts, self._matrices, rights, strict=True):
            p.copy_(orthonormalize(p))
            matrix.transposed_times(p, q)
        for place, part in self._others:
            right[part] = vector[place]
        sent = right[: len(self._start)].clone()
        self._right.average(right, quantizer, step)
        sent -= self._right.release(len(sent))
        for k, (matrix, s) in enumerate(zip(self._matrices, self._factors(sent, 1), strict=True)):
            matrix.keep(lefts[k], s)
            matrix.product(lefts[k], rights[k], gradients[k])
        for place, part in self._others:
            vector[place] = right[part]
        if self.settings.warm_start:
            self._start.copy_(right[: len(sent)])

    def residual(self) -> Tensor:
        kept = torch.empty(self.count, device=self._start.device)
        for view, matrix in zip(self._views(kept), self._matrices, strict=True):
            view.copy_(matrix.residual())
        of_right = self._right.combined_residual()
        for place, part in self._others:
            kept[place] = of_right[part]
        return kept

    def state_dict(self) -> dict[str, Any]:
        """`start`: Q; `matrices`: what is kept of each, a tensor each; and what the average of the others keeps."""
        matrices = [matrix.residual().clone() for matrix in self._matrices]
        return {"start": self._start.clone(), "matrices": matrices, **self._right.state_dict()}

    def load_state_dict(self, state: SavedState) -> None:
        self._check(state)
        self._right.load_state_dict(state)
        self._start.copy_(state["start"])
        for matrix, residual in zip(self._matrices, state["matrices"], strict=True):
            matrix.residual().copy_(residual)

    def reshard(self, states: Sequence[SavedState], kept: Tensor | None) -> None:
        assert kept is not None
        self._check(states[0])
        self._start.copy_(states[0]["start"])
        for view, matrix in zip(self._views(kept), self._matrices, strict=True):
            matrix.residual().copy_(view)
        of_right = torch.zeros(self._right.groups.count, device=kept.device)
        for place, part in self._others:
            of_right[part] = kept[place]
        self._right.reshard(of_right)

    def _check(self, state: SavedState) -> None:
        there = [state["start"], *state["matrices"]] if {"start", "matrices"} <= state.keys() else []
        found = [tuple(each.shape) for each in there]
        needed = [tuple(each.shape) for each in (self._start, *(matrix.whole for matrix in self._matrices))]
        if found != needed:
            raise DataError(f"start and matrices of the saved state are {found}, and {needed} are needed")

    def _views(self, vector: Tensor) -> list[Tensor]:
        """The matrices of a vector of all values."""
        return [vector[each.begin : each.end].view(matrix_shape(each)) for each in self._places]

    def _factors(self, values: Tensor, side: int) -> list[Tensor]:
        """Views [rank, m] (side 0) or [rank, n] (side 1) of each matrix's factor, from values that begin with them."""
        found, begin = [], 0
        for matrix in self._matrices:
            length = matrix.whole.shape[side]
            end = begin + self.settings.rank * length
            found.append(values[begin:end].view(self.settings.rank, length))
            begin = end
        return found

    def _drawn(self, step: int, matrix: int, length: int, column: int) -> Tensor:
        """As `drawn_column`, beside the gradients."""
        return random_column(self.settings.seed, step, matrix, column, length).to(self._start.device)


def _check_settings(rank: int, min_compression: float) -> None:
    if rank < 1:
        raise DataError(f"rank={rank}: factors have one column or more")
    if not min_compression >= 1:
        raise DataError(f"min_compression={min_compression}: 1 or more; factors larger than the matrix save nothing")


def random_column(seed: int, step: int, matrix: int, column: int, length: int) -> Tensor:
    """float32 [length], between -1 and 1: what a column of Q begins with, the same on every rank."""
    drawn = hash_words(derive_seed(seed, step, matrix, column), np.arange(length))
    return torch.from_numpy((drawn / 2.0**31 - 1).astype(np.float32))


def matrix_shape(parameter: ParameterSpan) -> tuple[int, int]:
    """Rows and columns of a parameter of two or more dimensions as a matrix."""
    return parameter.shape[0], prod(parameter.shape[1:])


def is_factored(parameter: ParameterSpan, settings: PowerSGD | LQSGD) -> bool:
    """Whether a parameter is sent as factors."""
    if len(parameter.shape) < 2:
        return False
    m, n = matrix_shape(parameter)
    return m * n > settings.min_compression * settings.rank * (m + n)
