"""Lines of Vowpal Wabbit's text: bytes to a batch."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import RowLocation, class_message
from bitlane.sparse.batches.decoding import REMEDY
from bitlane.sparse.batches.hashing import column_key, span_keys
from bitlane.sparse.batches.labels import labels_of_text
from bitlane.sparse.batches.scanning import numbers_of_cells
from bitlane.sparse.batches.vw_scanning import NO_BAR, NO_NAME, NONE, TOO_MANY, WORDS, scan_lines
from bitlane.sparse.batches.weights import check_row_weights
from bitlane.support import csv_text
from bitlane.support.user_warnings import warn_user

_ROW = re.compile(rb"^[ \t\r]*[^ \t\r\n]", re.MULTILINE)
_NEWLINE = 10
Integers = NDArray[np.int64]


class _Lines:
    """The parts of a block of lines."""

    def __init__(self, block: bytes, location: RowLocation):
        csv_text.check_utf8(block, location.file, REMEDY)
        block = block if block.endswith(b"\n") else block + b"\n"
        self.text, self.location = np.frombuffer(block, np.uint8), location
        lines, bars = block.count(b"\n"), block.count(b"|")
        most = len(block) // 2 + 1  # a feature has a blank, or a bar, before it
        begins, ends = np.zeros((lines, WORDS), np.int64), np.zeros((lines, WORDS), np.int64)
        found = (begins, ends, np.zeros(lines, np.int64), np.zeros(lines + 1, np.int64))
        spaces = (np.zeros(bars, np.int64), np.zeros(bars, np.int64), np.zeros((bars, 2), np.int64))
        names = (np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros((most, 2), np.int64))
        of = np.zeros(most, np.int64)
        rows, count, nnz, code, line = scan_lines(self.text, found, spaces, (*names, of))
        if code:
            raise location.error(line, _message(code))
        self.rows, self.nnz = rows, nnz
        self.words = [np.stack([begins[:rows, word], ends[:rows, word]], axis=1) for word in range(WORDS)]
        self.lines, self.offsets = found[2][:rows], found[3][: rows + 1]
        self.spaces, self.scales = (spaces[0][:count], spaces[1][:count]), spaces[2][:count]
        self.names, self.values, self.space_of = (names[0][:nnz], names[1][:nnz]), names[2][:nnz], of[:nnz]

    def error(self, row: int, reason: str) -> DataError:
        """Return the error of a row."""
        return self.location.error(int(self.lines[row]), reason)

    def row_of(self, feature: int) -> int:
        """Return the row of a feature."""
        return int(np.searchsorted(self.offsets, feature, side="right")) - 1

    def name(self, feature: int) -> tuple[int, int]:
        """Return where the name of a feature begins and ends."""
        return int(self.names[0][feature]), int(self.names[1][feature])

    def namespaces(self) -> set[str]:
        """Return the names of the namespaces."""
        spans = zip(*(each.tolist() for each in self.spaces), strict=True)
        return {self.text[start:stop].tobytes().decode() for start, stop in spans}

    def shown(self, start: int, stop: int) -> str:
        """Return a part as text, shortened."""
        return repr(self.text[start:stop].tobytes().decode("utf-8", "replace")[:40])

    def numbers(self, spans: Integers, usual: float) -> tuple[NDArray[np.float64], int]:
        """Return the numbers in spans, `usual` where one is missing, and the index of the first invalid one or -1."""
        numbers = np.full(len(spans), usual)
        there = np.flatnonzero(spans[:, 0] != NONE)
        starts, sizes = spans[there, 0], spans[there, 1] - spans[there, 0]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        index = np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])
        found = np.zeros(len(there))
        wrong = numbers_of_cells(self.text[index], ends, np.zeros(0, np.uint8), found)
        if wrong < 0 and np.isnan(found).any():
            wrong = int(np.isnan(found).argmax())  # nothing behind a colon
        numbers[there] = found
        return numbers, -1 if wrong < 0 else int(there[wrong])


def parse_vw(
    block: bytes,
    namespaces: Sequence[str],
    *,
    task: str = "classification",
    positive: str | None = None,
    labelled: bool = True,
    uses_fields: bool = False,
    location: RowLocation,
) -> Batch:
    """Return the rows of complete lines.

    A line is ``label importance base 'tag |namespace:scale feature:value ... |namespace ...``. All but the bars may be
    absent; a tag begins with a quotation mark or touches the first bar. The key of a feature is xxh64 of
    ``namespace=feature``, and of ``feature`` in the namespace without a name: that of the cell of a categorical column,
    and of a numeric column. Its value is that in the line, 1 by default, times the scale.

    Parameters
    ----------
    block : bytes
        UTF-8. The last line may lack its newline. Empty lines do not count.
    namespaces : sequence of str
        Each is the field of its position; all others share the next one.
    task, positive
        As of `text.parse_lines`.
    labelled : bool, default=True
        False: labels may be absent, and are nan then.
    uses_fields : bool, default=False
        Warn of namespaces that share a field.
    location : RowLocation
        Where the block comes from, in lines.

    Returns
    -------
    Batch
        With weights, if it has labels.

    Raises
    ------
    DataError
        Something else is in a line, or an initial prediction: the message has file and line.
    """
    lines = _Lines(block, location)
    labels, weights = _labels(lines, task, positive, labelled), _weights(lines) if labelled else None
    values, wrong = lines.numbers(lines.values, 1.0)
    if wrong >= 0:
        name, number = lines.shown(*lines.name(wrong)), lines.shown(*lines.values[wrong])
        raise lines.error(lines.row_of(wrong), f"feature {name} has the value {number}, which is no finite number")
    scales, wrong = lines.numbers(lines.scales, 1.0)
    if wrong >= 0:
        space = int(lines.spaces[0][wrong])
        name, number = lines.shown(space, int(lines.spaces[1][wrong])), lines.shown(*lines.scales[wrong])
        line = int(np.count_nonzero(lines.text[:space] == _NEWLINE))
        raise location.error(line, f"namespace {name} has the scale {number}, which is no finite number")
    with np.errstate(over="ignore"):
        singles = (values * scales[lines.space_of]).astype(np.float32)
    if not np.isfinite(singles).all():
        wrong = int(np.argmin(np.isfinite(singles)))
        raise lines.error(lines.row_of(wrong), f"feature {lines.shown(*lines.name(wrong))} has a value beyond float32")
    heads = (lines.spaces[0][lines.space_of], lines.spaces[1][lines.space_of])
    keys = span_keys(lines.text, heads, lines.names)
    fields, others = _fields(lines, namespaces)
    if uses_fields and others:
        warn_user(
            f"{location.file}: namespace {others[0]!r} is not in the first block of the training: it shares the field "
            f"{len(namespaces)} with all such"
        )
    return Batch(keys, fields, singles, lines.offsets, labels, weights=weights)


def namespaces_of(block: bytes, location: RowLocation) -> tuple[str, ...]:
    """Return the names of the namespaces of lines, in alphabetical order; "" is the one without a name."""
    return tuple(sorted(_Lines(block, location).namespaces()))


def count_vw_rows(block: bytes) -> int:
    """Return how many lines of a block are rows: those that are not blank."""
    return sum(1 for _ in _ROW.finditer(block))


def _labels(lines: _Lines, task: str, positive: str | None, labelled: bool) -> NDArray[np.float32]:
    label, _, base = lines.words
    missing = label[:, 0] == NONE
    if labelled and missing.any():
        row = int(missing.argmax())
        raise lines.error(row, "there is no label; a word that touches the first bar is a tag: write a blank before it")
    numbers, wrong = lines.numbers(base, 0.0)
    if wrong < 0 and numbers.any():
        wrong = int((numbers != 0).argmax())
    if wrong >= 0:
        raise lines.error(wrong, f"the initial prediction is {lines.shown(*base[wrong])}; only 0 is read: omit it")
    numbers, wrong = lines.numbers(label, np.nan)
    if wrong >= 0:
        raise lines.error(wrong, f"label {lines.shown(*label[wrong])} is no finite number")
    with np.errstate(over="ignore"):
        singles = numbers.astype(np.float32)
    if positive is not None:
        singles[~missing] = labels_of_text(singles[~missing], positive, lines.location.file)
        return singles
    if task != "classification":
        if np.isinf(singles).any():
            row = int(np.isinf(singles).argmax())
            raise lines.error(row, f"label {lines.shown(*label[row])} is beyond float32")
        return singles
    wrong_class = ~missing & (numbers != 0) & (np.abs(numbers) != 1)
    if wrong_class.any():
        row = int(wrong_class.argmax())
        raise lines.error(row, class_message(lines.shown(*label[row]).strip("'")))
    classes: NDArray[np.float32] = np.maximum(singles, 0)
    return classes


def _weights(lines: _Lines) -> NDArray[np.float32]:
    """Return the importance weights, 1 where a line has none."""
    spans = lines.words[1]
    numbers, wrong = lines.numbers(spans, 1.0)
    if wrong >= 0:
        raise lines.error(wrong, f"the importance weight is {lines.shown(*spans[wrong])}, which is no number")
    return check_row_weights(numbers, "the importance weight", lines.error)


def _fields(lines: _Lines, namespaces: Sequence[str]) -> tuple[NDArray[np.uint16], list[str]]:
    """Return the field of each feature, the position of its namespace or the one behind all, and which have that."""
    empty = np.zeros(len(lines.scales), np.int64)
    keys, codes = np.unique(span_keys(lines.text, (empty, empty), lines.spaces), return_inverse=True)
    known = {column_key(name): field for field, name in enumerate(namespaces)}
    fields = np.array([known.get(key, len(namespaces)) for key in keys.tolist()], np.uint16)
    found: NDArray[np.uint16] = fields[codes.reshape(-1)][lines.space_of]
    others = sorted(lines.namespaces() - {*namespaces}) if len(namespaces) in fields else []
    return found, others


def _message(code: int) -> str:
    return {
        NO_BAR: "there is no bar, |, before the features",
        TOO_MANY: "there are more words before the bar than label, importance weight, initial prediction and tag",
        NO_NAME: "a feature has no name before its colon",
    }[code]
