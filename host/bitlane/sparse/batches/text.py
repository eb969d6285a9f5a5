"""Lines of libsvm and libffm: bytes to a batch."""

from __future__ import annotations

import re

import numpy as np

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import LARGEST_FIELD, RowLocation, class_message
from bitlane.sparse.batches.labels import labels_of_text
from bitlane.sparse.batches.scanning import (
    BAD_FIELD,
    BAD_KEY,
    BAD_LABEL,
    BAD_VALUE,
    FIELD_RANGE,
    KEY_RANGE,
    LABEL_RANGE,
    NO_CLASS,
    VALUE_RANGE,
    count_lines,
    parse_features,
)

LAYOUTS = ("libsvm", "libffm")
_SHORTEST = {"libsvm": 4, "libffm": 6}  # bytes of a feature and the byte behind it: "1:2 ", "1:2:3 "


def parse_lines(
    block: bytes,
    layout: str,
    *,
    task: str = "classification",
    positive: str | None = None,
    max_fields: int | None = None,
    location: RowLocation,
) -> Batch:
    r"""Return the rows of complete lines.

    A line is ``label key:value ...`` (libsvm) or ``label field:key:value ...`` (libffm), with blanks in between. Keys
    are whole numbers from 0 to 2^64 - 1, fields from 0 to 65,535. ``#`` begins a comment. Empty lines and ``\r`` before
    ``\n`` do not count.

    Parameters
    ----------
    block : bytes
        The last line may lack its newline.
    layout : {"libsvm", "libffm"}
        The field of libsvm is 0.
    task : {"classification", "regression"}, default="classification"
        Which labels are valid: see `check_labels`.
    positive : str, optional
        The label that is 1, a number; all others are 0.
    max_fields : int, optional
        Fields must be below it.
    location : RowLocation
        Where the block comes from, in lines.

    Returns
    -------
    Batch

    Raises
    ------
    DataError
        Something else is in a line: the message has file and line.
    """
    if not block.endswith(b"\n"):
        block += b"\n"
    text = np.frombuffer(block, np.uint8)
    most = len(block) // _SHORTEST[layout] + 1
    keys, fields, values = np.empty(most, np.uint64), np.zeros(most, np.uint16), np.empty(most, np.float32)
    lines = block.count(b"\n")
    offsets, labels = np.zeros(lines + 1, np.int64), np.empty(lines, np.float32)
    fields_end = LARGEST_FIELD + 1 if max_fields is None else max_fields
    settings = (layout == "libffm", task == "classification" and positive is None, fields_end)
    rows, code, line, at = parse_features(text, (keys, fields, values), (offsets, labels), settings)
    if code:
        raise location.error(line, _message(code, _token(block, at), settings))
    nnz = int(offsets[rows])
    labels = labels[:rows] if positive is None else labels_of_text(labels[:rows], positive, location.file)
    return Batch(keys[:nnz], fields[:nnz], values[:nnz], offsets[: rows + 1], labels)


def count_rows(block: bytes) -> int:
    """Return how many lines of a block are rows: not blank, and not only a comment."""
    rows: int = count_lines(np.frombuffer(block if block.endswith(b"\n") else block + b"\n", np.uint8))
    return rows


def _token(block: bytes, at: int) -> str:
    """Return the text from `at` to the next blank, shortened."""
    token = re.split(rb"[ \t\r\n]", block[at : at + 60], maxsplit=1)[0].decode("utf-8", "replace")
    return token if len(token) <= 40 else token[:37] + "..."


def _message(code: int, token: str, settings: tuple[bool, bool, int]) -> str:
    """Return why a label or a feature is wrong."""
    has_fields, _, fields_end = settings
    shape = "field:key:value" if has_fields else "key:value"
    items = token.split(":")
    key = items[1] if has_fields and len(items) > 1 else items[0]
    integers = "whole numbers from 0 to 2^64 - 1"
    if code in (BAD_FIELD, BAD_KEY, BAD_VALUE) and len(items) != shape.count(":") + 1:
        return f"feature {token!r} is not {shape}"
    return {
        BAD_LABEL: f"label {token!r} is no finite number",
        NO_CLASS: class_message(token),
        LABEL_RANGE: f"label {token!r} is beyond float32",
        BAD_FIELD: f"field {items[0]!r} is no whole number from 0 to {fields_end - 1}",
        FIELD_RANGE: f"field {items[0]} is above the largest, {fields_end - 1}",
        BAD_KEY: f"key {key!r} is negative: keys are {integers}"
        if key.startswith("-")
        else f"key {key!r} is not one of the {integers}",
        KEY_RANGE: f"key {key} is too large: keys are {integers}",
        BAD_VALUE: f"value {items[-1]!r} of feature {token!r} is no finite number",
        VALUE_RANGE: f"value {items[-1]!r} of feature {token!r} is beyond float32",
    }[code]
