"""Encoded tables of the arrays and tables that users pass."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from bitlane.encoded.table import EncodedTable
from bitlane.support.column_names import column_names

from .arrays import as_table


def encode_table(X: Any, y: ArrayLike | None = None, bits: int = 8, **options: Any) -> EncodedTable:
    """Encode a table in memory.

    Parameters
    ----------
    X : array-like, sparse matrix or array of scipy, or table of pandas or pyarrow, of shape (rows, n)
        Integers or floats, finite.
    y, bits, **options
        As for `EncodedTable.of`.

    Returns
    -------
    EncodedTable

    Raises
    ------
    DataError
        Data that cannot be encoded.
    """
    names = column_names(X)
    table = EncodedTable.of(as_table(X, least=1), y, bits, **options)
    return table if names is None else table.renamed(names.tolist())
