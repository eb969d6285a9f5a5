"""Numbers and features in bytes of text: loops of numba that hold no lock of the interpreter.

A text must end with a byte that belongs to no number, such as a newline: no loop looks for the end of the array. numba
keeps a compiled loop until its own file changes, so loops that call each other are in one file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.support.instructions import lowest_set_bit
from bitlane.support.jit import Loop, machine_code

Bytes = NDArray[np.uint8]

OK, NO_NUMBER, TOO_LARGE = 0, 1, 2
# Errors of a line.
BAD_LABEL, NO_CLASS, LABEL_RANGE, BAD_FIELD, FIELD_RANGE, BAD_KEY, KEY_RANGE, BAD_VALUE, VALUE_RANGE = range(1, 10)
NEWLINE = 10
_ZERO, _NINE, _PLUS, _MINUS, _POINT, _COLON, _COMMENT = 48, 57, 43, 45, 46, 58, 35
_OVERFLOW = 2.0**128 - 2.0**103  # the smallest number that float32 rounds to infinity
_POWERS = np.array([float(f"1e{n}") for n in range(309)])  # exact to 10^22, to half a unit in the last place beyond
_TEN = np.uint64(10)
_EXACT = 19  # decimal digits that 64 bits hold
_LARGEST_TENTH = np.uint64(2**64 // 10)  # 1844674407370955161, followed by a digit up to 5
_LARGEST_EXPONENT = 9999
# Eight bytes in a word, of which some are digits; the first byte is the lowest.
_ZEROS, _SIX_MORE = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)
_EIGHT, _THREE, _SIXTEEN, _HALF, _WORD = (np.uint64(number) for number in (8, 3, 16, 32, 64))
_TWOS, _FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_JOIN_ONES = np.uint64(10 * 2**8 + 1)
_JOIN_TWOS = np.uint64(100 * 2**16 + 1)
_JOIN_FOURS = np.uint64(10_000 * 2**32 + 1)


def inlined(function: Loop) -> Any:
    """Return a loop that numba compiles into its callers."""
    return machine_code(function, nogil=True, error_model="numpy", forceinline=True)


def kernel(function: Loop) -> Any:
    """Return a loop that numba compiles, and that runs without the interpreter's lock."""
    return machine_code(function, nogil=True, error_model="numpy")


@inlined
def digit_at(text: Bytes, at: int) -> Any:
    """Return the digit at `at`; 10 or more if the byte is not a digit."""
    return np.uint8(text[at] - _ZERO)


@inlined
def scan_short(text: Bytes, at: int) -> Any:
    """Return the digits from `at` on as an integer and their number; 8 if there are eight or more.

    There are eight bytes from `at` on. They are looked at together: a loop over digits would guess its end wrong.
    """
    word = np.uint64(0)
    for byte in range(8):
        word |= np.uint64(text[at + byte]) << np.uint64(8 * byte)
    word ^= _ZEROS
    others = (word + _SIX_MORE | word) & _HIGH_BITS  # the lowest bit is right: no carry comes from digits
    if others == np.uint64(0):
        return word, 8
    count = lowest_set_bit(others) >> _THREE
    if count == np.uint64(0):
        return count, 0
    word <<= _WORD - _EIGHT * count  # zeros before the digits
    word = (word * _JOIN_ONES >> _EIGHT) & _TWOS
    word = (word * _JOIN_TWOS >> _SIXTEEN) & _FOURS
    return word * _JOIN_FOURS >> _HALF, np.int64(count)


@inlined
def scan_integer(text: Bytes, at: int) -> Any:
    """Return the digits from `at` on as an integer, the index behind them, and OK, NO_NUMBER or TOO_LARGE."""
    if at + 8 <= len(text):
        number, count = scan_short(text, at)
        if count < 8:
            return number, at + count, NO_NUMBER if count == 0 else OK
    begin = at
    number = np.uint64(0)
    digit = digit_at(text, at)
    while digit < 10:
        number = number * _TEN + np.uint64(digit)
        at += 1
        digit = digit_at(text, at)
    if at - begin > _EXACT:
        return long_integer(text, begin)
    return number, at, NO_NUMBER if at == begin else OK


@kernel
def long_integer(text: Bytes, at: int) -> tuple[Any, int, int]:
    """Do as `scan_integer` does, with more than 19 digits."""
    number = np.uint64(0)
    while digit_at(text, at) < 10:
        digit = np.uint64(digit_at(text, at))
        if number > _LARGEST_TENTH or (number == _LARGEST_TENTH and digit > np.uint64(5)):
            return number, at, TOO_LARGE
        number = number * _TEN + digit
        at += 1
    return number, at, OK


@inlined
def scan_exponent(text: Bytes, at: int) -> tuple[int, int]:
    """Return the exponent behind an "e" at `at` and the index behind it; without digits, 0 and `at`."""
    begin = at
    at += 1
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    first = at
    exponent = 0
    while _ZERO <= text[at] <= _NINE:
        if exponent < _LARGEST_EXPONENT:
            exponent = exponent * 10 + (text[at] - _ZERO)
        at += 1
    if at == first:
        return 0, begin
    return -exponent if negative else exponent, at


@inlined
def scan_number(text: Bytes, at: int) -> tuple[float, int, int]:
    """Return the decimal number at `at`, the index behind it, and OK or NO_NUMBER.

    Up to 15 digits with an exponent from -22 to 22 it is the float64 nearest to the text, as Python's `float` has it;
    beyond, it is off by at most two units in the last place of float64, which a float32 hardly ever shows.
    """
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    begin = at
    mantissa = np.uint64(0)
    digit = digit_at(text, at)
    while digit < 10:
        mantissa = mantissa * _TEN + np.uint64(digit)
        at += 1
        digit = digit_at(text, at)
    digits, exponent = at - begin, 0
    if text[at] == _POINT:
        point = at
        at += 1
        digit = digit_at(text, at)
        while digit < 10:
            mantissa = mantissa * _TEN + np.uint64(digit)
            at += 1
            digit = digit_at(text, at)
        exponent = point + 1 - at
        digits -= exponent
    if digits == 0:
        return 0.0, at, NO_NUMBER
    if digits > _EXACT:
        mantissa, exponent = long_mantissa(text, begin, at)
    if text[at] == 101 or text[at] == 69:  # e, E
        shift, at = scan_exponent(text, at)
        exponent += shift
    number = scale(float(mantissa), exponent)
    return -number if negative else number, at, OK


@kernel
def long_mantissa(text: Bytes, at: int, stop: int) -> tuple[Any, int]:
    """Return the first 19 digits, leading zeros apart, and the exponent that moves the point back."""
    mantissa, digits, exponent, behind = np.uint64(0), 0, 0, False
    while at < stop:
        digit = digit_at(text, at)
        at += 1
        if digit >= 10:
            behind = True
            continue
        if digits < _EXACT:
            mantissa = mantissa * _TEN + np.uint64(digit)
            digits += mantissa != np.uint64(0)
            exponent -= behind
        else:
            exponent += not behind
    return mantissa, exponent


@inlined
def scale(mantissa: float, exponent: int) -> Any:
    """Return mantissa * 10^exponent; infinity beyond float64."""
    if exponent == 0 or mantissa == 0.0:
        return mantissa
    if exponent > 0:
        return mantissa * _POWERS[exponent] if exponent <= 308 else np.inf
    if exponent >= -308:
        return mantissa / _POWERS[-exponent]
    return mantissa / _POWERS[308] / _POWERS[min(-exponent - 308, 308)]


@inlined
def is_blank(byte: int) -> bool:
    """Whether a byte is a space, a tab or a carriage return."""
    return byte == 32 or byte == 9 or byte == 13


@kernel  # within the loop over cells it would slow numbers down
def is_among(text: Bytes, size: int, words: Bytes) -> Any:
    """Whether the first `size` bytes are one of `words`, as of `numbers_of_cells`. A newline follows them."""
    at, same = 0, True
    for byte in range(len(words)):
        if words[byte] != NEWLINE:
            same &= at < size and text[at] == words[byte]
            at += 1
        elif same and at == size:
            return True
        else:
            at, same = 0, True
    return False


@kernel
def numbers_of_cells(text: Bytes, offsets: NDArray[np.int64], missing: Bytes, values: NDArray[np.float64]) -> int:
    """Read each cell as a number; return the index of the first cell that is not a number, or -1.

    Parameters
    ----------
    text : uint8 [bytes]
        The cells' bytes one after the other.
    offsets : int64 [cells + 1]
        Cell i is ``text[offsets[i]:offsets[i + 1]]``; blanks around the number do not count. An empty cell is nan.
    missing : uint8 [bytes]
        Texts that are nan too, each with a newline behind it.
    values : float64 [cells]
        The numbers.
    """
    longest = 0
    for cell in range(len(values)):
        longest = max(longest, offsets[cell + 1] - offsets[cell])
    padded = np.empty(longest + 1, np.uint8)
    for cell in range(len(values)):
        start, stop = offsets[cell], offsets[cell + 1]
        while start < stop and is_blank(text[start]):
            start += 1
        while start < stop and is_blank(text[stop - 1]):
            stop -= 1
        for byte in range(stop - start):
            padded[byte] = text[start + byte]
        padded[stop - start] = NEWLINE
        if start == stop:
            values[cell] = np.nan
            continue
        number, at, code = scan_number(padded, 0)
        if code == OK and at == stop - start:
            values[cell] = number
        elif is_among(padded, stop - start, missing):
            values[cell] = np.nan
        else:
            return cell
    return -1


@kernel
def plain_integers(text: Bytes, offsets: NDArray[np.int64], plain: NDArray[np.bool_]) -> None:
    """Set whether a cell, as of `numbers_of_cells`, is nothing, or an integer as it is printed: bool [cells]."""
    for cell in range(len(plain)):
        start, stop = offsets[cell], offsets[cell + 1]
        at = start + int(stop > start and text[start] == _MINUS)
        leading_zero = at < stop and text[at] == _ZERO and (stop - at > 1 or at > start)
        digits = stop > at or start == stop
        for byte in range(at, stop):
            digits &= _ZERO <= text[byte] <= _NINE
        plain[cell] = digits and not leading_zero


@inlined
def _ends(byte: int) -> bool:
    return is_blank(byte) or byte in (NEWLINE, _COMMENT)


@kernel
def count_lines(text: Bytes) -> int:
    """Return how many lines are not blank, and not only a comment. The text ends with a newline."""
    rows, at, size = 0, 0, len(text)
    while at < size:
        while is_blank(text[at]):
            at += 1
        if text[at] != NEWLINE and text[at] != _COMMENT:
            rows += 1
        while text[at] != NEWLINE:
            at += 1
        at += 1
    return rows


@kernel
def parse_features(
    text: Bytes,
    columns: tuple[NDArray[np.uint64], NDArray[np.uint16], NDArray[np.float32]],
    rows: tuple[NDArray[np.int64], NDArray[np.float32]],
    line_format: tuple[bool, bool, int],
) -> tuple[int, int, int, int]:
    """Read lines of libsvm and libffm: see `text.parse_lines`.

    Parameters
    ----------
    text : uint8 [bytes]
        Ends with a newline.
    columns : uint64 [most], uint16 [most], float32 [most]
        Keys, fields and values, to be filled.
    rows : int64 [lines + 1], float32 [lines]
        Offsets and labels, to be filled; the first offset is 0.
    line_format : bool, bool, int
        Whether there are fields, whether labels are classes, and the field that no field reaches.

    Returns
    -------
    int, int, int, int
        Rows; OK or the first error; its line and index.
    """
    keys, fields, values = columns
    offsets, labels = rows
    has_fields, classes, fields_end = line_format
    row, nnz, line, at, size = 0, 0, 0, 0, len(text)
    while at < size:
        while is_blank(text[at]):
            at += 1
        begin = at
        if text[at] != NEWLINE and text[at] != _COMMENT:
            label, at, code = scan_number(text, at)
            if code != OK or not _ends(text[at]):
                return row, BAD_LABEL, line, begin
            if classes and label != 0.0 and label != 1.0 and label != -1.0:
                return row, NO_CLASS, line, begin
            if abs(label) >= _OVERFLOW:
                return row, LABEL_RANGE, line, begin
            labels[row] = 0.0 if classes and label < 0.0 else label
            while True:
                while is_blank(text[at]):
                    at += 1
                if text[at] == NEWLINE or text[at] == _COMMENT:
                    break
                begin = at
                if has_fields:
                    number, at, code = scan_integer(text, at)
                    if code == TOO_LARGE or (code == OK and number >= np.uint64(fields_end)):
                        return row, FIELD_RANGE, line, begin
                    if code != OK or text[at] != _COLON:
                        return row, BAD_FIELD, line, begin
                    fields[nnz] = number
                    at += 1
                number, at, code = scan_integer(text, at)
                if code == TOO_LARGE:
                    return row, KEY_RANGE, line, begin
                if code != OK or text[at] != _COLON:
                    return row, BAD_KEY, line, begin
                keys[nnz] = number
                at += 1
                digit = digit_at(text, at)
                if digit < 10 and _ends(text[at + 1]):  # the most frequent values: faster than `scan_number`
                    values[nnz] = digit
                    nnz += 1
                    at += 1
                    continue
                value, at, code = scan_number(text, at)
                if code != OK or not _ends(text[at]):
                    return row, BAD_VALUE, line, begin
                if abs(value) >= _OVERFLOW:
                    return row, VALUE_RANGE, line, begin
                values[nnz] = value
                nnz += 1
            row += 1
            offsets[row] = nnz
        while text[at] != NEWLINE:
            at += 1
        at += 1
        line += 1
    return row, OK, line, at
