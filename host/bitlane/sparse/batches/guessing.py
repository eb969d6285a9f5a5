"""Types of columns that a file writes as text, where Arrow does not see them."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from bitlane.sparse.batches.cell_texts import MISSING
from bitlane.sparse.batches.times import clock_nanoseconds_of, nanoseconds_of


def guessed_columns(rows: pa.Table | pa.RecordBatch) -> pa.Schema:
    """Return the columns of the first rows of a file, with times instead of text where all texts of a column are such.

    Arrow finds numbers, booleans, and most times.
    """
    columns = rows.schema
    for index, field in enumerate(columns):
        if pa.types.is_string(field.type) and _all_times(rows.column(index)):
            columns = columns.set(index, field.with_type(pa.timestamp("ns")))
    return columns


def _all_times(column: pa.Array) -> bool:
    texts = (text for text in pc.unique(column).to_pylist() if text is not None and text not in MISSING)
    first = next(texts, None)
    return first is not None and _is_time(first) and all(map(_is_time, texts))


def _is_time(text: str) -> bool:
    return nanoseconds_of(text) is not None or clock_nanoseconds_of(text) is not None
