"""The models without layers, LR, FM and FFM, behind one interface."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models import ffm, fm, lr
from bitlane.sparse.models.losses import LOSSES
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.layout import Layout, ParameterBlock

Floats = NDArray[np.float32]
Index = NDArray[np.int64]
_NO_BIAS = np.zeros(0, np.float32)
_NO_WEIGHTS = np.zeros(0, np.float32)


class Shallow:
    """LR, FM or FFM.

    Parameters
    ----------
    spec : ModelSpec

    Attributes
    ----------
    intercept : str or None
        Name of the matrix of the intercept; None: the model has none.
    """

    def __init__(self, spec: ModelSpec):
        self.spec = spec
        self.intercept = "intercept" if spec.intercept else None
        blocks = spec.blocks()
        self._layout = Layout(blocks)
        dense = Layout([ParameterBlock(1, spec.dense_optimizer)])
        self._settings = np.concatenate([self._layout.settings(), dense.settings()])
        loss, dense_code = LOSSES.index(spec.loss), spec.dense_optimizer.code
        codes = [block.optimizer.code for block in blocks]
        self._codes: tuple[Any, ...]
        self._loss: Any = loss
        self._score_only: Any = -1
        if spec.kind == "lr":
            self._online, self._minibatch = lr.kernels(codes[0])
            self._codes = (dense_code, loss)
        elif spec.kind == "fm":
            self._online, self._minibatch = fm.kernels(spec.size, codes[0], codes[1])
            self._codes = (dense_code, loss, self._layout.starts[1])
        else:
            has_linear = int(spec.linear is not None)
            self._online, self._minibatch = ffm.kernels(spec.size, codes[0] if has_linear else -1, codes[has_linear])
            start, block = self._layout.starts[has_linear], blocks[has_linear]
            self._codes = (dense_code, loss, int(spec.normalise), start, block.width)
            self._loss, self._score_only = (loss, int(spec.normalise)), (-1, int(spec.normalise))

    def matrices(self) -> dict[str, Matrix]:
        """Return new dense parameters: the intercept, if the model has one."""
        return {"intercept": Matrix((1,), self.spec.dense_optimizer)} if self.spec.intercept else {}

    def check(self, batch: Batch) -> None:
        """Check the fields of a batch if the model uses them."""
        if self.spec.kind == "ffm" and batch.nnz:
            largest = int(batch.fields.max())
            if largest >= self.spec.fields:
                raise DataError(
                    f"field {largest} exceeds the model's largest, {self.spec.fields - 1}; set fields={largest + 1}"
                )

    def walk(
        self, rows: Floats, slots: Index, batch: Batch, matrices: dict[str, Matrix], rows_seen: float = -1
    ) -> Floats:
        """Score every row by the rows of a table, and learn each before the next is scored.

        Parameters
        ----------
        rows : float32 [slots, width]
        slots : int64 [nnz]
            -1 contributes nothing.
        batch : Batch
        matrices : dict of Matrix
        rows_seen : float, default=-1
            Weight of the rows learned before. -1: score only, change nothing.

        Returns
        -------
        scores : float32 [rows]
            Of each row before it was learned.
        """
        self.check(batch)
        bias = matrices["intercept"].row if "intercept" in matrices else _NO_BIAS
        scores = np.empty(batch.rows, np.float32)
        self._online(rows, slots, _arrays(batch), bias, self._settings, self._codes, float(rows_seen), scores)
        return scores

    def scores(self, batch: Batch, weights: Floats, index: Index, dense: dict[str, Floats]) -> Floats:
        """Return the scores of a batch by weights [n, values]; ``index`` [nnz] has the row of each feature, or -1."""
        self.check(batch)
        scores = np.empty(batch.rows, weights.dtype)
        bias = dense.get("intercept", weights[:0].reshape(-1))
        self._minibatch(weights, index, _arrays(batch), bias, self._score_only, weights[:0], scores)
        return scores

    def gradients(
        self, batch: Batch, weights: Floats, index: Index, dense: dict[str, Floats]
    ) -> tuple[Floats, Floats, dict[str, Floats]]:
        """Return the scores, and the sums over the rows of weight times gradient of `weights` and of `dense`."""
        self.check(batch)
        scores, gradients = np.empty(batch.rows, weights.dtype), np.zeros_like(weights)
        bias = dense.get("intercept", weights[:0].reshape(-1))
        total = self._minibatch(weights, index, _arrays(batch), bias, self._loss, gradients, scores)
        return scores, gradients, {name: np.full(1, total, weights.dtype) for name in dense}


def _arrays(batch: Batch) -> tuple[NDArray[Any], ...]:
    """Return the arrays that kernels take. Read-only ones are copied: the kernels are compiled for writable ones."""
    arrays: tuple[NDArray[Any], ...] = (batch.fields, batch.values, batch.offsets, batch.labels)
    weights = _NO_WEIGHTS if batch.weights is None else _writable(batch.weights)
    return (*map(_writable, arrays), weights)


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    return np.require(array, requirements=("C", "ALIGNED", "WRITEABLE"))
