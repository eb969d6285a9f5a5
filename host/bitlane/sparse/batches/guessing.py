"""Types of columns that a file writes as text, where Arrow does not see them."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from bitlane.sparse.batches.cell_texts import MISSING
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.schema import COMMA
from bitlane.sparse.batches.times import clock_nanoseconds_of, nanoseconds_of
from bitlane.support.user_warnings import warn_user

_PLAIN = re.compile(r"[+-]?[0-9]+")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")
_WITH_COMMAS = re.compile(r"[+-]?[0-9][0-9.,]*")  # also those with points or commas between thousands


def guessed_columns(rows: pa.Table | pa.RecordBatch, file: str, options: ReadOptions) -> pa.Schema:
    """Return the columns of the first rows of a file, with times and numbers with a decimal comma instead of text.

    Arrow finds other numbers, booleans, and most times. A warning names each column of texts that
    look like numbers with commas, unless a schema or an option says what it is.
    """
    columns = rows.schema
    for index, field in enumerate(columns):
        if not pa.types.is_string(field.type):
            continue
        texts = [text for text in pc.unique(rows.column(index)).to_pylist() if text is not None and text not in MISSING]
        if not texts:
            continue
        if _are_times(texts):
            columns = columns.set(index, field.with_type(pa.timestamp("ns")))
        elif _have_commas(texts):
            if options.decimal == COMMA and all(_is_number(text) for text in texts):
                columns = columns.set(index, field.with_type(pa.float64()))
            elif options.schema is None and field.name not in options.ignore:
                _warn(file, field.name, texts)
    return columns


def _are_times(texts: list[str]) -> bool:
    return _is_time(texts[0]) and all(map(_is_time, texts))


def _is_time(text: str) -> bool:
    return nanoseconds_of(text) is not None or clock_nanoseconds_of(text) is not None


def _have_commas(texts: list[str]) -> bool:
    return _WITH_COMMAS.fullmatch(texts[0].strip()) is not None and (
        any("," in text for text in texts) and all(_WITH_COMMAS.fullmatch(text.strip()) for text in texts)
    )


def _is_number(text: str) -> bool:
    return bool(_PLAIN.fullmatch(text.strip()) or _DECIMAL_COMMA.fullmatch(text.strip()))


def _warn(file: str, name: str, texts: list[str]) -> None:
    shown = next(text for text in texts if "," in text)
    what = "numbers with a decimal comma" if all(map(_is_number, texts)) else "numbers with commas between digits"
    remedy = "--decimal ',' reads them" if what.endswith("comma") else "write them without, to be read as numbers"
    warn_user(f"{file}: column {name!r} has {what}, such as {shown!r}, and is read as text: {remedy}")
