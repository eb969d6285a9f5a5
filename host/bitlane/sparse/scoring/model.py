"""A model that only scores: frozen weights by key, and dense weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.losses import predictions
from bitlane.sparse.models.model import score_functions
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.scoring.calibrators import Calibrator
from bitlane.sparse.scoring.layers import WeightTable

Floats = NDArray[np.float32]


class FrozenModel:
    """A model whose weights do not change. Any number of threads may call it.

    Parameters
    ----------
    spec : ModelSpec
    table : WeightTable
        Weights by key.
    dense : mapping from str to float32 array
        Dense weights by name, as `SparseModel.pull_dense` returns them.
    version : int, optional
        In its registry.
    device : str, default="cpu"
        Where torch computes the layers of a network.
    calibrator : Calibrator, optional
        Of log loss: maps all scores, so that predictions, and what is measured of either, are calibrated.
    """

    is_remote = False  # whether a call asks other machines for weights

    def __init__(
        self,
        spec: ModelSpec,
        table: WeightTable,
        dense: Mapping[str, Floats],
        version: int | None = None,
        device: str = "cpu",
        calibrator: Calibrator | None = None,
    ):
        self.spec = spec
        self.table = table
        self.version = version
        self.dense = {name: np.require(each, np.float32, ("C", "WRITEABLE")) for name, each in dense.items()}
        self._functions, self._calibrator = score_functions(spec, device), calibrator

    def scores(self, batch: Batch) -> Floats:
        """Return the scores of a batch, float32 [rows]: the calibrated logit or the prediction. Labels are not used.

        Unknown keys contribute nothing.

        Raises
        ------
        DataError
            A field is above the model's last.
        """
        return self.scores_and_known(batch)[0]

    def scores_and_known(self, batch: Batch) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the scores, and which features of a batch have keys that the model has, bool [nnz]."""
        self._functions.check(batch)
        weights, known = self.table.lookup(batch.keys)
        return self._scores(batch, weights, known), known

    def predict(self, batch: Batch) -> Floats:
        """Return probabilities of label 1 (log loss) or the scores (squared error), float32 [rows]."""
        return predictions(self.spec.loss, self.scores(batch))

    def predict_partial(self, batch: Batch) -> tuple[Floats, NDArray[np.bool_], tuple[int, ...]]:
        """Return what a service answers and counts.

        Returns
        -------
        predictions : float32 [rows]
            As of `predict`.
        known : bool [nnz]
            As of `scores_and_known`.
        missing : tuple of int
            Shards whose weights did not come in time and count as unknown. A model in one process misses none.
        """
        scores, known = self.scores_and_known(batch)
        return predictions(self.spec.loss, scores), known, ()

    def _scores(self, batch: Batch, weights: Floats, known: NDArray[np.bool_]) -> Floats:
        """Return the scores of a batch from the weights of its keys, float32 [nnz, values]."""
        index = np.arange(len(weights))
        index[~known] = -1
        scores: Floats = self._functions.scores(batch, weights, index, self.dense)
        return scores if self._calibrator is None else self._calibrator(scores)
