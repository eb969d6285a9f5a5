"""Scores of held-out rows by several models, from one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.scoring.known import KnownKeys
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.training.windows import Loss, Quality, measure

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class HeldOutScores:
    """The scores of the same rows by several models.

    Attributes
    ----------
    labels : float32 [rows]
    scores : tuple of float32 [rows]
        Of each model. They may be NaN or infinite.
    losses : tuple of {"log_loss", "squared_error"}
        Of each model.
    weights : float32 [rows] or None
    """

    labels: Floats
    scores: tuple[Floats, ...]
    losses: tuple[Loss, ...]
    weights: Floats | None = None

    def quality(self, index: int) -> Quality | None:
        """Return how good the scores of a model are; None if one is not finite."""
        scores = self.scores[index]
        measured = (scores, self.labels, self.losses[index], self.weights)
        return measure(*measured) if np.isfinite(scores).all() else None


def score_held_out(
    models: Sequence[FrozenModel], batches: Iterable[Batch], known: KnownKeys | None = None
) -> HeldOutScores:
    """Return the scores of rows by each model.

    Parameters
    ----------
    models : sequence of FrozenModel
    batches : iterable of Batch
    known : KnownKeys, optional
        Counts the features that the first model knows.

    Raises
    ------
    DataError
        There are no rows with a weight above 0, or they are not features of these models.
    """
    labels: list[Floats] = []
    weights: list[Floats] = []
    scores: list[list[Floats]] = [[] for _ in models]
    for batch in batches:
        if batch.weights is not None and not batch.weights.all():
            batch = batch.take(np.flatnonzero(batch.weights))
        weights += [] if batch.weights is None else [batch.weights]
        labels.append(batch.labels)
        found, has = zip(*(model.scores_and_known(batch) for model in models), strict=True)
        for own, each in zip(scores, found, strict=True):
            own.append(each)
        if known is not None:
            known.add(batch, has[0])
    if not sum(map(len, labels)):
        raise DataError("the held-out data has no rows" + (" of a weight above 0" if weights else ""))
    losses: list[Loss] = ["log_loss" if model.spec.loss == "log_loss" else "squared_error" for model in models]
    return HeldOutScores(
        np.concatenate(labels),
        tuple(np.concatenate(each) for each in scores),
        tuple(losses),
        np.concatenate(weights) if weights else None,
    )
