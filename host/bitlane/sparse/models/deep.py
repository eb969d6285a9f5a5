"""Networks over sparse features: DNN, Wide&Deep, DeepFM.

All pool the embeddings of a row's features by field, and put layers on them (`networks.Dense`)::

    dnn       z = layers(pooled)                  Covington et al. (2016)
    widedeep  z = layers(pooled) + sum w_i x_i    Cheng et al. (2016)
    deepfm    z = layers(pooled) + sum w_i x_i + sum_{i<j} <v_i, v_j> x_i x_j    Guo et al. (2017)

DeepFM's factors v are its embeddings. The last layer's bias is the intercept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.pooling import backward, forward
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.dense import Matrix
from bitlane.support.optional import require_extra

Arrays = Mapping[str, NDArray[Any]]

_CHUNK = 1 << 22  # numbers of pooled embeddings that a call of `scores` holds at once


class Network:
    """The functions of a network. Its weights come from outside with each call.

    Parameters
    ----------
    spec : ModelSpec
        Of the kind ``"dnn"``, ``"widedeep"`` or ``"deepfm"``.
    device : str, default="cpu"
        Where torch computes the layers, such as ``"cuda"``.

    Attributes
    ----------
    shapes : dict from str to tuple of int
        The dense weights.
    intercept : str or None
        Name of the last layer's bias; None: it has none.
    """

    def __init__(self, spec: ModelSpec, device: str = "cpu"):
        require_extra("torch", f"a model of the kind {spec.kind!r}", "'bitlane[sparse,torch]'")
        from bitlane.sparse.models.networks import Dense

        self.spec = spec
        self._terms = (spec.linear is not None, spec.kind == "deepfm")
        try:
            self._dense = Dense(spec.fields * spec.size, spec.hidden, bool(spec.intercept), device)
        except RuntimeError as error:
            raise DataError(f"device {device!r} is unknown to torch: {str(error).splitlines()[0]}") from error
        self.shapes = self._dense.shapes
        self.intercept = list(self.shapes)[-1] if spec.intercept else None

    def matrices(self) -> dict[str, Matrix]:
        """Return new dense parameters by name. Their first weights depend on the seed only."""
        first = self._dense.initial(self.spec.seed)
        return {name: Matrix(each.shape, self.spec.dense_optimizer, each) for name, each in first.items()}

    def check(self, batch: Batch) -> None:
        """Check the fields of a batch.

        Raises
        ------
        DataError
            A field is above the model's last.
        """
        largest = int(batch.fields.max()) if batch.nnz else 0
        if largest >= self.spec.fields:
            raise DataError(
                f"field {largest} exceeds the model's largest, {self.spec.fields - 1}; set fields={largest + 1}"
            )

    def scores(self, batch: Batch, weights: NDArray[Any], index: NDArray[np.int64], dense: Arrays) -> NDArray[Any]:
        """Return the scores of all rows.

        Parameters
        ----------
        batch : Batch
        weights : float [n, values]
            Of the features: the linear weight if there is one, then the embedding.
        index : int64 [nnz]
            Index of each feature in `weights`; -1 contributes nothing.
        dense : mapping from name to array
            With the shapes of `shapes` and the dtype of `weights`.

        Returns
        -------
        scores : float [rows]
            With the dtype of `weights`, as are all results.
        """
        self.check(batch)
        scores = np.empty(batch.rows, weights.dtype)
        step = max(1, _CHUNK // (self.spec.fields * self.spec.size))
        for start in range(0, batch.rows, step):
            chunk = batch.slice(start, start + step)
            first = int(batch.offsets[start])
            pooled, sparse = self._pool(chunk, weights, index[first : first + chunk.nnz])
            scores[start : start + step] = sparse + self._dense.scores(pooled.reshape(chunk.rows, -1), dense)
        return scores

    def gradients(
        self, batch: Batch, weights: NDArray[Any], index: NDArray[np.int64], dense: Arrays
    ) -> tuple[NDArray[Any], NDArray[Any], dict[str, NDArray[Any]]]:
        """Return scores and gradients of a minibatch. The parameters are those of `scores`.

        Returns
        -------
        scores : float [rows]
        sparse : float [n, values]
            Derivative of the sum of all rows' losses, times their weights.
        outer : dict from name to array
            Derivative of the mean of all rows' losses, by weight, by the dense weights.
        """
        self.check(batch)
        if batch.total_weight == 0:
            return (
                self.scores(batch, weights, index, dense),
                np.zeros_like(weights),
                {name: np.zeros(shape, weights.dtype) for name, shape in self.shapes.items()},
            )
        pooled, sparse = self._pool(batch, weights, index)
        flat = pooled.reshape(batch.rows, -1)
        scores, slopes, inner, outer = self._dense.gradients(
            flat, dense, lambda layers: self._slopes(layers + sparse, batch)
        )
        gradients = np.zeros_like(weights)
        features = (batch.fields, batch.values, batch.offsets)
        backward(weights, index, features, self._terms, slopes, (pooled, inner.reshape(pooled.shape)), gradients)
        counted = weights.dtype.type(batch.total_weight)
        return scores + sparse, gradients, {name: each / counted for name, each in outer.items()}

    def _pool(self, batch: Batch, weights: NDArray[Any], index: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the pooled embeddings [rows, fields, dim], and the scores [rows] without those of the layers."""
        pooled = np.empty((batch.rows, self.spec.fields, self.spec.size), weights.dtype)
        scores = np.empty(batch.rows, weights.dtype)
        forward(weights, index, (batch.fields, batch.values, batch.offsets), self._terms, pooled, scores)
        return pooled, scores

    def _slopes(self, scores: NDArray[Any], batch: Batch) -> NDArray[Any]:
        """Return the derivative of each row's loss by its score, times the row's weight."""
        predicted = scores
        if self.spec.loss == "log_loss":
            small = np.exp(-np.abs(scores))
            predicted = np.where(scores >= 0, 1, small) / (1 + small)
        slopes = predicted - batch.labels
        return np.asarray(slopes if batch.weights is None else slopes * batch.weights, scores.dtype)
