"""Labels of rows: numbers, or one of two classes, which numbers and words name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.cell_texts import MISSING
from bitlane.sparse.batches.checks import RowLocation, check_labels, class_message
from bitlane.support.user_warnings import warn_user

WORDS = {
    **dict.fromkeys(["true", "t", "yes", "y"], 1.0),
    **dict.fromkeys(["false", "f", "no", "n"], 0.0),
}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MISSING, _WRONG = -1.0, -2.0


def check_positive(positive: object, task: str) -> str | None:
    """Return the label that is 1 as text.

    Raises
    ------
    DataError
        It is the text of a missing cell, or a regression has no classes.
    """
    if positive is None:
        return None
    text = str(positive).strip()
    if task != "classification":
        raise DataError(f"positive={text!r}: a regression has no classes; omit it")
    if text in MISSING:
        raise DataError(f"positive={text!r}: a missing label is written so; give a label of the file")
    return text


def labels_of_values(
    values: Sequence[Any], codes: NDArray[np.integer], positive: str | None, what: str, location: RowLocation
) -> NDArray[np.float32]:
    """Return the classes of labels of any type.

    Parameters
    ----------
    values : sequence
        The distinct labels; None is missing.
    codes : int [rows]
        Index of each row's label among them.
    positive : str or None
        The label that is 1; all others are 0. It equals labels of the same number, or of the same text; ``True`` equals
        ``true``. None: 1, and ``true``, ``t``, ``yes`` and ``y`` in any case are 1; 0, -1, and ``false``, ``f``, ``no``
        and ``n`` are 0.
    what : str
        What the labels are, such as "label column 'click'".
    location : RowLocation
        Of the first row.

    Returns
    -------
    float32 [rows]

    Raises
    ------
    DataError
        A label is missing, or is no class.
    """
    texts = [_text_of(value) for value in values]
    meant = None if positive is None else _meaning(positive)
    classes = np.array([_class_of(text, meant) for text in texts], np.float32)
    labels: NDArray[np.float32] = classes[codes]
    if len(labels) and labels.min() < 0:
        row = int(np.argmax(labels < 0))
        text = texts[codes[row]]
        if labels[row] == _MISSING:
            raise location.error(row, f"{what} is empty" if not text else f"{what} is {text!r}, a missing value")
        raise location.error(row, class_message(text if _NUMBER.fullmatch(text) else repr(text[:40])))
    return labels


def labels_of_numbers(
    numbers: NDArray[Any], task: str, positive: str | None, location: RowLocation
) -> NDArray[np.float32]:
    """Return labels of an array, of numbers or text, as a model takes them: see `checks.check_labels`."""
    if numbers.dtype.kind in "US" or positive is not None:
        values, codes = np.unique(numbers, return_inverse=True)
        return labels_of_values(values.tolist(), codes.reshape(-1), positive, "the label", location)
    return check_labels(numbers.astype(np.float64), task, location)


def labels_of_text(labels: NDArray[np.float32], positive: str, file: str) -> NDArray[np.float32]:
    """Return which labels of libsvm or libffm, which are numbers, are the positive one."""
    meant = _meaning(positive)
    if not isinstance(meant, float):
        raise DataError(f"{file}: its labels are numbers, and --positive {positive!r} is none")
    classes: NDArray[np.float32] = (labels == np.float32(meant)).astype(np.float32)
    return classes


def warn_if_absent(labels: NDArray[np.float32], positive: str | None, file: str) -> None:
    """Warn if the positive label is not among the first labels of a file."""
    if positive is not None and len(labels) and not np.isnan(labels[0]) and not labels.any():
        warn_user(f"{file}: none of the first {len(labels):,} labels is {positive!r}, the one of --positive")


def _text_of(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def _meaning(text: str) -> float | str:
    """What labels have in common that are equal: a number; else their text, but for the case of true and false."""
    if _NUMBER.fullmatch(text):
        return float(text)
    return text.lower() if text.lower() in ("true", "false") else text


def _class_of(text: str, positive: float | str | None) -> float:
    if text in MISSING:
        return _MISSING
    meaning = _meaning(text)
    if positive is not None:
        return float(meaning == positive)
    if isinstance(meaning, float):
        return max(meaning, 0.0) if meaning in (0.0, 1.0, -1.0) else _WRONG
    return WORDS.get(text.lower(), _WRONG)
