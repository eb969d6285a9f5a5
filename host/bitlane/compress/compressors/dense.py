"""Compressors that send a code for each value: QSGD, TernGrad, EFSign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitlane.errors import DataError
from bitlane.policies.protocol import BitPolicy, FixedBits
from bitlane.support.scalars import as_integer, as_number

from ..codecs import linear
from ..codecs.groups import Groups
from ..codecs.wire import CodecId
from ..collectives.averaging import Averaging, Quantizer
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.residuals import RESIDUAL_DTYPES
from ..compressor import Layout, Sampler, SavedState, vector_length
from .group_sample import begin_sample
from .quantizers import LinearQuantizer, SignQuantizer
from .settings import check_residual_dtype, checked_bits, checked_flag, replace_setting

TERNARY = 2  # bits of the linear codec with the levels -1, 0 and 1


class DenseReducer:
    """The reducer of QSGD and EFSign.

    Attributes
    ----------
    bits : int
        Bits per value in the next step.
    """

    def __init__(self, averaging: Averaging, stochastic: bool, bits: int):
        self.averaging = averaging
        self.stochastic = stochastic
        self.bits = bits

    @property
    def widths(self) -> NDArray[np.uint8] | None:
        """Bits per value of each group, uint8 [groups], instead of `bits`; only for rounding that is stochastic."""
        return self.averaging.groups.widths

    @widths.setter
    def widths(self, widths: NDArray[np.uint8] | None) -> None:
        own = self.averaging.groups.widths
        if (widths is None) != (own is None) or (widths is not None and own is not None and (widths != own).any()):
            self.averaging.regroup(replace(self.averaging.groups, widths=widths))

    @property
    def group_count(self) -> int:
        """Number of groups."""
        return len(self.averaging.groups)

    def average(self, vector: Tensor, step: int) -> None:
        self.averaging.average(vector, self._quantizer, step)

    @property
    def _quantizer(self) -> Quantizer:
        return SignQuantizer() if self.bits == 1 else LinearQuantizer(self.bits, self.stochastic)

    def sample(self, vector: Tensor, choices: Sequence[int]) -> Sampler:
        """Begin a sample of this rank's gradient, as in `GroupReducer`."""
        return begin_sample(vector, self.averaging.groups, choices, self.averaging.rounds_average(self._quantizer))

    def residual(self) -> Tensor | None:
        return None if self.averaging.residual is None else self.averaging.combined_residual()

    def residual_rounding(self) -> Tensor | None:
        return self.averaging.residual_rounding()

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Any]:
        return self.averaging.state_dict(memory)

    def load_state_dict(self, state: SavedState) -> None:
        self.averaging.load_state_dict(state)

    def reshard(self, states: Sequence[SavedState], residual: Tensor | None) -> None:
        if residual is not None:
            self.averaging.reshard(residual)


@dataclass(frozen=True)
class QSGD:
    """Quantize to evenly spaced levels, in groups of 512 values.

    Follows Alistarh et al. (2017), with the maximum norm of each group.

    Parameters
    ----------
    bits : int or BitPolicy, default: 8
        Bits per value, 2 to 8; or a policy that chooses them during training.
    error_feedback : bool, default: False
        Keep the quantization error and add it in the next step. Values are then rounded to the nearest level.
        Without error feedback rounding is stochastic and unbiased.
    seed : int, default: 0
        Seed of stochastic rounding.
    residual_dtype : {"float32", "bfloat16"}, default: "float32"
        The type of the residuals between steps. "bfloat16" halves their memory, and loses what rounding changes.

    Examples
    --------
    >>> from bitlane.compress import QSGD, DDPCompression
    >>> compression = DDPCompression(QSGD(bits=4, error_feedback=True))  # doctest: +SKIP
    """

    bits: int | BitPolicy = 8
    error_feedback: bool = False
    seed: int = 0
    residual_dtype: Literal["float32", "bfloat16"] = "float32"
    codec: CodecId = field(default=CodecId.LINEAR, init=False)

    def __post_init__(self) -> None:
        seed, feedback = as_integer("seed", self.seed, 0), checked_flag("error_feedback", self.error_feedback)
        bits = checked_bits(self.bits, linear.BITS, by_group=not feedback)
        check_residual_dtype(self.residual_dtype, feedback)
        replace_setting(self, bits=bits, error_feedback=feedback, seed=seed)

    @property
    def policy(self) -> BitPolicy:
        """The policy that sets the bits of each step."""
        return FixedBits(self.bits) if isinstance(self.bits, int) else self.bits

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> DenseReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        groups, dtype = Groups.of(vector_length(layout)), RESIDUAL_DTYPES[self.residual_dtype]
        averaging = Averaging(groups, link, model, self.seed, self.error_feedback, device, dtype)
        return DenseReducer(averaging, not self.error_feedback, self.policy.start().bits)


class TernGradReducer(DenseReducer):
    """A reducer that clips each parameter's gradient before it is encoded."""

    def __init__(self, averaging: Averaging, layout: Layout, clip: float | None):
        super().__init__(averaging, True, TERNARY)
        self.layout, self.clip = layout, clip

    def average(self, vector: Tensor, step: int) -> None:
        if self.clip is not None:
            self._clip(vector, self.clip)
        super().average(vector, step)

    def _clip(self, vector: Tensor, clip: float) -> None:
        for span in self.layout:
            values = vector[span.begin : span.end]
            # In float64 the squares of small values are not 0.
            norm = float(torch.linalg.vector_norm(values, dtype=torch.float64))
            limit = clip * norm / max(1, len(values)) ** 0.5
            values.clamp_(-limit, limit)


@dataclass(frozen=True)
class TernGrad:
    """Quantize each value to -s, 0 or s, with unbiased stochastic rounding after clipping (Wen et al., 2017).

    Differences from the paper:

    - s is the largest magnitude of 512 values instead of a layer. This reduces the variance and costs 1/16 bit per
      value. Ranks do not share s.
    - In a reduce-scatter the average is quantized again.
    - A value takes 2 bits, as in the linear codec.
    - Clipping uses the root mean square instead of the deviation from the mean, so that it does not set a parameter
      of a single value to zero.

    Parameters
    ----------
    clip : float or None, default: 2.5
        Limit of the magnitudes of each parameter's gradient, in multiples of their root mean square. None disables
        clipping.
    seed : int, default: 0
        Seed of stochastic rounding.

    Examples
    --------
    >>> from bitlane.compress import TernGrad
    >>> TernGrad(clip=None).clip is None
    True
    """

    clip: float | None = 2.5
    seed: int = 0
    codec: CodecId = field(default=CodecId.LINEAR, init=False)
    policy: FixedBits = field(default=FixedBits(TERNARY), init=False)

    def __post_init__(self) -> None:
        if self.clip is not None and not as_number("clip", self.clip) > 0:
            raise DataError(f"clip must be positive, or None for no clipping; got {self.clip}")
        replace_setting(self, seed=as_integer("seed", self.seed, 0))

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> TernGradReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        averaging = Averaging(Groups.of(vector_length(layout)), link, model, self.seed, False, device)
        return TernGradReducer(averaging, layout, self.clip)


@dataclass(frozen=True)
class EFSign:
    """Quantize to 1 bit per value, with error feedback (Karimireddy et al., 2019).

    A value is sent as its sign. Each group of 512 values has a scale, its mean magnitude.

    Parameters
    ----------
    residual_dtype : {"float32", "bfloat16"}, default: "float32"
        The type of the residuals between steps. "bfloat16" halves their memory, and loses what rounding changes.

    Examples
    --------
    >>> from bitlane.compress import EFSign
    >>> EFSign().policy.bits
    1
    """

    residual_dtype: Literal["float32", "bfloat16"] = "float32"
    codec: CodecId = field(default=CodecId.SIGN, init=False)
    policy: FixedBits = field(default=FixedBits(1), init=False)

    def __post_init__(self) -> None:
        check_residual_dtype(self.residual_dtype)

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> DenseReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        groups, dtype = Groups.of(vector_length(layout)), RESIDUAL_DTYPES[self.residual_dtype]
        averaging = Averaging(groups, link, model, 0, True, device, dtype)
        return DenseReducer(averaging, False, 1)
