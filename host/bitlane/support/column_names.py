"""Names of the columns of tables that estimators are given, by scikit-learn's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .user_warnings import warn_user


def column_names(X: Any) -> NDArray[Any] | None:
    """Return the column names of a table, if all are strings."""
    columns = getattr(X, "column_names", getattr(X, "columns", None))  # Arrow's tables, or those of others
    if columns is None or len(columns) == 0 or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(list(columns), dtype=object)


def check_names(X: Any, fitted: NDArray[Any] | None) -> None:
    """Warn if only one of X and the fitted table has column names; raise DataError if the names differ."""
    names = column_names(X)
    if names is None or fitted is None:
        if names is not None:
            warn_user("X has feature names, but the model was fitted without: their order is trusted")
        elif fitted is not None:
            warn_user("X has no valid feature names, but the model was fitted with some")
        return
    if np.array_equal(names, fitted):
        return
    difference = "they are in another order"
    for different, what in ((set(names) - set(fitted), "new here"), (set(fitted) - set(names), "missing")):
        if different:
            difference = f"{', '.join(sorted(different)[:5])}{' and others' * (len(different) > 5)} are {what}"
            break
    raise DataError(f"The feature names should match those that were passed during fit: {difference}")
