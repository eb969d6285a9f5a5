"""Where the parts of lines of Vowpal Wabbit's text are: a loop of numba that holds no lock of the interpreter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.scanning import inlined, kernel

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

NO_BAR, TOO_MANY, NO_NAME = 1, 2, 3  # errors of a line
NONE = -1  # where a part begins that is not there
_NEWLINE, _BAR, _COLON, _QUOTE = 10, 124, 58, 39
WORDS = 3  # label, importance weight, initial prediction


@inlined
def _is_blank(byte: int) -> bool:
    return byte == 32 or byte == 9 or byte == 13


@inlined
def _ends_word(byte: int) -> bool:
    return _is_blank(byte) or byte in (_BAR, _NEWLINE)


@kernel
def scan_lines(
    text: Bytes,
    rows: tuple[Integers, Integers, Integers, Integers],
    spaces: tuple[Integers, Integers, Integers],
    entries: tuple[Integers, Integers, Integers, Integers],
) -> tuple[int, int, int, int, int]:
    """Find the parts of lines; see `vw.parse_vw`.

    Parameters
    ----------
    text : uint8 [bytes]
        Ends with a newline.
    rows : int64 [lines, 3], int64 [lines, 3], int64 [lines], int64 [lines + 1]
        To be filled: where label, weight and initial prediction begin and end, the line of each row, from 0, and the
        index of its first feature.
    spaces : int64 [most], int64 [most], int64 [most, 2]
        To be filled: where the namespaces begin and end, and their scales.
    entries : int64 [most], int64 [most], int64 [most, 2], int64 [most]
        To be filled: where the features' names begin and end, their values, and the index of their namespace.

    Returns
    -------
    int, int, int, int, int
        Rows, namespaces and features; 0 or the error; its line.
    """
    begins, ends, lines, offsets = rows
    row, space, feature, line, at, size = 0, 0, 0, 0, 0, len(text)
    while at < size:
        while _is_blank(text[at]):
            at += 1
        if text[at] == _NEWLINE:
            at += 1
            line += 1
            continue
        count, start, stop = 0, at, at  # of the words before the bar
        for word in range(WORDS):
            begins[row, word] = NONE
        while text[at] != _BAR:
            if text[at] == _NEWLINE:
                return row, space, feature, NO_BAR, line
            if _is_blank(text[at]):
                at += 1
                continue
            start = at
            while not _ends_word(text[at]):
                at += 1
            stop = at
            if count < WORDS:
                begins[row, count], ends[row, count] = start, stop
            count += 1
        if count and (stop == at or text[start] == _QUOTE):  # a tag
            count -= 1
            if count < WORDS:
                begins[row, count] = NONE
        if count > WORDS:
            return row, space, feature, TOO_MANY, line
        while text[at] == _BAR:
            at += 1
            spaces[0][space] = at
            while not (_ends_word(text[at]) or text[at] == _COLON):
                at += 1
            spaces[1][space] = at
            at = _part(text, at, spaces[2], space)
            while True:
                while _is_blank(text[at]):
                    at += 1
                if text[at] == _BAR or text[at] == _NEWLINE:
                    break
                entries[0][feature] = at
                while not (_ends_word(text[at]) or text[at] == _COLON):
                    at += 1
                entries[1][feature] = at
                if entries[0][feature] == at:
                    return row, space, feature, NO_NAME, line
                at = _part(text, at, entries[2], feature)
                entries[3][feature] = space
                feature += 1
            space += 1
        lines[row] = line
        row += 1
        offsets[row] = feature
        at += 1
        line += 1
    return row, space, feature, 0, line


@inlined
def _part(text: Bytes, at: int, spans: Integers, index: int) -> int:
    """Set where the number behind a colon begins and ends, and return the index behind it."""
    spans[index, 0] = NONE
    if text[at] == _COLON:
        at += 1
        spans[index, 0] = at
        while not _ends_word(text[at]):
            at += 1
        spans[index, 1] = at
    return at
