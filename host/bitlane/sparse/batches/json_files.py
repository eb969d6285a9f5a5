"""Files with a JSON object in each line, as record batches of arrow."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import json as builtin_json
import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyarrow import json

from bitlane.errors import DataError
from bitlane.sparse.batches.arrow_cells import is_list
from bitlane.sparse.batches.checks import one_line
from bitlane.sparse.batches.decoding import REMEDY
from bitlane.sparse.batches.files import DataFile
from bitlane.sparse.batches.guessing import guessed_columns
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.schema import Schema, wanted_columns
from bitlane.support import csv_text

_CHANGED = re.compile(r"Column\(/(?P<name>.*?)\) (?:was specified to be|changed from) (?P<before>\w+)(?: to|, got)")


def json_columns(file: DataFile, block: bytes, options: ReadOptions) -> pa.Schema:
    """Return the columns of a file and their types, as its first block has them. Those ignored may be of any kind."""
    return guessed_columns(_first(file, block, 1, lambda name: name not in options.ignore), file.name, options)


def json_rows(
    file: DataFile, blocks: Iterable[bytes], schema: Schema, options: ReadOptions
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the number of the first row, and rows with the columns of the schema.

    Numeric columns, label and weight are float64. A categorical column has the type that it has in the first block:
    text, integers, or truth values. A name that an object lacks is a null.
    """
    types: pa.Schema | None = None
    first = 1
    read = {*schema.columns, schema.label, schema.time, schema.weight}
    for block in blocks:
        if types is None:
            types = _types(file, _first(file, block, first, read.__contains__).schema, schema, options)
        table = _parse(file, block, types, first)
        for rows in table.to_batches():
            yield first, rows
            first += rows.num_rows


def _first(file: DataFile, block: bytes, first: int, is_read: Callable[[str], bool]) -> pa.Table:
    """Return the rows of the first block; columns that are not read do not matter, even of several types."""
    try:
        return _parse(file, block, None, first)
    except DataError:
        lines = _without(block, is_read)
        if lines is None:
            raise
    return _parse(file, lines, None, first)


def _without(block: bytes, is_read: Callable[[str], bool]) -> bytes | None:
    """Return the lines with null in the columns that are not read; None if they are no objects of JSON."""
    try:
        rows = [builtin_json.loads(line) for line in block.splitlines() if line.strip()]
        slim = [{name: cell if is_read(name) else None for name, cell in row.items()} for row in rows]
    except (ValueError, AttributeError):
        return None
    return "".join(builtin_json.dumps(row) + "\n" for row in slim).encode()


def _types(file: DataFile, found: pa.Schema, schema: Schema, options: ReadOptions) -> pa.Schema:
    wanted = wanted_columns(schema, found.names, file.name, options.labelled)
    fields = []
    for name in wanted:
        kind = found.field(name).type
        if name in schema.read_as_numbers or name in (schema.label, schema.weight):
            kind = pa.float64() if not pa.types.is_string(kind) and not pa.types.is_boolean(kind) else kind
        elif name in dict(schema.several):
            kind = _kind_of_several(kind)
        elif pa.types.is_null(kind) or pa.types.is_temporal(kind):
            kind = pa.string()  # a time is written as text: the schema says how it is read
        fields.append((name, kind))
    return pa.schema(fields)


def _kind_of_several(kind: pa.DataType) -> pa.DataType:
    """The type of cells with several values: without an entry, or with times, of texts."""
    entry = kind.value_type if is_list(kind) else kind
    if pa.types.is_null(kind) or pa.types.is_null(entry):
        return pa.list_(pa.string())
    if not pa.types.is_temporal(entry):
        return kind
    return pa.list_(pa.string()) if is_list(kind) else pa.string()


def _parse(file: DataFile, block: bytes, types: pa.Schema | None, first: int) -> pa.Table:
    """Return the rows of complete lines; raise DataError if they are no JSON, or columns have other types."""
    csv_text.check_utf8(block, file.name, REMEDY)
    behaviour = "infer" if types is None else "ignore"
    try:
        return json.read_json(
            pa.BufferReader(block),
            json.ReadOptions(use_threads=False, block_size=max(1, len(block))),
            json.ParseOptions(explicit_schema=types, unexpected_field_behavior=behaviour),
        )
    except pa.ArrowInvalid as error:
        reason = one_line(error)
        if found := _CHANGED.search(reason):
            raise DataError(
                f"{file.name}: {found['name']!r} is a {found['before']} in one row and something else in another, "
                f"at row {first} or later: write the same type in all rows, or leave it out, --ignore {found['name']}"
            ) from error
        raise DataError(f"{file.name}, row {first} or later: not a JSON object in each line: {reason}") from error
