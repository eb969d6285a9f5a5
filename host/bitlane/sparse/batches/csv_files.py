"""CSV files as record batches of arrow, whose cells are text."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import csv

from bitlane.errors import DataError
from bitlane.sparse.batches.cell_texts import MISSING
from bitlane.sparse.batches.checks import one_line
from bitlane.sparse.batches.decoding import REMEDY
from bitlane.sparse.batches.files import DataFile
from bitlane.sparse.batches.guessing import guessed_columns
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.schema import Schema, wanted_columns
from bitlane.support import csv_text

_ROW = re.compile(r"Row #(\d+): ")
_NOT_UTF8 = re.compile(r"invalid UTF-?8", re.IGNORECASE)


@dataclass(frozen=True)
class CsvLayout:
    """How a CSV file is laid out.

    Attributes
    ----------
    separator : str
    names : list of str, optional
        The columns; None: those that the first row names.
    header_rows : int
        Rows that are no data: 1 or 0.
    """

    separator: str
    names: list[str] | None
    header_rows: int


def csv_columns(file: DataFile, options: ReadOptions) -> pa.Schema:
    """Return the columns and their types, as the first block of the file has them. Its head is checked."""
    layout = _layout(file, options, options.ignore if options.schema is None else None)
    with file.open_stream() as stream, _errors(file, layout):
        reader = _open(stream, layout, options, None)
        first = next(iter(reader), None)
        return reader.schema if first is None else guessed_columns(first, file.name, options)


def csv_rows(file: DataFile, schema: Schema, options: ReadOptions) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the number of the first row, and rows with the columns of the schema as text."""
    layout = _layout(file, options, None)
    with file.open_stream() as stream, _errors(file, layout):
        names = layout.names or _open(stream, layout, options, None).schema.names
    wanted = wanted_columns(schema, names, file.name, options.labelled)
    with file.open_stream() as stream, _errors(file, layout):
        first = 1
        for rows in _open(stream, layout, options, wanted):
            yield first, rows
            first += rows.num_rows


def _layout(file: DataFile, options: ReadOptions, ignored: Collection[str] | None) -> CsvLayout:
    """Return the layout, and check the head of the file; None: a column may lack a name, since a schema chooses."""
    between = csv_text.separator(options.separator or ("\t" if file.format == "tsv" else ","))
    with file.open_stream() as stream:
        head = stream.read(csv_text.HEAD_BYTES)
    header = options.header and options.column_names is None
    named = header and ignored is not None
    csv_text.check_head(head, file.name, between, header=named, ignored=ignored or (), remedy=REMEDY)
    cells = csv_text.first_row(head, between)
    if options.column_names is not None:
        if cells == [*options.column_names]:
            raise DataError(f"{file.name}: its first row has the names of the columns: omit --names")
        return CsvLayout(between, list(options.column_names), 0)
    if not header:
        return CsvLayout(between, [*csv_text.numbered_names(len(cells))], 0)
    names = csv_text.named_header(cells)
    return CsvLayout(between, None if names == cells else names, 1)


def _open(
    stream: pa.NativeFile, layout: CsvLayout, options: ReadOptions, wanted: list[str] | None
) -> csv.CSVStreamingReader:
    """Open CSV: with `wanted` columns as text, or to see the types of all."""
    nulls = sorted({*csv.ConvertOptions().null_values, *MISSING})
    convert = csv.ConvertOptions(null_values=nulls, decimal_point=options.decimal)
    if wanted is not None:
        convert = csv.ConvertOptions(
            column_types={name: pa.string() for name in wanted}, include_columns=wanted, strings_can_be_null=False
        )
    read = csv.ReadOptions(
        use_threads=False,
        block_size=min(options.block_bytes, 1 << 20),
        column_names=layout.names,
        skip_rows=0 if layout.names is None else layout.header_rows,
    )
    return csv.open_csv(stream, read, csv.ParseOptions(delimiter=layout.separator), convert)


@contextmanager
def _errors(file: DataFile, layout: CsvLayout) -> Iterator[None]:
    """Turn an error of the CSV parser into one with the file's name and the row, which it counts with the header."""
    try:
        yield
    except pa.ArrowInvalid as error:
        reason = one_line(error)
        if _NOT_UTF8.search(reason):
            raise csv_text.not_utf8(file.name, remedy=REMEDY) from error
        if match := _ROW.search(reason):
            row = int(match[1]) - layout.header_rows
            reason = reason[match.end() :]
            raise DataError(f"{file.name}, row {row}: {reason[0].lower()}{reason[1:]}") from error
        raise DataError(f"{file.name}: {reason}") from error
