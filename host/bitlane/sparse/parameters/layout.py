"""The layout of a row: blocks of values, each followed by its optimizer's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.optimizers import SETTINGS, Optimizer
from bitlane.support.scalars import as_integer

INITIAL = ("normal", "uniform")


@dataclass(frozen=True)
class ParameterBlock:
    """Values of a row that have one optimizer.

    Parameters
    ----------
    size : int
        Number of values.
    optimizer : FTRL, AdaGrad or SGD
    initial_scale : float, default=0.0
        Scale of the first weights. They follow from the seed, the key and the position in the row only.
    initial : {"normal", "uniform"}, default="normal"
        ``"normal"``: bell-shaped around 0 (the sum of four uniform draws), with the standard deviation `initial_scale`.
        ``"uniform"``: in [0, initial_scale).
    """

    size: int
    optimizer: Optimizer
    initial_scale: float = 0.0
    initial: str = "normal"

    def __post_init__(self) -> None:
        as_integer("size of a block", self.size, 1)
        if not 0 <= self.initial_scale < np.inf:
            raise DataError(f"initial_scale must be finite and at least 0; got {self.initial_scale}")
        if self.initial not in INITIAL:
            raise DataError(f"initial must be one of {', '.join(INITIAL)}; got {self.initial!r}")

    @property
    def width(self) -> int:
        """Floats of the block: values and state."""
        return self.size * self.optimizer.floats


class Layout:
    """Blocks side by side in a row.

    Attributes
    ----------
    blocks : tuple of ParameterBlock
    values : int
        Weights of a row.
    width : int
        Floats of a row.
    starts : tuple of int
        Where each block begins in the row.
    """

    def __init__(self, blocks: Sequence[ParameterBlock]):
        if not blocks:
            raise DataError("a row needs at least one block")
        self.blocks = tuple(blocks)
        self.values = sum(block.size for block in self.blocks)
        self.width = sum(block.width for block in self.blocks)
        starts = np.cumsum([0, *(block.width for block in self.blocks)])
        self.starts = tuple(int(each) for each in starts[:-1])

    @cached_property
    def plan(self) -> NDArray[np.int64]:
        """What kernels need of each block, int64 [blocks, 5]: start in the row, start among the weights, size,
        optimizer's code, 1 if the first weights are uniform.
        """
        first_weight = np.cumsum([0, *(block.size for block in self.blocks)])
        return np.array(
            [
                (start, weight, block.size, block.optimizer.code, INITIAL.index(block.initial))
                for start, weight, block in zip(self.starts, first_weight[:-1], self.blocks, strict=True)
            ],
            np.int64,
        )

    def settings(self, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Return the settings of each block's optimizer and the scale of its first weights, [blocks, 6]."""
        table = np.empty((len(self.blocks), SETTINGS + 1), dtype)
        for line, block in zip(table, self.blocks, strict=True):
            line[:] = (*block.optimizer.settings(), block.initial_scale)
        return table
