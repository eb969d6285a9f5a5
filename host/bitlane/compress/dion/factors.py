"""The exchange of a step of Dion: momentum as error feedback, and orthonormal updates of low rank.

Ahn et al., 2025 (arXiv 2504.05295). B is the momentum of a rank plus its gradient, a matrix [m, n], and V the right
factor of the previous step:

    P = orthonormalized average of B V;  R = average of B^T P
    the momentum is B - (1 - mu) P S^T;  V = R with columns of length 1;  all ranks apply P V^T

This is a step of LQ-SGD (`lowrank.py`) with two changes: the residual is the momentum, which keeps the share mu of
P S^T, and the columns of R get length 1. S is the share of this rank in R, as there. With R in its place the average of
the momenta would be the same, but their differences would not fade.

V is made orthonormal before B V. That changes P only by rounding, since the first k columns span the same for any k. A
column that vanishes or depends on others, after gradients of a lower rank, is drawn again in V and is zero in P.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.policies.protocol import FixedBits
from bitlane.support.scalars import as_number

from ..codecs.linear import BITS
from ..codecs.wire import CodecId
from ..collectives.averaging import Quantizer
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..compressor import Layout
from ..compressors.factors import Float32Quantizer, LogQuantizer
from ..compressors.lowrank import LowRankReducer, matrix_shape
from ..compressors.settings import checked_bits, replace_setting

ALPHA = 10.0  # curvature of the levels, as in `LQSGD`


@dataclass(frozen=True)
class DionFactors:
    """The settings of the exchange, equal on all ranks; those of `Dion`.

    Its reducer returns P V^T of each matrix, and the average of all other values.

    Parameters
    ----------
    matrices : int
        The first parameters of the layout, which are matrices.
    rank_fraction : float
        Columns of the factors as a share of the shorter side of a matrix, above 0 and at most 1.
    momentum : float
        mu, 0 or more and less than 1.
    bits : int or None
        Bits of a value that is sent, 2 to 8; None for float32.

    Raises
    ------
    DataError
        If a setting has another type or value.
    """

    matrices: int
    rank_fraction: float
    momentum: float
    bits: int | None
    seed: int = 0
    warm_start: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        fraction, momentum = as_number("rank_fraction", self.rank_fraction), as_number("momentum", self.momentum)
        if not 0 < fraction <= 1:
            raise DataError(
                f"rank_fraction must be above 0 and at most 1, a share of the shorter side of each matrix; "
                f"got {fraction:g}"
            )
        if not 0 <= momentum < 1:
            raise DataError(f"momentum must be 0 or more and less than 1; got {momentum:g}")
        if hasattr(self.bits, "start"):
            raise DataError(f"bits={self.bits!r}: Dion takes a number of bits, and no policy")
        bits = None if self.bits is None else checked_bits(self.bits, BITS)
        replace_setting(self, rank_fraction=fraction, momentum=momentum, bits=bits)

    @property
    def codec(self) -> CodecId:
        """The codec in the header of each step."""
        return CodecId.FLOAT if self.bits is None else CodecId.LOG

    @property
    def policy(self) -> FixedBits | None:
        """The policy that sets the bits of each step."""
        return None if self.bits is None else FixedBits(self.bits)

    def factor_columns(self, layout: Layout) -> list[int]:
        """Return the columns of the factors of each parameter, to the nearest integer and at least 1; others have 0."""
        shorter = [min(matrix_shape(each)) for each in layout[: self.matrices]]
        columns = [max(1, round(self.rank_fraction * side)) for side in shorter]
        return columns + [0] * (len(layout) - len(columns))

    def quantizer(self, bits: int) -> Quantizer:
        """Return the quantizer of the factors, and of the parameters that are not factored."""
        return LogQuantizer(bits, ALPHA) if bits else Float32Quantizer()

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> DionReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        return DionReducer(self, self.bits or 0, layout, link, model, device)


class DionReducer(LowRankReducer):
    """The reducer of `DionFactors`: its residual is the momentum, and rounding errors of the rest."""

    settings: DionFactors

    def subtracted(self, sent: Tensor) -> Tensor:
        return sent * (1 - self.settings.momentum)

    def applied(self, right: Tensor) -> Tensor:
        return unit_columns(right)


def unit_columns(columns: Tensor) -> Tensor:
    """Return columns, float32 [r, n] with one in each row, divided by their lengths; zeros stay zero."""
    wide = columns.double()  # so that no square overflows or vanishes
    lengths = wide.norm(dim=1, keepdim=True)
    return torch.where(lengths > 0, wide / lengths, wide).float()
