"""Dense parameters: a matrix with its optimizer's state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.layout import Layout, ParameterBlock
from bitlane.sparse.parameters.optimizers import Optimizer
from bitlane.sparse.parameters.rows import encode_row, initialise_rows, read_weights, update_rows

Floats = NDArray[np.float32]
_SLOT = np.zeros(1, np.int64)


class Matrix:
    """An array of dense weights, read and updated at once.

    Parameters
    ----------
    shape : sequence of int
    optimizer : FTRL, AdaGrad or SGD
    initial : float32 array, optional
        The first weights, of this shape. Default: zeros.

    Attributes
    ----------
    shape : tuple of int
    optimizer : FTRL, AdaGrad or SGD
    row : float32 [floats]
        Values and state as one block (`ParameterBlock`): everything that is stored. Kernels update it in place.
    """

    def __init__(self, shape: Sequence[int], optimizer: Optimizer, initial: Floats | None = None):
        self.shape = tuple(int(each) for each in shape)
        self.optimizer = optimizer
        layout = Layout([ParameterBlock(int(np.prod(self.shape)), optimizer)])
        self._plan, self._settings = layout.plan, layout.settings()
        self.row = np.empty(layout.width, np.float32)
        initialise_rows(np.zeros(1, np.uint64), np.uint64(0), self._plan, self._settings, self.row[None])
        if initial is not None:
            self._encode(np.asarray(initial, np.float32))

    def pull(self) -> Floats:
        """Return the weights, a copy."""
        weights = np.empty((1, int(np.prod(self.shape))), np.float32)
        read_weights(self.row[None], _SLOT, self._plan, self._settings, weights)
        return weights.reshape(self.shape)

    def push(self, gradient: Floats, rows_seen: float = 0) -> None:
        """Take one step of the optimizer.

        Parameters
        ----------
        gradient : float32, of the matrix's shape
        rows_seen : float, default=0
            Weight of the rows that the model has learned before: SGD's rate decays with them.
        """
        if gradient.shape != self.shape:
            raise DataError(f"the gradient must have the shape {list(self.shape)}; got {list(gradient.shape)}")
        flat = np.ascontiguousarray(gradient, np.float32).reshape(1, -1)
        update_rows(self.row[None], _SLOT, self._plan, self._settings, flat, float(rows_seen))

    def fill(self, weight: float) -> None:
        """Begin anew with all weights equal to `weight`."""
        initialise_rows(np.zeros(1, np.uint64), np.uint64(0), self._plan, self._settings, self.row[None])
        self._encode(np.full(self.shape, weight, np.float32))

    def state(self) -> dict[str, Any]:
        """Return a copy of all that training changes: ``{"row": float32 [floats]}``."""
        return {"row": self.row.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Set what `state` returned."""
        row = state["row"]
        if row.shape != self.row.shape or row.dtype != np.float32:
            raise DataError(f"the state must be float32 {list(self.row.shape)}; got {row.dtype} {list(row.shape)}")
        self.row[:] = row

    def _encode(self, weights: Floats) -> None:
        if weights.shape != self.shape:
            raise DataError(f"the initial weights must have the shape {list(self.shape)}; got {list(weights.shape)}")
        encode_row(self.row, weights.reshape(-1), self._plan, self._settings)
