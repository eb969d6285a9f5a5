"""What the loop needs of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.batch import Batch

Floats = NDArray[np.float32]


class Learner(Protocol):
    """A model, as the loop sees it: `bitlane.sparse.models.model.SparseModel` is one."""

    @property
    def spec(self) -> Any: ...

    @property
    def parameters(self) -> Any:
        """`SparseParameters`, for the size of the table and for expiry."""
        ...

    def begin(self, batch: Batch) -> None:
        """Take account of the first rows before they are learned."""
        ...

    def scores_and_known(self, batch: Batch) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the scores, and which features of a batch have keys that the model has, bool [nnz]."""
        ...

    def learn(self, batch: Batch) -> Floats:
        """Learn the rows, and return the score that each had before."""
        ...

    def save(self, folder: Path) -> object:
        """Write the model to an empty folder."""
        ...


def table_size(model: Learner) -> tuple[int, int, int]:
    """Return keys, bytes of memory and bytes of data of a model's table."""
    table = model.parameters.table
    return len(table), table.nbytes, table.data_nbytes
