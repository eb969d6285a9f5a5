"""A sparse model: its description, its parameters, scores and learning."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.base_rate import base_score
from bitlane.sparse.models.losses import check_labels, predictions
from bitlane.sparse.models.row_weights import check_weights, learn_counted, warn_of_long_steps
from bitlane.sparse.models.shallow import Shallow
from bitlane.sparse.models.spec import NETWORKS, ModelSpec
from bitlane.sparse.parameters import storage
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.parameters.unique import unique_keys

Floats = NDArray[np.float32]
_SCORED_ROWS = 1000  # whose first scores count for the first intercept


class SparseModel:
    """A model over sparse features: LR, FM, FFM, DNN, Wide & Deep or DeepFM.

    Parameters
    ----------
    spec : ModelSpec
    device : str, default="cpu"
        Where torch computes the layers of a network, such as ``"cuda"``. It is not saved.

    Attributes
    ----------
    spec : ModelSpec
    parameters : SparseParameters
        By key. `parameters.table` is the table.
    matrices : dict of Matrix
        Dense parameters by name.
    rows_seen : int
        Rows learned so far.
    surplus : float
        The sum of their weights, which rates that decay follow, less `rows_seen`: 0 without weights.

    Notes
    -----
    A row of weight k counts as k copies of it in the same minibatch, for the steps of all optimizers. Where each row is
    a step, it is one step with k times the gradient. A row of weight 0 is left out. Admission of keys counts rows.

    With ``spec.batch_rows == 1``, `learn` scores and learns row after row in place. Several threads may call it for the
    same model: Hogwild; they read and write the same rows without locks, so updates may be lost and no run repeats
    another. One thread is deterministic. Networks learn in one thread at a time.
    """

    def __init__(self, spec: ModelSpec, device: str = "cpu"):
        self.spec = spec
        self.parameters = SparseParameters(spec.blocks(), spec.seed, admission=spec.admission, track_age=spec.track_age)
        self._functions = score_functions(spec, device)
        self._shallow = self._functions if isinstance(self._functions, Shallow) else None
        self.matrices: dict[str, Matrix] = self._functions.matrices()
        self.rows_seen = 0
        self.surplus = 0.0
        self._begun = False
        self._counting = threading.Lock()

    def begin(self, batch: Batch) -> None:
        """Set the intercept by the labels of the first rows, before any row is learned.

        Their mean score is then `base_score`: that of a row of unknown keys, too, unless the first factors or layers
        have a mean score of their own, which the intercept makes up for. Those of an FFM have. Nothing happens if the
        model has no intercept, has begun, or the batch has no rows of a weight above 0.

        Parameters
        ----------
        batch : Batch
            Rows with labels, as many as possible: the first `periods.FIRST_ROWS`, say.

        Raises
        ------
        DataError
            A label that the loss does not take, or a field above the limit.
        """
        check_labels(self.spec.loss, batch.labels)
        check_weights(batch.weights)
        self._functions.check(batch)
        name = self._functions.intercept
        with self._counting:
            if self._begun or not batch.total_weight:
                return
            self._begun = True
            if name is None or self.rows_seen:
                return
            warn_of_long_steps(self.spec, batch.weights)
            few = batch.slice(0, _SCORED_ROWS)
            keys, index = unique_keys(few.keys)
            weights = self.parameters.weights_of(self.parameters.initial_rows(keys))
            dense = self.pull_dense()
            dense[name] = np.zeros_like(dense[name])
            alone = self._functions.scores(few, weights, index, dense).astype(np.float64)
            mean = float(np.average(alone, weights=few.weights if few.total_weight else None))
            self.matrices[name].fill(base_score(self.spec.loss, batch.labels, batch.weights) - mean)

    def scores(self, batch: Batch) -> Floats:
        """Return the scores of a batch, float32 [rows]: the logit or the prediction.

        Unknown keys contribute nothing. Nothing changes.
        """
        return self.scores_and_known(batch)[0]

    def scores_and_known(self, batch: Batch) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the scores of a batch as `scores`, and which features have keys that the model has, bool [nnz]."""
        table = self.parameters.table
        if self._shallow is not None:
            with table.updating():
                slots = table.find(batch.keys)
                return self._shallow.walk(table.rows, slots, batch, self.matrices), slots >= 0
        keys, index = unique_keys(batch.keys)
        weights, known = self.parameters.find(keys)
        return self._functions.scores(batch, weights, index, self.pull_dense()), known[index]

    def predict(self, batch: Batch) -> Floats:
        """Return probabilities of label 1 (log loss) or the scores (squared error), float32 [rows]."""
        return predictions(self.spec.loss, self.scores(batch))

    def learn(self, batch: Batch) -> Floats:
        """Learn a batch: row after row, or by minibatches of ``spec.batch_rows`` rows.

        Returns
        -------
        scores : float32 [rows]
            Of each row before it, or its minibatch, was learned.

        Raises
        ------
        DataError
            A label that the loss does not take, an invalid weight, or a field above the limit. Nothing was learned
            then.
        """
        check_labels(self.spec.loss, batch.labels)
        check_weights(batch.weights)
        self._functions.check(batch)
        return learn_counted(batch, self._learn, self.scores)

    def _learn(self, batch: Batch) -> Floats:
        """Learn a batch whose weights, if it has any, are above 0."""
        size = self.spec.batch_rows
        if size > 1:
            scores = [self._learn_minibatch(batch.slice(at, at + size)) for at in range(0, batch.rows, size)]
            return np.concatenate([np.zeros(0, np.float32), *scores])
        assert self._shallow is not None
        table = self.parameters.table
        with table.pinned(batch.keys) as slots:
            return self._shallow.walk(table.rows, slots, batch, self.matrices, self._count(batch))

    def gradients(
        self, batch: Batch, weights: Floats, index: NDArray[np.int64], dense: dict[str, Floats]
    ) -> tuple[Floats, Floats, dict[str, Floats]]:
        """Return the scores of a minibatch and its gradients.

        Parameters
        ----------
        batch : Batch
        weights : float32 [n, values]
            Pulled for the distinct keys.
        index : int64 [nnz]
            Index of each feature's key among them (`unique_keys`), or -1: contributes nothing.
        dense : dict of float32 arrays
            Of `pull_dense`.

        Returns
        -------
        scores : float32 [rows]
        sparse : float32 [n, values]
            Sums over the rows, times their weights.
        dense : dict of float32 arrays
            Of the intercept sums over the rows, times their weights; of a network's layers means by weight.
        """
        results: tuple[Floats, Floats, dict[str, Floats]] = self._functions.gradients(batch, weights, index, dense)
        return results

    def pull_dense(self) -> dict[str, Floats]:
        """Return the dense weights by name."""
        return {name: matrix.pull() for name, matrix in self.matrices.items()}

    def save(self, folder: str | Path) -> None:
        """Write the model to an existing, empty folder: model.json, parameters.arrow, dense.npz.

        Updates wait until all rows are written.
        """
        path, table = Path(folder), self.parameters.table
        with table.frozen():
            storage.write_parameters(path, self.parameters, self.matrices)
            record = {"spec": self.spec.to_json(), "rows_seen": self.rows_seen, "keys": len(table)}
            if self.surplus:
                record["surplus"] = self.surplus
        storage.write_description(path, record)

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> SparseModel:
        """Return the model of a folder that `save` wrote, with the same bits; `device` as in `SparseModel`.

        Raises
        ------
        DataError
            A file is missing or damaged.
        """
        path = Path(folder)
        record = storage.read_description(path)
        try:
            model = cls(ModelSpec.from_json(record["spec"]), device)
            model.rows_seen = int(record["rows_seen"])
            model.surplus = float(record.get("surplus", 0.0))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path / storage.DESCRIPTION} is damaged: {error}") from error
        storage.read_parameters(path, model.parameters, model.matrices, "model")
        return model

    def _learn_minibatch(self, batch: Batch) -> Floats:
        keys, index = unique_keys(batch.keys)
        if self.spec.sightings > 1:  # `pull` would count a key once a minibatch
            self.parameters.table.find_or_insert(batch.keys)
        weights = self.parameters.pull(keys, create=self.spec.sightings == 1)
        dense = self.pull_dense()
        scores, sparse_gradients, dense_gradients = self.gradients(batch, weights, index, dense)
        seen = self._count(batch)
        self.parameters.push(keys, sparse_gradients, seen)
        for name, gradient in dense_gradients.items():
            self.matrices[name].push(gradient, seen)
        return scores

    def _count(self, batch: Batch) -> float:
        """Add a batch to the rows seen; return their weight before."""
        with self._counting:
            before = self.rows_seen + self.surplus
            self.rows_seen += batch.rows
            if batch.weights is not None:
                self.surplus += batch.total_weight - batch.rows
        return before


def score_functions(spec: ModelSpec, device: str) -> Any:
    """Return the functions of the model: a `Shallow`, or a `deep.Network`, which has the same methods except `walk`."""
    if spec.kind not in NETWORKS:
        return Shallow(spec)
    from importlib import import_module

    return import_module("bitlane.sparse.models.deep").Network(spec, device)
