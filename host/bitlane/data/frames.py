"""Tables with named columns: csv, tsv, JSON lines and parquet, read by pandas."""

# pandas has no types here: frames and columns are Any.
from __future__ import annotations

import bz2
import gzip
import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support import csv_text
from bitlane.support.optional import require_extra

from .dataset import Dataset, Floats, TableOptions, choose_columns

OnBytes = Callable[[int], object]
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


def read_csv(path: Path, options: TableOptions, on_bytes: OnBytes | None = None) -> Dataset:
    """Read a csv or tsv file; `on_bytes` is called with each number of bytes that was read."""
    pandas = require_extra("pandas", "reading csv files")
    between = csv_text.separator(options.separator or ("\t" if ".tsv" in path.suffixes else ","))
    names = csv_names(path, between, options)
    try:
        with _opened(path, on_bytes) as file:
            # low_memory=False: a column's type comes from all of its values, not from some of them
            frame = pandas.read_csv(
                file, sep=between, header=0 if options.header else None, low_memory=False, index_col=False
            )
    except pandas.errors.EmptyDataError:
        raise DataError(f"{path.name} is empty") from None
    except pandas.errors.ParserError as error:
        reason = " ".join(str(error).replace("Error tokenizing data. C error: ", "").split())
        raise DataError(f"{path.name} is not a regular table: {reason}") from None
    except UnicodeDecodeError:
        raise csv_text.not_utf8(path.name, _first_bad_byte(path)) from None
    columns = names if not options.header else [str(column) for column in frame.columns]
    return _from_frame(frame, columns, path.name, options)


def read_json_lines(path: Path, options: TableOptions, on_bytes: OnBytes | None = None) -> Dataset:
    """Read a file with a JSON object in each line; a name that an object lacks is a missing value."""
    pandas = require_extra("pandas", "reading JSON lines")
    rows = []
    with _opened(path, on_bytes) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except UnicodeDecodeError:
                raise csv_text.not_utf8(path.name, _first_bad_byte(path)) from None
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise DataError(f'{path.name}, line {number} is not a JSON object, such as {{"rooms": 3}}')
            if nested := [name for name, value in row.items() if isinstance(value, (dict, list))]:
                raise DataError(f"{path.name}, line {number}: {nested[0]!r} is not a number or text; use --ignore")
            rows.append(row)
    if not rows:
        raise DataError(f"{path.name} is empty")
    frame = pandas.DataFrame(rows)
    return _from_frame(frame, [str(column) for column in frame.columns], path.name, options)


def read_parquet(path: Path, options: TableOptions, _: OnBytes | None = None) -> Dataset:
    """Read a parquet file."""
    pandas = require_extra("pandas", "reading parquet files")
    require_extra("pyarrow", "reading parquet files", install="pyarrow")
    try:
        frame = pandas.read_parquet(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name} is not a parquet file: {first_line(error)}") from error
    return _from_frame(frame, [str(column) for column in frame.columns], path.name, options)


def first_line(error: BaseException) -> str:
    """Return the first line of an error, or its name if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# --- files
class _CountingFile(io.FileIO):
    """A file that reports the bytes it gives."""

    def __init__(self, path: Path, on_bytes: OnBytes):
        super().__init__(path)
        self._on_bytes = on_bytes

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self._on_bytes(count or 0)
        return count


@contextmanager
def _opened(path: Path, on_bytes: OnBytes | None = None) -> Iterator[IO[bytes]]:
    """Open a file, unpacked; raise DataError if it is damaged."""
    with ExitStack() as stack:
        raw: Any = path.open("rb") if on_bytes is None else io.BufferedReader(_CountingFile(path, on_bytes), 1 << 20)
        stack.enter_context(raw)
        opener = OPENERS.get(path.suffix.lower())
        file = raw if opener is None else stack.enter_context(opener(raw))
        try:
            yield file
        except (gzip.BadGzipFile, EOFError) as error:
            raise DataError(f"{path.name} is damaged: {first_line(error)}") from error


def csv_names(path: Path, between: str, options: TableOptions) -> list[str]:
    """Return the names of the columns by the head of a csv file, which is checked."""
    with _opened(path) as file:
        head = file.read(csv_text.HEAD_BYTES)
    csv_text.check_head(head, path.name, between, header=options.header, ignored=options.ignore)
    cells = csv_text.first_row(head, between)
    return csv_text.named_header(cells) if options.header else [*csv_text.numbered_names(len(cells))]


def _first_bad_byte(path: Path) -> int | None:
    """Return the position of the first line's first byte that is no UTF-8, or None."""
    position = 0
    with _opened(path) as file:
        for line in file:
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return position + error.start
            position += len(line)
    return None


# --- frames
def _from_frame(frame: Any, columns: list[str], name: str, options: TableOptions) -> Dataset:
    features, position = choose_columns(columns, options, name, named=options.header)
    X = np.empty((len(frame), len(features)))
    for j, index in enumerate(features):
        X[:, j] = column_numbers(frame.iloc[:, index], columns[index], name)
    model = options.model
    names = tuple(columns[index] for index in features) if model is None else model.features
    if position is None:
        return Dataset(X, None, names, "" if model is None else model.target)
    return Dataset(X, _labels(frame.iloc[:, position], columns[position], name), names, columns[position])


def column_numbers(column: Any, name: str, file: str) -> Floats:
    """Return a feature column as float64; an error names the first value that is text."""
    pandas = require_extra("pandas", "reading tables")
    if pandas.api.types.is_datetime64_any_dtype(column.dtype):
        raise DataError(f"{file}: column {name!r} holds dates; turn it into numbers, or drop it (--ignore {name})")
    numbers = pandas.to_numeric(column, errors="coerce")
    text = numbers.isna() & column.notna()
    if text.any():
        row = int(np.argmax(text.to_numpy()))
        raise DataError(
            f"{file}: column {name!r} holds text: {_shown(column.iloc[row])} in row {row + 1}; "
            f"turn it into numbers, or drop it (--ignore {name})"
        )
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))


def _labels(column: Any, name: str, file: str) -> NDArray[Any]:
    """Return the target as float64, or as text if most of its values are text."""
    pandas = require_extra("pandas", "reading tables")
    if column.isna().any():
        row = int(np.argmax(column.isna().to_numpy()))
        raise DataError(f"{file}: target {name!r} has no value in row {row + 1}; drop such rows")
    numeric = pandas.to_numeric(column, errors="coerce").notna()
    if not numeric.all() and numeric.mean() <= 0.5:
        return np.asarray([str(value) for value in column])
    return column_numbers(column, name, file)


def _shown(value: object) -> str:
    text = repr(str(value))
    return text if len(text) <= 40 else text[:36] + "...'"
