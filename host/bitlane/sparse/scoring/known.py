"""How many of the values in rows a model knows, by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.schema import ListSchema, Schema

FEW = 0.1  # share of the values of a column, below which rows are not like those of the training
_ENOUGH = 100  # values of a column, from which on that is told
_SHOWN = 5  # columns
_NEARLY_ALL = 0.9995
EVERY = ""  # the name for the features of rows without columns


class KnownKeys:
    """Counts of features, and of those whose keys a model has.

    Parameters
    ----------
    schema : Schema, ListSchema or None
        Names the columns. Numeric columns do not count: each has one key.

    Attributes
    ----------
    features, known : Counter of str
        By column or cross; of rows without columns all are under the empty name.
    """

    def __init__(self, schema: Schema | ListSchema | None = None):
        self._names: tuple[str, ...] = ()
        self._counted: list[tuple[int, str]] = []
        if isinstance(schema, Schema):
            self._names = schema.field_names
            self._counted = [(at, name) for at, name in enumerate(self._names) if name not in schema.numeric]
        self.features: Counter[str] = Counter()
        self.known: Counter[str] = Counter()

    def count(self, batch: Batch, known: NDArray[np.bool_]) -> tuple[dict[str, int], dict[str, int]]:
        """Return the features of a batch, and those of them that the model knows, by column.

        Parameters
        ----------
        batch : Batch
        known : bool [nnz]
            Which keys the model has.
        """
        if not self._names:
            return {EVERY: batch.nnz}, {EVERY: int(np.count_nonzero(known))}
        features = np.bincount(batch.fields, minlength=len(self._names)).tolist()
        found = np.bincount(batch.fields[known], minlength=len(self._names)).tolist()
        return {name: features[at] for at, name in self._counted}, {name: found[at] for at, name in self._counted}

    def add(self, batch: Batch, known: NDArray[np.bool_]) -> None:
        """Add what `count` returns to the counts."""
        features, found = self.count(batch, known)
        self.features.update(features)
        self.known.update(found)

    @property
    def share(self) -> float | None:
        """The share of all features that the model knows; None without features."""
        total = self.features.total()
        return self.known.total() / total if total else None

    def shares(self) -> dict[str, float]:
        """Return the share by column, the smallest first."""
        shares = {name: self.known[name] / count for name, count in self.features.items() if count}
        return dict(sorted(shares.items(), key=lambda entry: entry[1]))

    def text(self) -> str:
        """Return the shares as a line: of all values, and of up to five columns of which the model knows less."""
        if self.share is None:
            return "no categorical values"
        less = [(name, share) for name, share in self.shares().items() if name != EVERY and share < _NEARLY_ALL]
        columns = [f"{name} {share:.1%}" for name, share in less[:_SHOWN]]
        return "; ".join([f"values that the model knows: {self.share:.1%}", *columns])

    def problems(self) -> Sequence[str]:
        """Return a line for each column of which the model knows less than a tenth of 100 values or more."""
        return [
            f"the model knows {share:.1%} of the {self.features[name]:,} values"
            + (f" of column {name!r}" if name != EVERY else "")
            + ": are they written as in the training data?"
            for name, share in self.shares().items()
            if share < FEW and self.features[name] >= _ENOUGH
        ]
