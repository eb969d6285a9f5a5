"""Compressors that send a gradient matrix as two thin factors: PowerSGD in float32, LQ-SGD with few bits.

M is the gradient of a rank plus its residual. Q is the factor of the previous step with orthonormal columns (PowerSGD:
Vogels et al., 2019, algorithms 1 and 2; LQ-SGD: Li et al., 2025, algorithm 1):

    P = orthonormalized average of M Q;  Q' = average of M^T P;  all ranks apply P Q'^T;  the residual is M - P S^T

Residuals have float32 only: what is stored between steps is M, from which the next step subtracts P S^T (`matrix.py`),
and rounding M to 16 bits would lose more than rounding the residual.

S is the share of this rank in the average Q': its M^T P as decoded and, if it owns a part of Q', also the quantization
error of the encoded average times the number of ranks. The sum over ranks is therefore conserved for any codec.

LQ-SGD encodes M Q of each rank, and all ranks orthonormalize the average of the decoded values. The paper
orthonormalizes on each rank and averages the codes, which is not defined for logarithmic codes. A column of Q is drawn
again if it vanishes, after a zero gradient or one of lower rank; without a warm start all columns are drawn in each
step. The distribution is uniform between -1 and 1 instead of normal, because only the span of Q matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.policies.protocol import BitPolicy, FixedBits
from bitlane.support.hashing import derive_seed, hash_words
from bitlane.support.scalars import as_integer, as_number

from ..codecs import log
from ..codecs.groups import Groups
from ..codecs.linear import BITS
from ..codecs.wire import CodecId
from ..collectives.averaging import Averaging, Quantizer
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.restore import copied
from ..compressor import Layout, ParameterSpan, SavedState, vector_length
from .factors import Float32Quantizer, LogQuantizer
from .matrix import GradientMatrix
from .orthonormal import load_linear_algebra, orthonormalize
from .settings import checked_bits, checked_flag, replace_setting


class LowRank(Protocol):
    """The settings that a `LowRankReducer` reads."""

    @property
    def seed(self) -> int:
        """Seed of the drawn columns of Q."""
        ...

    @property
    def warm_start(self) -> bool:
        """Whether a step starts with the factor Q of the previous one."""
        ...

    def factor_columns(self, layout: Layout) -> list[int]:
        """Return the columns of the factors of each parameter; 0 if it is not factored."""
        ...

    def quantizer(self, bits: int) -> Quantizer:
        """Return the quantizer of the factors, and of the parameters that are not factored."""
        ...


@dataclass(frozen=True)
class PowerSGD:
    """Send low-rank factors in float32 (Vogels et al., 2019).

    A parameter with two or more dimensions is a matrix [shape[0], product of the rest]. Other parameters, and matrices
    that have no more values than their factors, are averaged in float32.

    Parameters
    ----------
    rank : int, default: 1
        Columns of each factor.
    warm_start : bool, default: True
        Start each step with the factor Q of the previous one; otherwise Q is drawn in each step.
    min_compression : float, default: 1.0
        A matrix is factored if it has more than this many times the values of its factors; 1 or more.
    seed : int, default: 0
        Seed of the drawn columns of Q.

    Examples
    --------
    >>> from bitlane.compress import DDPCompression, PowerSGD
    >>> compression = DDPCompression(PowerSGD(rank=4))  # doctest: +SKIP
    """

    rank: int = 1
    warm_start: bool = True
    min_compression: float = 1.0
    seed: int = 0
    codec: CodecId = field(default=CodecId.FLOAT, init=False)
    policy: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        _check_settings(self)

    def factor_columns(self, layout: Layout) -> list[int]:
        """Return the columns of the factors of each parameter; 0 if it is not factored."""
        return [self.rank if is_factored(each, self) else 0 for each in layout]

    def quantizer(self, bits: int) -> Quantizer:
        """Return the quantizer of the factors; `bits` has no effect."""
        return Float32Quantizer()

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> LowRankReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        return LowRankReducer(self, 0, layout, link, model, device)


@dataclass(frozen=True)
class LQSGD:
    """Send low-rank factors as logarithmic levels; each column has separate scales (Li et al., 2025).

    Parameters that `PowerSGD` does not factor are encoded like factors, with error feedback. At 8 bits the bodies have
    a quarter of the bytes of `PowerSGD`, and so has the traffic if both use the same collective. With more than two
    ranks the saving is smaller if the cost model selects a single round only for the smaller bodies.

    Parameters
    ----------
    rank, warm_start, min_compression, seed
        As in `PowerSGD`.
    bits : int or BitPolicy, default: 8
        Bits per value, 2 to 8; or a policy that chooses them during training.
    alpha : float, default: 10.0
        Curvature of the levels (equation 5). Larger values make the levels denser near zero.

    Examples
    --------
    >>> from bitlane.compress import LQSGD, DDPCompression
    >>> compression = DDPCompression(LQSGD(rank=2, bits=4))  # doctest: +SKIP
    """

    rank: int = 1
    bits: int | BitPolicy = 8
    alpha: float = 10.0
    warm_start: bool = True
    min_compression: float = 1.0
    seed: int = 0
    codec: CodecId = field(default=CodecId.LOG, init=False)

    def __post_init__(self) -> None:
        _check_settings(self)
        replace_setting(self, bits=checked_bits(self.bits, BITS))
        log.check(max(BITS), as_number("alpha", self.alpha))

    @property
    def policy(self) -> BitPolicy:
        """The policy that sets the bits of each step."""
        return FixedBits(self.bits) if isinstance(self.bits, int) else self.bits

    def factor_columns(self, layout: Layout) -> list[int]:
        """Return the columns of the factors of each parameter; 0 if it is not factored."""
        return [self.rank if is_factored(each, self) else 0 for each in layout]

    def quantizer(self, bits: int) -> Quantizer:
        """Return the quantizer of the factors."""
        return LogQuantizer(bits, self.alpha)

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> LowRankReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        return LowRankReducer(self, self.policy.start().bits, layout, link, model, device)


class LowRankReducer:
    """The reducer of both. One average has all factors P; a second one all factors Q and the unfactored parameters.

    `subtracted` and `applied` are the rule of a step; `DionReducer` has another one.
    """

    def __init__(
        self,
        low_rank: LowRank,
        bits: int,
        layout: Layout,
        link: Link,
        model: AlphaBetaModel,
        device: torch.device,
    ):
        load_linear_algebra(device)
        self.settings = low_rank
        self.bits = bits
        self.count = vector_length(layout)
        with_columns = list(zip(layout, low_rank.factor_columns(layout), strict=True))
        self._factored = [each for each, columns in with_columns if columns]
        self._matrices = [GradientMatrix(*matrix_shape(each), r, device) for each, r in with_columns if r]
        lefts = [len(matrix.values) for matrix in self._matrices for _ in range(matrix.rank)]
        rights = [matrix.values.shape[1] for matrix in self._matrices for _ in range(matrix.rank)]
        others = [each for each, columns in with_columns if not columns]
        lengths = [each.end - each.begin for each in others]
        self._left = Averaging(Groups.of(*lefts), link, model, low_rank.seed, False, device)
        self._right = Averaging(Groups.of(*rights, *lengths), link, model, low_rank.seed, True, device)
        self._start = torch.zeros(sum(rights), device=device)
        ends = np.cumsum([sum(rights), *lengths]).tolist()
        self._others = [(slice(a.begin, a.end), slice(*b)) for a, b in zip(others, pairwise(ends), strict=True)]

    def average(self, vector: Tensor, step: int) -> None:
        quantizer = self.settings.quantizer(self.bits)
        gradients = self._views(vector)
        left = torch.empty(self._left.groups.count, device=vector.device)
        right = torch.empty(self._right.groups.count, device=vector.device)
        lefts, rights = self._factors(left, 0), self._factors(right, 1)
        starts = orthonormalize(self._factors(self._start, 1), partial(self._random_column, step))
        for k, (matrix, q) in enumerate(zip(self._matrices, starts, strict=True)):
            matrix.times(gradients[k], q, lefts[k])
        self._left.average(left, quantizer, step)
        for p, orthonormal, matrix, q in zip(lefts, orthonormalize(lefts), self._matrices, rights, strict=True):
            p.copy_(orthonormal)
            matrix.transposed_times(p, q)
        for span, own in self._others:
            right[own] = vector[span]
        sent = right[: len(self._start)].clone()
        self._right.average(right, quantizer, step)
        sent -= self._right.release(len(sent))
        for k, (matrix, s) in enumerate(zip(self._matrices, self._factors(sent, 1), strict=True)):
            matrix.keep(lefts[k], self.subtracted(s))
            matrix.product(lefts[k], self.applied(rights[k]), gradients[k])
        for span, own in self._others:
            vector[span] = right[own]
        if self.settings.warm_start:
            self._start.copy_(right[: len(sent)])

    def subtracted(self, sent: Tensor) -> Tensor:
        """Return the factor [r, n] that, times P, is subtracted from M, for the share S of this rank."""
        return sent

    def applied(self, right: Tensor) -> Tensor:
        """Return the factor [r, n] that, times P, is the result of the step, for the average Q'."""
        return right

    def residual(self) -> Tensor:
        residual = torch.empty(self.count, device=self._start.device)
        for view, matrix in zip(self._views(residual), self._matrices, strict=True):
            view.copy_(matrix.residual())
        right_residual = self._right.combined_residual()
        for span, own in self._others:
            residual[span] = right_residual[own]
        return residual

    def residual_rounding(self) -> None:
        """Return None: the residual has float32."""

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Any]:
        """Return `start` (the factors Q), `matrices` (the residual of each) and the state of the second average."""
        earlier = memory["matrices"] if memory else [None] * len(self._matrices)
        pairs = zip(self._matrices, earlier, strict=True)
        matrices = [copied(matrix.residual(), each) for matrix, each in pairs]
        start = copied(self._start, memory["start"] if memory else None)
        return {"start": start, "matrices": matrices, **self._right.state_dict(memory)}

    def load_state_dict(self, state: SavedState) -> None:
        self._check(state)
        self._right.load_state_dict(state)
        self._start.copy_(state["start"])
        for matrix, residual in zip(self._matrices, state["matrices"], strict=True):
            matrix.residual().copy_(residual)

    def reshard(self, states: Sequence[SavedState], residual: Tensor | None) -> None:
        assert residual is not None
        if states[0]["start"].shape == self._start.shape:
            self._start.copy_(states[0]["start"])
        for view, matrix in zip(self._views(residual), self._matrices, strict=True):
            matrix.residual().copy_(view)
        right_residual = torch.zeros(self._right.groups.count, device=residual.device)
        for span, own in self._others:
            right_residual[own] = residual[span]
        self._right.reshard(right_residual)

    def _check(self, state: SavedState) -> None:
        saved = [state["start"], *state["matrices"]] if {"start", "matrices"} <= state.keys() else []
        saved_shapes = [tuple(each.shape) for each in saved]
        needed = [tuple(each.shape) for each in (self._start, *(matrix.values for matrix in self._matrices))]
        if saved_shapes != needed:
            raise DataError(
                f"start and matrices of the saved state have shapes {saved_shapes}; this model needs {needed}"
            )

    def _views(self, vector: Tensor) -> list[Tensor]:
        """Return views of the factored parameters in a vector of all values, as matrices."""
        return [vector[each.begin : each.end].view(matrix_shape(each)) for each in self._factored]

    def _factors(self, values: Tensor, side: int) -> list[Tensor]:
        """Return views of the factors at the beginning of `values`: [rank, m] (side 0) or [rank, n] (side 1)."""
        factors, begin = [], 0
        for matrix in self._matrices:
            length = matrix.values.shape[side]
            end = begin + matrix.rank * length
            factors.append(values[begin:end].view(matrix.rank, length))
            begin = end
        return factors

    def _random_column(self, step: int, matrix: int, column: int) -> Tensor:
        """Return `random_column` on the device of the gradients."""
        length = self._matrices[matrix].values.shape[1]
        return random_column(self.settings.seed, step, matrix, column, length).to(self._start.device)


def _check_settings(settings: PowerSGD | LQSGD) -> None:
    """Check the settings of both, and set them to numbers of Python."""
    least = as_number("min_compression", settings.min_compression)
    if least < 1:
        raise DataError(f"min_compression must be 1 or more, because larger factors save nothing; got {least:g}")
    rank, seed = as_integer("rank", settings.rank, 1), as_integer("seed", settings.seed, 0)
    replace_setting(settings, rank=rank, seed=seed, warm_start=checked_flag("warm_start", settings.warm_start))


def random_column(seed: int, step: int, matrix: int, column: int, length: int) -> Tensor:
    """Return a drawn column of Q, float32 [length], uniform between -1 and 1 and identical on all ranks."""
    drawn = hash_words(derive_seed(seed, step, matrix, column), np.arange(length))
    return torch.from_numpy((drawn / 2.0**31 - 1).astype(np.float32))


def matrix_shape(parameter: ParameterSpan) -> tuple[int, int]:
    """Return rows and columns of a parameter with two or more dimensions as a matrix."""
    return parameter.shape[0], prod(parameter.shape[1:])


def is_factored(parameter: ParameterSpan, low_rank: PowerSGD | LQSGD) -> bool:
    """Return whether a parameter is sent as factors."""
    if len(parameter.shape) < 2:
        return False
    m, n = matrix_shape(parameter)
    return m * n > low_rank.min_compression * low_rank.rank * (m + n)
