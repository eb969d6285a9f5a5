"""Files to pieces: what one thread reads in order and others turn into batches."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import ipc

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.arrays import batch_of_arrays, rows_of_arrays
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import RowLocation, one_line
from bitlane.sparse.batches.columns import batch_of_columns
from bitlane.sparse.batches.csv_files import csv_columns, csv_rows
from bitlane.sparse.batches.files import DataFile, reading
from bitlane.sparse.batches.json_files import json_columns, json_rows
from bitlane.sparse.batches.lists import batch_of_lists
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.schema import ListSchema, Schema, wanted_columns
from bitlane.sparse.batches.text import count_rows, parse_lines
from bitlane.sparse.batches.vw import count_vw_rows, namespaces_of, parse_vw

TABLES = ("csv", "tsv", "json", "parquet", "arrow")
LINES = ("libsvm", "libffm", "vw")  # formats without columns
COUNTED = ("parquet", "arrow", "npz")  # formats whose metadata may have the number of rows
_TABLE_ROWS = 1 << 15  # rows of a piece of a table
_SHARED_ROWS = 1 << 12  # the same, if several workers share the pieces
_LONGEST_LINE = 64 << 20
_FIRST_BLOCK = 1 << 18  # bytes
_BOM = b"\xef\xbb\xbf"
_DICTIONARY_TYPES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)


@dataclass(frozen=True)
class Piece:
    """Rows that were read and not yet decoded.

    Attributes
    ----------
    decode : callable
        Returns the batch; it holds no lock of the interpreter for long.
    drop : int, default=0
        Rows at its beginning that are skipped.
    rows : int, default=0
        Its rows, with those that are skipped; 0 for text whose rows nobody has counted.
    """

    decode: Callable[[], Batch]
    drop: int = 0
    rows: int = 0

    def __call__(self) -> Batch:
        """Return the batch without what is skipped."""
        batch = self.decode()
        return batch.slice(self.drop, batch.rows) if self.drop else batch


class Skip:
    """Counts the rows that are still to be skipped.

    Parameters
    ----------
    rows : int
    """

    def __init__(self, rows: int):
        self.rows = rows

    def passes(self, rows: int) -> bool:
        """Whether a piece of so many rows is skipped entirely; if so, it is counted."""
        if rows > self.rows:
            return False
        self.rows -= rows
        return True

    def rest(self) -> int:
        """Return the rows to skip of the piece that is not skipped entirely."""
        rest, self.rows = self.rows, 0
        return rest


def pieces_of(
    file: DataFile,
    schema: Schema | ListSchema | None,
    options: ReadOptions,
    skip: Skip,
    cache: dict[str, Batch] | None = None,
) -> Iterator[Piece]:
    """Yield the pieces of a file.

    Parameters
    ----------
    file : DataFile
    schema : Schema or ListSchema, optional
        For tables.
    options : ReadOptions
    skip : Skip
        Rows to skip.
    cache : dict of str to Batch, optional
        Batches of npz files by path: each is in memory at once, and later epochs take it from here.

    Raises
    ------
    DataError
        The file is damaged, or has not the columns of the schema.
    """
    with reading(file.name):
        if skip.rows and (rows := known_rows(file, options.split)) is not None and skip.passes(rows):
            return
        if file.format in LINES:
            yield from _text_pieces(file, options, skip)
        elif file.format == "npz":
            yield from _array_pieces(file, options, skip, {} if cache is None else cache)
        elif schema is not None:
            yield from _table_pieces(file, schema, options, skip)


def known_rows(file: DataFile, split: str = "train") -> int | None:
    """Return the rows of a file without reading them, or None for text. `split` is that of `ReadOptions`."""
    with reading(file.name):
        if file.format == "npz":
            with _open_npz(file) as arrays:
                return rows_of_arrays(arrays, split)
        if file.format == "parquet":
            with file.open_file() as opened:
                return int(pq.read_metadata(opened).num_rows)
        if file.format == "arrow" and _is_ipc_file(file):
            return int(ds.IpcFileFormat().make_fragment(file.path, file.filesystem).count_rows())
    return None


def why_incomplete(file: DataFile) -> str | None:
    """Return why the footer of a Parquet or Arrow file cannot be read, or None if its writer has finished."""
    try:
        with reading(file.name):
            if file.format == "arrow" and not _is_ipc_file(file):
                return f"{file.name}: is no Arrow file of random access"
        known_rows(file)
    except DataError as error:
        return str(error)
    return None


def columns_of(file: DataFile, options: ReadOptions) -> pa.Schema:
    """Return the columns of a table and their types: a pyarrow.Schema. CSV and JSON: as the first block has them."""
    with reading(file.name):
        if file.format == "parquet":
            with file.open_file() as opened:
                return pq.read_schema(opened)
        if file.format == "arrow":
            with file.open_file() as opened:
                return _open_ipc(file, opened).schema
        if file.format == "json":
            with closing(_blocks(file, options.block_bytes)) as blocks:
                return json_columns(file, next(blocks, b""), options)
        return csv_columns(file, options)


# --- text
def _text_pieces(file: DataFile, options: ReadOptions, skip: Skip) -> Iterator[Piece]:
    line, is_numbered = 1, options.test_fraction is not None or options.negatives is not None
    for block in _blocks(file, options.block_bytes):
        lines = block.count(b"\n")
        count = count_vw_rows if file.format == "vw" else count_rows
        rows = count(block) if skip.rows or is_numbered else 0
        if not (skip.rows and skip.passes(rows)):
            yield Piece(_text_decoder(block, file, options, line), skip.rest(), rows)
        line += lines


def _text_decoder(block: bytes, file: DataFile, options: ReadOptions, line: int) -> Callable[[], Batch]:
    location = RowLocation(file.name, line, "line")
    labels: dict[str, Any] = {"task": options.task, "positive": options.positive}
    if file.format == "vw":
        spaces = options.namespaces or ()
        told = options.max_fields is not None
        return lambda: parse_vw(block, spaces, labelled=options.labelled, uses_fields=told, location=location, **labels)
    return lambda: parse_lines(block, file.format, max_fields=options.max_fields, location=location, **labels)


def first_namespaces(file: DataFile, options: ReadOptions) -> tuple[str, ...]:
    """Return the namespaces in the first block of a file of Vowpal Wabbit's text."""
    with reading(file.name), closing(_blocks(file, options.block_bytes)) as blocks:
        return namespaces_of(next(blocks, b""), RowLocation(file.name, 1, "line"))


def _blocks(file: DataFile, size: int) -> Generator[bytes, None, None]:
    """Yield complete lines of about `size` bytes; the first blocks are smaller, so that training begins early."""
    rest: list[bytes] = []
    held, first = 0, True
    now = min(size, _FIRST_BLOCK)
    with file.open_stream() as stream:
        while read := stream.read(now):
            now = min(size, 2 * now)
            if first:
                read, first = read.removeprefix(_BOM), False
            cut = read.rfind(b"\n") + 1
            if cut == 0:
                rest.append(read)
                held += len(read)
                if held > _LONGEST_LINE:
                    raise DataError(f"{file.name}: has a line of more than {_LONGEST_LINE >> 20} MiB; is it text?")
                continue
            yield b"".join([*rest, read[:cut]])
            rest, held = [read[cut:]], len(read) - cut
    if held:
        yield b"".join(rest)


# --- npz
def _array_pieces(file: DataFile, options: ReadOptions, skip: Skip, cache: dict[str, Batch]) -> Iterator[Piece]:
    if file.path not in cache:
        with _open_npz(file) as arrays:
            cache[file.path] = batch_of_arrays(
                arrays,
                split=options.split,
                task=options.task,
                positive=options.positive,
                weight=options.weight if options.labelled else None,
                max_fields=options.max_fields,
                location=RowLocation(file.name),
            )
    batch = cache[file.path]
    size = _piece_rows(options)
    for first in range(skip.rest(), batch.rows, size):
        yield _decoded(batch.slice(first, first + size))


def _piece_rows(options: ReadOptions) -> int:
    return _TABLE_ROWS if options.share[1] == 1 else _SHARED_ROWS


def _decoded(batch: Batch) -> Piece:
    return Piece(lambda: batch, 0, batch.rows)


@contextmanager
def _open_npz(file: DataFile) -> Iterator[Any]:
    with file.open_file() as opened:
        try:
            with np.load(opened, allow_pickle=False) as arrays:
                yield arrays
        except BitlaneError:
            raise
        except (ValueError, KeyError) as error:
            raise DataError(f"{file.name}: cannot be read; it may be damaged: {one_line(error)}") from error


# --- tables
def _table_pieces(file: DataFile, schema: Schema | ListSchema, options: ReadOptions, skip: Skip) -> Iterator[Piece]:
    size = _piece_rows(options)
    for first, rows in _table_rows(file, schema, options, skip):
        for start in range(0, rows.num_rows, size):
            chunk = rows.slice(start, size)
            if not (skip.rows and skip.passes(chunk.num_rows)):
                decode = _table_decoder(chunk, schema, options, RowLocation(file.name, first + start))
                yield Piece(decode, skip.rest(), chunk.num_rows)


def _table_rows(
    file: DataFile, schema: Schema | ListSchema, options: ReadOptions, skip: Skip
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the number of the first row, and rows with the columns of the schema."""
    readers = {"parquet": _parquet_rows, "arrow": _arrow_rows, "json": _json_rows}
    return readers.get(file.format, _csv_rows)(file, schema, options, skip)


def first_rows(file: DataFile, schema: Schema, options: ReadOptions) -> pa.RecordBatch | None:
    """Return the first rows of a table, as many as its reader takes at a time: up to 32,768, or 1 MiB of text."""
    with reading(file.name):
        return next((rows for _, rows in _table_rows(file, schema, options, Skip(0))), None)


def _table_decoder(
    rows: pa.RecordBatch, schema: Schema | ListSchema, options: ReadOptions, location: RowLocation
) -> Callable[[], Batch]:
    return lambda: batch_of_rows(rows, schema, options, location)


def batch_of_rows(
    rows: pa.RecordBatch, schema: Schema | ListSchema, options: ReadOptions, location: RowLocation
) -> Batch:
    """Return a record batch as a batch, whichever its schema."""
    labels: dict[str, Any] = {"task": options.task, "positive": options.positive, "labelled": options.labelled}
    if isinstance(schema, ListSchema):
        return batch_of_lists(rows, schema, max_fields=options.max_fields, location=location, **labels)
    return batch_of_columns(rows, schema, location=location, **labels)


def _parquet_rows(
    file: DataFile, schema: Schema | ListSchema, options: ReadOptions, skip: Skip
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the number of the first row, and rows."""
    with file.open_file() as opened:
        metadata = pq.read_metadata(opened)
        columns = metadata.schema.to_arrow_schema()
        wanted = wanted_columns(schema, columns.names, file.name, options.labelled)
        texts = [name for name in wanted if any(test(columns.field(name).type) for test in _DICTIONARY_TYPES)]
        parquet = pq.ParquetFile(opened, metadata=metadata, read_dictionary=texts)
        first = 1
        for group in range(metadata.num_row_groups):
            count = metadata.row_group(group).num_rows
            if not (skip.rows and skip.passes(count)):
                start = first
                for rows in parquet.iter_batches(_TABLE_ROWS, row_groups=[group], columns=wanted):
                    yield start, rows
                    start += rows.num_rows
            first += count


def _arrow_rows(
    file: DataFile, schema: Schema | ListSchema, options: ReadOptions, skip: Skip
) -> Iterator[tuple[int, pa.RecordBatch]]:
    with file.open_file() as opened:
        names = _open_ipc(file, opened).schema.names
        wanted = wanted_columns(schema, names, file.name, options.labelled)
        opened.seek(0)
        reader = _open_ipc(file, opened, sorted(names.index(name) for name in wanted))
        first = 1
        batches = reader if isinstance(reader, ipc.RecordBatchStreamReader) else _file_batches(reader)
        for rows in batches:
            rows.validate(full=True)  # an Arrow file has no checksums, and wrong offsets would lead out of the memory
            yield first, rows
            first += rows.num_rows


def _file_batches(reader: ipc.RecordBatchFileReader) -> Iterator[pa.RecordBatch]:
    for index in range(reader.num_record_batches):
        yield reader.get_batch(index)


def _is_ipc_file(file: DataFile) -> bool:
    """Whether an Arrow file is one of random access; the other kind is a stream."""
    with file.open_file() as opened:
        return bool(opened.read(6) == b"ARROW1")


def _open_ipc(file: DataFile, opened: pa.NativeFile, fields: list[int] | None = None) -> Any:
    options = ipc.IpcReadOptions(included_fields=fields)
    return (ipc.open_file if _is_ipc_file(file) else ipc.open_stream)(opened, options=options)


def _csv_rows(
    file: DataFile, schema: Schema | ListSchema, options: ReadOptions, _: Skip
) -> Iterator[tuple[int, pa.RecordBatch]]:
    return csv_rows(file, _of_columns(file, schema), options)


def _json_rows(
    file: DataFile, schema: Schema | ListSchema, options: ReadOptions, _: Skip
) -> Iterator[tuple[int, pa.RecordBatch]]:
    return json_rows(file, _blocks(file, options.block_bytes), _of_columns(file, schema), options)


def _of_columns(file: DataFile, schema: Schema | ListSchema) -> Schema:
    if isinstance(schema, ListSchema):
        what = "JSON lines have" if file.format == "json" else "CSV has"
        raise DataError(f"{file.name}: {what} no lists; describe its columns with a Schema")
    return schema
