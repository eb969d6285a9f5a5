"""Tables in files larger than memory, as pieces of rows: npy, Parquet, Arrow IPC and csv."""

# pandas and pyarrow have no types here: frames and batches are Any.
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support import csv_text
from bitlane.support.csv_text import numbered_names
from bitlane.support.file_names import names_beside
from bitlane.support.optional import require_extra
from bitlane.support.text import near_names

from .dataset import TableOptions
from .frames import column_numbers, csv_names, first_line

PIECE = 1 << 20  # values of a piece
FORMATS = (".npy", ".parquet", ".arrow", ".feather", ".csv", ".tsv", ".csv.gz", ".tsv.gz")

Pieces = Iterator[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class PieceSource:
    """A table whose rows are read in pieces, as often as needed.

    Attributes
    ----------
    name : str
        Of the file, for messages.
    column_names : tuple of str
    named : bool
        Whether the file has names; otherwise they are x0, x1, ...
    rows : int or None
        None if they are known at the end alone.
    identity : str
        What changes with the content: path, size and time of the file.
    pieces : callable
        ``pieces(first)`` yields the rows from `first` on as arrays [rows, columns] of integers or floats.
    """

    name: str
    column_names: tuple[str, ...]
    named: bool
    rows: int | None
    identity: str
    pieces: Callable[[int], Pieces]

    def blocks(self, step: int, first: int = 0) -> Pieces:
        """Yield the rows from `first` on in arrays of `step` rows; the last one has the rest."""
        held: list[NDArray[Any]] = []
        count = 0
        for piece in self.pieces(first):
            held.append(piece)
            count += len(piece)
            if count < step:
                continue
            joined = held[0] if len(held) == 1 else np.concatenate(held)
            whole = count - count % step
            for start in range(0, whole, step):
                yield joined[start : start + step]
            held, count = [joined[whole:]], count - whole
        if count:
            yield np.concatenate(held)


def piece_source(path: str | Path, separator: str | None = None, *, header: bool = True) -> PieceSource:
    """Return the table in a file; the suffix of its name determines the format.

    Parameters
    ----------
    path : str or Path
        .npy, a matrix of numbers; .parquet; .arrow or .feather, Arrow's file format; .csv or .tsv, also with .gz.
    separator : str, optional
        Of csv columns.
    header : bool, default=True
        Whether the first row of a csv file has the names.

    Raises
    ------
    DataError
        The file is missing, or cannot be read as a table of numbers.
    BitlaneError
        pandas or pyarrow is missing.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no file {path}{near_names(path.name, names_beside(path))}")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = "".join(suffixes[-2:]) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])
    if suffix not in FORMATS:
        raise DataError(f"{path.name} has the suffix {suffix or 'none'}; choose one of {', '.join(FORMATS)}")
    state = path.stat()
    if not state.st_size:
        raise DataError(f"{path.name} is empty")
    identity = f"{path.absolute()} {state.st_size} {state.st_mtime_ns}"
    if suffix == ".npy":
        return array_source(_mapped(path), path.name, identity)
    if suffix == ".parquet":
        return _parquet(path, identity)
    if suffix in (".arrow", ".feather"):
        return _arrow(path, identity)
    return _csv(path, identity, TableOptions(separator=separator, header=header))


def array_source(X: NDArray[Any], name: str, identity: str = "") -> PieceSource:
    """Return an array or memory map of numbers [rows, n] as a source."""
    if X.ndim != 2 or X.dtype.kind not in "iufb" or not X.shape[1]:
        raise DataError(f"{name} is {X.dtype}{list(X.shape)}; it needs a matrix of numbers")
    step = max(1, PIECE // X.shape[1])
    typed = np.uint8 if X.dtype == bool else X.dtype

    def pieces(first: int) -> Pieces:
        for start in range(first, len(X), step):
            yield np.asarray(X[start : start + step], typed)

    return PieceSource(name, numbered_names(X.shape[1]), False, len(X), identity, pieces)


def _mapped(path: Path) -> NDArray[Any]:
    try:
        matrix: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path.name} is not an npy file of numbers: {first_line(error)}") from error
    return matrix


def _parquet(path: Path, identity: str) -> PieceSource:
    parquet = require_extra("pyarrow.parquet", "reading parquet files", install="pyarrow")
    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name} is not a parquet file: {first_line(error)}") from error
    schema, rows = file.schema_arrow, file.metadata.num_rows
    groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    step = max(1, PIECE // max(1, len(schema.names)))

    def batches(first: int) -> Iterator[Any]:
        chosen, skipped = 0, 0
        while chosen < len(groups) and skipped + groups[chosen] <= first:
            skipped += groups[chosen]
            chosen += 1
        left = first - skipped
        with parquet.ParquetFile(path) as opened:
            for batch in opened.iter_batches(step, row_groups=range(chosen, len(groups))):
                yield batch.slice(min(left, len(batch)))
                left -= min(left, len(batch))

    return _of_batches(path, schema, rows, identity, batches)


def _arrow(path: Path, identity: str) -> PieceSource:
    pyarrow = require_extra("pyarrow", "reading Arrow files", install="pyarrow")
    ipc = require_extra("pyarrow.ipc", "reading Arrow files", install="pyarrow")
    try:
        with pyarrow.memory_map(str(path)) as mapped, ipc.open_file(mapped) as opened:
            schema, rows = opened.schema, sum(opened.get_batch(i).num_rows for i in range(opened.num_record_batches))
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name} is not a file of Arrow's file format: {first_line(error)}") from error
    step = max(1, PIECE // max(1, len(schema.names)))

    def batches(first: int) -> Iterator[Any]:
        left = first
        with pyarrow.memory_map(str(path)) as mapped, ipc.open_file(mapped) as opened:
            for i in range(opened.num_record_batches):
                batch = opened.get_batch(i)
                skipped = min(left, len(batch))
                left -= skipped
                for start in range(skipped, len(batch), step):
                    yield batch.slice(start, step)

    return _of_batches(path, schema, rows, identity, batches)


def _of_batches(
    path: Path, schema: Any, rows: int, identity: str, batches: Callable[[int], Iterator[Any]]
) -> PieceSource:
    """Return the source of record batches of numbers."""
    types = require_extra("pyarrow", "reading Arrow tables", install="pyarrow").types
    for name, kind in zip(schema.names, schema.types, strict=True):
        if not any(of(kind) for of in (types.is_integer, types.is_floating, types.is_boolean)):
            raise DataError(f"{path.name}: column {name!r} holds {kind} values; turn it into numbers, or drop it")
    if not schema.names:
        raise DataError(f"{path.name} has no columns")
    dtype = np.result_type(*(np.dtype(kind.to_pandas_dtype()) for kind in schema.types))
    dtype = dtype if dtype.kind != "b" else np.dtype(np.uint8)

    def pieces(first: int) -> Pieces:
        try:
            for batch in batches(first):
                empty = any(column.null_count for column in batch.columns)
                matrix = np.empty((len(batch), len(schema.names)), np.float64 if empty else dtype)
                for j, column in enumerate(batch.columns):
                    matrix[:, j] = column.to_numpy(zero_copy_only=False)
                if len(matrix):
                    yield matrix
        except (OSError, ValueError) as error:
            raise DataError(f"{path.name} is damaged: {first_line(error)}") from error

    return PieceSource(path.name, tuple(schema.names), True, rows, identity, pieces)


def _csv(path: Path, identity: str, options: TableOptions) -> PieceSource:
    pandas = require_extra("pandas", "reading csv files")
    between = csv_text.separator(options.separator or ("\t" if ".tsv" in path.suffixes else ","))
    names = csv_names(path, between, options)
    step = max(1, PIECE // len(names))

    def pieces(first: int) -> Pieces:
        try:
            reader = pandas.read_csv(
                path,
                sep=between,
                header=None,
                skiprows=first + options.header,
                chunksize=step,
                low_memory=False,
                index_col=False,
                names=list(range(len(names))),
            )
            with reader:
                for frame in reader:
                    matrix = np.empty((len(frame), len(names)))
                    for j, name in enumerate(names):
                        matrix[:, j] = column_numbers(frame.iloc[:, j], name, path.name)
                    yield matrix
        except pandas.errors.EmptyDataError:
            return
        except (pandas.errors.ParserError, UnicodeDecodeError, EOFError, OSError) as error:
            raise DataError(f"{path.name} is not a regular table: {first_line(error)}") from None

    return PieceSource(path.name, tuple(names), options.header, None, identity, pieces)
