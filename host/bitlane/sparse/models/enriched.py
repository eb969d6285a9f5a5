"""A model whose rows have the statistics of their keys as features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.row_weights import check_weights, learn_counted
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings
from bitlane.sparse.parameters.statistics_files import read_statistics, write_statistics

Floats = NDArray[np.float32]
FOLDER = "statistics"  # in the folder of a model


class EnrichedModel:
    """A sparse model and statistics, with the methods of `SparseModel`.

    `learn` takes `batch_rows` rows of the statistics' settings at a time, rounded up to minibatches: it adds what is
    counted so far, lets the model score and learn them, and counts them.

    Parameters
    ----------
    model : SparseModel
        If it has a limit of fields, it must admit those of the statistics.
    statistics : Statistics

    Raises
    ------
    DataError
        The model admits fewer fields.
    """

    def __init__(self, model: SparseModel, statistics: Statistics):
        settings = statistics.settings
        fields = settings.first_field + settings.added
        if 0 < model.spec.fields < fields:
            raise DataError(f"fields={model.spec.fields}: with its statistics the model needs fields={fields}")
        self.model, self.statistics = model, statistics
        self._rows = period_rows(settings, model.spec.batch_rows)

    @property
    def spec(self) -> ModelSpec:
        """Description of the model."""
        return self.model.spec

    @property
    def parameters(self) -> SparseParameters:
        """The model's, without the statistics."""
        return self.model.parameters

    @property
    def rows_seen(self) -> int:
        """Rows learned so far."""
        return self.model.rows_seen

    def begin(self, batch: Batch) -> None:
        """Set the intercept by the labels of the first rows; see `SparseModel.begin`."""
        self.model.begin(self.statistics.enrich(batch))

    def begin_epoch(self) -> None:
        """Forget what is counted: another pass over the same rows would find their own labels in it."""
        self.statistics.reset()

    def scores(self, batch: Batch) -> Floats:
        """Return the scores of a batch, float32 [rows]; nothing changes."""
        return self.model.scores(self.statistics.enrich(batch))

    def predict(self, batch: Batch) -> Floats:
        """Return probabilities of label 1, float32 [rows]."""
        return self.model.predict(self.statistics.enrich(batch))

    def scores_and_known(self, batch: Batch) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the scores, and which features of a batch have keys that the model has, bool [nnz]: no statistics."""
        enriched = self.statistics.enrich(batch)
        scores, known = self.model.scores_and_known(enriched)
        counts = np.diff(batch.offsets)
        at = np.repeat(enriched.offsets[:-1] - batch.offsets[:-1], counts) + np.arange(batch.nnz)
        return scores, known[at]  # the statistics of a row are behind its features

    def learn(self, batch: Batch) -> Floats:
        """Learn a batch, and count it; return the scores before, float32 [rows].

        Raises
        ------
        DataError
            A label is neither 0 nor 1, or the statistics need times. Nothing was learned then.
        """
        self.statistics.check(batch)
        check_weights(batch.weights)
        return learn_counted(batch, self._learn, self.scores)

    def _learn(self, batch: Batch) -> Floats:
        """Learn and count a batch whose weights, if it has any, are above 0."""
        scores = [np.zeros(0, np.float32)]
        for start in range(0, batch.rows, self._rows):
            chunk = batch.slice(start, start + self._rows)
            scores.append(self.model.learn(self.statistics.enrich(chunk)))
            self.statistics.update(chunk)
        return np.concatenate(scores)

    def save(self, folder: str | Path) -> None:
        """Write model and statistics to an existing, empty folder; the latter to ``statistics`` in it."""
        self.model.save(folder)
        write_statistics(Path(folder) / FOLDER, self.statistics)

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> EnrichedModel:
        """Return the model of a folder that `save` wrote, with the same bits; `device` as in `SparseModel`.

        Raises
        ------
        DataError
            A file is missing or damaged.
        """
        statistics = read_statistics(Path(folder) / FOLDER)
        return cls(SparseModel.load(folder, device), statistics)


def period_rows(settings: StatisticsSettings, minibatch_rows: int) -> int:
    """Return the rows that are counted at a time: those of the settings, rounded up to minibatches."""
    return -(-settings.batch_rows // minibatch_rows) * minibatch_rows


def has_statistics(folder: str | Path) -> bool:
    """Return whether the model of a folder is an `EnrichedModel`."""
    return (Path(folder) / FOLDER).is_dir()
