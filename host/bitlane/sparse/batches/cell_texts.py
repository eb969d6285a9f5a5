"""The one text of a categorical value, whatever type or file holds it: what `hashing` makes keys of.

| value | text |
| --- | --- |
| text, bytes | as it is: no normalisation of Unicode |
| boolean | ``true``, ``false`` |
| integral number | its digits: ``7``, also for ``7.0``, ``7e0`` and a decimal ``7.00`` |
| other number | the shortest decimal of its own type: ``0.1``, also for ``0.10`` |
| date, time stamp | ``2026-11-27`` at midnight, else ``2026-11-27T08:00:00.25``, in UTC; without a zone it is in UTC |
| time of day | ``08:00:00.25`` |
| missing | nothing |

CSV, JSON and requests have texts where Parquet, Arrow and tables have types. So a schema says the type of each column,
and a text is read as a value of it, or stays as it is if it cannot be. In columns of numbers, integers with leading
zeros stay as they are: they are codes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

import numpy as np

from bitlane.sparse.batches.times import NANOSECONDS, clock_nanoseconds_of, clock_text, nanoseconds_of, time_text

TYPES = ("text", "number", "boolean", "time")
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_SWAPPED = str.maketrans(".,", ",.")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_EXACT = 2**53  # from here on, texts with a point or an exponent come from doubles
MISSING = frozenset(  # of numbers, booleans, times and labels; of text only nothing
    ["", "NA", "N/A", "<NA>", "null", "NULL", "None", "nan", "NaN", "NaT"]
)
_TRUTH = {
    **dict.fromkeys(["true", "t", "yes", "y", "1", "1.0"], "true"),
    **dict.fromkeys(["false", "f", "no", "n", "0", "0.0"], "false"),
}


def text_of_text(text: str, kind: str, decimal: str = ".") -> str | None:
    """Return the text of a value that is written as `text` in a column of this type; None for a missing one.

    Parameters
    ----------
    text : str
    kind : {"text", "number", "boolean", "time"}
        In columns of text only the empty text is missing; in others also NA, N/A, <NA>, null, NULL, None, nan, NaN
        and NaT.
    decimal : {".", ","}, default="."
        Of numbers.
    """
    if kind == "text":
        return text or None
    stripped = text.strip()
    if stripped in MISSING:
        return None
    if kind == "number" and decimal == ",":
        stripped = stripped.translate(_SWAPPED)
    return _READERS[kind](stripped, text)


def text_of_boolean(truth: bool, kind: str) -> str:
    """Return the text of a boolean: ``true`` or ``false``, in a column of numbers 1 or 0."""
    return str(int(truth)) if kind == "number" else str(bool(truth)).lower()


def text_of_number(number: float, kind: str) -> str | None:
    """Return the text of a float32 or float64; None if it is not a number.

    In a column of booleans 0 and 1 are ``false`` and ``true``.
    """
    if math.isnan(number):
        return None
    text = _digits(number)
    return _TRUTH.get(text, text) if kind == "boolean" else text


def text_of_integer(number: int, kind: str) -> str:
    """Return the text of an integer, which is a boolean in a column of such."""
    text = str(number)
    return _TRUTH.get(text, text) if kind == "boolean" else text


def _digits(number: float) -> str:
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    if number == int(number):
        return str(int(number))
    return np.format_float_positional(number, unique=True, trim="-")


def _number_of(stripped: str, text: str) -> str:
    if _INTEGER.fullmatch(stripped):
        sign, digits = stripped[0] == "-", stripped.lstrip("+-")
        if len(digits) > 1 and digits[0] == "0":
            return text
        return f"-{digits}" if sign and digits != "0" else digits
    if not _NUMBER.fullmatch(stripped):
        return text
    number = Decimal(stripped)
    if abs(number) >= _EXACT:
        as_double = float(stripped)
        return text if math.isinf(as_double) else str(int(as_double))
    if number == number.to_integral_value():
        return str(int(number))
    return format(number, "f").rstrip("0")


def _truth_of(stripped: str, text: str) -> str:
    return _TRUTH.get(stripped.lower(), text)


def _time_of(stripped: str, text: str) -> str:
    count = nanoseconds_of(stripped)
    if count is not None:
        return time_text(count, NANOSECONDS)
    count = clock_nanoseconds_of(stripped)
    return text if count is None else clock_text(count, NANOSECONDS)


_READERS: dict[str, Callable[[str, str], str]] = {"number": _number_of, "boolean": _truth_of, "time": _time_of}
