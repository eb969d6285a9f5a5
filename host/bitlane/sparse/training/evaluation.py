"""How good a model is on rows that it does not learn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.scoring.known import KnownKeys

from .learner import Learner
from .loop import NOTICE
from .windows import Quality, Scores


def evaluate(
    model: Learner,
    rows: Generator[Batch, None, None],
    on_rows: Callable[[int], object] | None = None,
    known: KnownKeys | None = None,
) -> Quality:
    """Return how good a model's scores of rows are; nothing is learned.

    Eight bytes of memory are needed for each row: the AUC is exact.

    Parameters
    ----------
    model : SparseModel
    rows : generator of Batch
        Such as an epoch of a source. It is closed.
    on_rows : callable, optional
        Called with the number of rows after each batch.
    known : KnownKeys, optional
        Counts the features that the model knows.

    Raises
    ------
    DataError
        There are no rows, all weights are 0, or a score is not finite.
    """
    scores = Scores(model.spec.loss)
    with NOTICE.watch(), closing(rows) as batches:
        for batch in batches:
            found, has = model.scores_and_known(batch)
            scores.add(found, batch.labels, batch.weights)
            if known is not None:
                known.add(batch, has)
            if on_rows is not None:
                on_rows(batch.rows)
    if scores.rows == 0:
        raise DataError("there are no rows to evaluate on")
    quality = scores.quality()
    if not quality.rows:
        raise DataError("the weights of all rows are 0: there are no rows to evaluate on")
    return quality
