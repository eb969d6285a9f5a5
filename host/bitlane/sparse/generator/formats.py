"""Batches of a click log as files: Parquet, Arrow, CSV, and the text of libffm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.support.optional import require_extra

Writer = Callable[[Batch, Sequence[str], Path], None]
ARROW_ROWS = 1 << 16  # of a record batch in an Arrow file
TEXT_ROWS = 1 << 14  # formatted at a time


def table_of(batch: Batch, names: Sequence[str]) -> Any:
    """Return the rows as a `pyarrow.Table` with the columns label, time (seconds) and one of int64 for each field."""
    pa = require_extra("pyarrow", "an Arrow table", "'bitlane[sparse]'")
    columns: dict[str, Any] = {"label": batch.labels.astype(np.int8), "time": batch.times}
    columns |= dict(zip(names, np.ascontiguousarray(batch.keys.view(np.int64).reshape(-1, len(names)).T), strict=True))
    return pa.table(columns)


def write_parquet(batch: Batch, names: Sequence[str], path: Path) -> None:
    """Write `table_of` as Parquet, compressed by LZ4."""
    parquet = require_extra("pyarrow.parquet", "a Parquet file", "'bitlane[sparse]'")
    parquet.write_table(
        table_of(batch, names), path, compression="lz4", use_dictionary=["label"], write_statistics=["time"]
    )


def write_arrow(batch: Batch, names: Sequence[str], path: Path) -> None:
    """Write `table_of` as an Arrow file (IPC), not compressed."""
    ipc = require_extra("pyarrow.ipc", "an Arrow file", "'bitlane[sparse]'")
    table = table_of(batch, names)
    with ipc.new_file(str(path), table.schema) as file:
        file.write_table(table, max_chunksize=ARROW_ROWS)


def write_csv(batch: Batch, names: Sequence[str], path: Path) -> None:
    """Write lines ``label,time,key,...`` under a header."""
    assert batch.times is not None
    keys = batch.keys.reshape(-1, len(names))
    columns = np.column_stack([batch.times.astype(np.uint64), keys])
    _write_text(batch, columns, [","] * columns.shape[1], "", path, f"label,time,{','.join(names)}\n")


def write_libffm(batch: Batch, names: Sequence[str], path: Path) -> None:
    """Write lines ``label field:key:1 ...``. libffm itself takes keys below 2**31 only."""
    keys = batch.keys.reshape(-1, len(names))
    _write_text(batch, keys, [f" {field}:" for field in range(len(names))], ":1", path)


WRITERS: dict[str, tuple[str, Writer]] = {
    "parquet": (".parquet", write_parquet),
    "arrow": (".arrow", write_arrow),
    "csv": (".csv", write_csv),
    "libffm": (".ffm", write_libffm),
}


def find_writer(name: str) -> tuple[str, Writer]:
    """Return the suffix and the writer of a format.

    Raises
    ------
    DataError
        There is no such format.
    """
    if name not in WRITERS:
        raise DataError(f"format={name!r}: choose one of {', '.join(map(repr, WRITERS))}")
    return WRITERS[name]


def _write_text(
    batch: Batch, columns: NDArray[np.uint64], before: Sequence[str], after: str, path: Path, header: str = ""
) -> None:
    """Write the label, then each column as a number with the text `before` it, by column, and `after` it."""
    from .lines import LONGEST, write_lines

    starts = np.cumsum([0, *map(len, before)])
    prefixes, suffix = (np.frombuffer(text.encode(), np.uint8) for text in ("".join(before), after))
    line = LONGEST + 1 + len(prefixes) + columns.shape[1] * (LONGEST + len(suffix))
    labels = batch.labels.astype(np.uint64)
    out = np.empty(TEXT_ROWS * line, np.uint8)
    with path.open("wb") as file:
        file.write(header.encode())
        for start in range(0, batch.rows, TEXT_ROWS):
            rows = slice(start, start + TEXT_ROWS)
            length = write_lines(labels[rows], columns[rows], prefixes, starts, suffix, out)
            file.write(out[:length].data)
