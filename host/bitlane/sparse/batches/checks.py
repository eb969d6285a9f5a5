"""Checks of what was read, with the file and the row in the error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.text import shown_name

TASKS = ("classification", "regression")
LARGEST_FIELD = 2**16 - 1


@dataclass(frozen=True)
class RowLocation:
    """Where rows come from.

    Attributes
    ----------
    file : str
    first : int, default=1
        Number of the first row, from 1.
    unit : {"row", "line"}
        "line" for text without a header, where blank lines and comments count.
    """

    file: str
    first: int = 1
    unit: str = "row"

    def error(self, index: int, reason: str) -> DataError:
        """Return the error of the row at `index`, from 0, of this piece."""
        return DataError(f"{self.file}, {self.unit} {self.first + index}: {reason}")

    def after(self, rows: int) -> RowLocation:
        """Return the location `rows` rows further down."""
        return RowLocation(self.file, self.first + rows, self.unit)


def check_task(task: str) -> None:
    """Raise DataError if `task` is not one of `TASKS`."""
    if task not in TASKS:
        raise DataError(f"task={task!r} is unknown; choose 'classification' or 'regression'")


def check_labels(labels: NDArray[np.floating], task: str, location: RowLocation) -> NDArray[np.float32]:
    """Return labels as a model takes them.

    Parameters
    ----------
    labels : float [rows]
    task : {"classification", "regression"}
        Classification takes 0 and 1, or -1 and 1, and returns 0 and 1. Regression takes every finite number.
    location : RowLocation

    Returns
    -------
    float32 [rows]

    Raises
    ------
    DataError
        A label is of another kind.
    """
    if task == "classification":
        wrong = (labels != 0) & (np.abs(labels) != 1)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise location.error(row, class_message(f"{labels[row]:g}"))
        classes: NDArray[np.float32] = np.maximum(labels, 0).astype(np.float32)
        return classes
    with np.errstate(over="ignore"):
        targets = labels.astype(np.float32)
    if not np.isfinite(targets).all():
        row = int(np.argmin(np.isfinite(targets)))
        raise location.error(row, f"label {labels[row]:g} is not a finite float32")
    return targets


def class_message(label: str) -> str:
    """Return why a label is no class."""
    return (
        f"label {label} is neither 0 nor 1 (nor -1, true, false, yes or no): say which label is 1 by --positive "
        "(all others are 0), or use --loss squared_error"
    )


def check_finite(
    values: NDArray[np.floating], rows: NDArray[np.int64] | None, name: str, location: RowLocation
) -> None:
    """Raise DataError for the first value that is infinite or not a number.

    Parameters
    ----------
    values : float [n]
    rows : int64 [n], optional
        Row of each value within the piece; None: value r is of row r.
    name : str
        What the values are, such as "numeric column 'age'".
    location : RowLocation
    """
    finite = np.isfinite(values)
    if not finite.all():
        index = int(np.argmin(finite))
        row = index if rows is None else int(rows[index])
        raise location.error(
            row, f"{name} is {values[index]:g}, not a finite float32; a missing value is null or omitted"
        )


def near_names(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean ...?" for names like `name`, or the list of all `names`."""
    names = list(names)
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return f"; did you mean {' or '.join(repr(each) for each in near)}?"
    shown = ", ".join(map(shown_name, names[:20])) + (", ..." if len(names) > 20 else "")
    return f"; there are {shown}" if names else "; there are no columns"


def one_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(". ")
