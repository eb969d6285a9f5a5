"""A model whose weights are on several servers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.losses import predictions
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.layout import Layout
from bitlane.sparse.scoring.calibrators import Calibrator
from bitlane.sparse.scoring.layers import Floats
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.serving.shards.front import Front, FrontTable


class ShardedModel(FrozenModel):
    """One version of a model on several servers. Any number of threads may call it.

    `scores` and `predict` raise `ShardsMissing` if a shard does not answer in time; `predict_partial` does without it.

    Parameters
    ----------
    spec : ModelSpec
    front : Front
        It has loaded the version.
    dense : mapping from str to float32 array
        As of `FrozenModel`.
    version : int
    calibrator : Calibrator, optional
        As of `FrozenModel`.

    Attributes
    ----------
    weights : FrontTable
    """

    is_remote = True

    def __init__(
        self,
        spec: ModelSpec,
        front: Front,
        dense: Mapping[str, Floats],
        version: int,
        calibrator: Calibrator | None = None,
    ):
        self.weights = FrontTable(front, version, Layout(spec.blocks()).values)
        super().__init__(spec, self.weights, dense, version, calibrator=calibrator)

    def predict_partial(self, batch: Batch) -> tuple[Floats, NDArray[np.bool_], tuple[int, ...]]:
        """Return predictions, which keys are known, and the shards that did not answer in time: their keys are not."""
        self._functions.check(batch)
        partial = self.weights.lookup_partial(batch.keys)
        scores = self._scores(batch, partial.weights, partial.known)
        return predictions(self.spec.loss, scores), partial.known, tuple(sorted(partial.missing))
