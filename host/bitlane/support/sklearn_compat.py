"""scikit-learn's own exceptions, for programs that have loaded scikit-learn; on a board there is none.

A program that catches one of them has imported it, so what is not loaded is not missed.
"""

from __future__ import annotations

import sys
from typing import Any, cast

from bitlane.errors import DataError


def not_fitted(estimator: str) -> DataError:
    """What a method of an `estimator` of this name raises before fit: scikit-learn's NotFittedError too."""
    theirs = _loaded("NotFittedError")
    body: dict[str, Any] = {"__reduce__": lambda error: (not_fitted, (estimator,))}  # workers send errors pickled
    kind = DataError if theirs is None else cast("type[DataError]", type("NotFittedError", (DataError, theirs), body))
    return kind(f"this {estimator} is not fitted: call fit first")


def conversion_warning() -> type[Warning]:
    """The category of warnings about an array whose shape was changed: scikit-learn's DataConversionWarning."""
    return _loaded("DataConversionWarning") or UserWarning


def _loaded(name: str) -> Any:
    """A class of sklearn.exceptions by name, or None where that is not loaded."""
    return getattr(sys.modules.get("sklearn.exceptions"), name, None)
