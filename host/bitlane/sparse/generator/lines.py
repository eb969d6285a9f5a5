"""The compiled loop that writes numbers as lines of text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.support.jit import machine_code

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

LONGEST = 20  # digits of a number of 64 bits
NOTHING, TEN, HUNDRED, ZERO, NEWLINE = (
    np.uint64(0),
    np.uint64(10),
    np.uint64(100),
    np.uint64(ord("0")),
    np.uint8(ord("\n")),
)


def _write_number(number: np.uint64, out: Bytes, at: int) -> Any:
    """Write a number in digits; return the index behind it. Up to LONGEST bytes from `at` on may change."""
    first = at + LONGEST
    while number >= TEN:
        rest = number // HUNDRED  # two digits a division
        pair = number - rest * HUNDRED
        tens = pair // TEN
        out[first - 1] = np.uint8(ZERO + pair - tens * TEN)
        out[first - 2] = np.uint8(ZERO + tens)
        first -= 2
        number = rest
    if number > NOTHING or first == at + LONGEST:
        first -= 1
        out[first] = np.uint8(ZERO + number)
    for source in range(first, at + LONGEST):
        out[at] = out[source]
        at += 1
    return at


write_number = machine_code(_write_number, nogil=True, forceinline=True)


def _write_lines(
    labels: Words, columns: Words, prefixes: Bytes, starts: NDArray[np.int64], suffix: Bytes, out: Bytes
) -> int:
    """Write one line for each row; return its length in `out`.

    Parameters
    ----------
    labels : uint64 [rows]
    columns : uint64 [rows, columns]
    prefixes : uint8 [any]
        The text before each column, one behind the other.
    starts : int64 [columns + 1]
        Where each column's text begins.
    suffix : uint8 [any]
        The text after each column.
    out : uint8 [any]
        Long enough for every number to take LONGEST bytes.
    """
    at = 0
    for row in range(len(labels)):
        at = write_number(labels[row], out, at)
        for column in range(columns.shape[1]):
            for i in range(starts[column], starts[column + 1]):
                out[at] = prefixes[i]
                at += 1
            at = write_number(columns[row, column], out, at)
            for i in range(len(suffix)):
                out[at] = suffix[i]
                at += 1
        out[at] = NEWLINE
        at += 1
    return at


write_lines = machine_code(_write_lines, nogil=True)
