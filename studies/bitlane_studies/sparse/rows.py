"""The rows of the speed study, and their files in the formats of all programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.support.optional import require_extra

TRAIN_SHARE = 0.8  # of the rows; of these, the same share for tuning
ARROW_ROWS = 1 << 16  # of a record batch
_TEXT_ROWS = 1 << 16  # written at a time


@dataclass(frozen=True)
class SplitRows:
    """Rows, and a folder with files of them.

    Attributes
    ----------
    name : str
    rows : Batch
    keys : int
        Keys of all splits are below it.
    fields : int
        Fields of all splits are below it.
    folder : Path
    """

    name: str
    rows: Batch
    keys: int
    fields: int
    folder: Path

    def path(self, suffix: str) -> Path:
        """Return the file with a suffix of `WRITERS`; write it when it is asked for the first time."""
        path = self.folder / f"{self.name}.{suffix}"
        if not path.exists():
            unfinished = path.with_suffix(".part")
            WRITERS[suffix](self.rows, unfinished)
            unfinished.rename(path)
        return path


@dataclass(frozen=True)
class Splits:
    """How the rows are divided.

    Attributes
    ----------
    train, test : SplitRows
        What is measured: training, and AUC on rows held out.
    fit, check : SplitRows
        The training rows again, for tuning: learned, and held out.
    """

    train: SplitRows
    test: SplitRows
    fit: SplitRows
    check: SplitRows


def load_rows(data: str, rows: int | None) -> Batch:
    """Return the rows of a data set.

    Parameters
    ----------
    data : str
        ``"generated"``, or what `bitlane.sparse.batches.source.open_source` takes.
    rows : int, optional
        The first ones only. Default: all; 1,000,000 generated ones.
    """
    if data == "generated":
        from bitlane.sparse.generator.click_log import ClickLog
        from bitlane.sparse.generator.settings import ClickLogSettings

        return ClickLog(ClickLogSettings(fields=10, keys=1_000_000, seed=1)).batch(0, rows or 1_000_000)
    from bitlane.sparse.batches.source import open_source

    batches: list[Batch] = []
    for batch in open_source(data).batches(0):
        batches.append(batch)
        if rows is not None and sum(each.rows for each in batches) >= rows:
            break
    return Batch.concatenate(batches).slice(0, rows or sum(each.rows for each in batches))


def divide(rows: Batch, folder: Path) -> Splits:
    """Divide rows in their order; keys become numbers from 0, as libffm and libFM need them.

    Raises
    ------
    DataError
        There are too few rows, or one class only in a split.
    """
    keys, numbers = np.unique(rows.keys, return_inverse=True)
    rows = replace(rows, keys=numbers.reshape(-1).astype(np.uint64))
    fields = int(rows.fields.max()) + 1 if rows.nnz else 1
    cut = int(rows.rows * TRAIN_SHARE)
    inner = int(cut * TRAIN_SHARE)
    bounds = {"train": (0, cut), "test": (cut, rows.rows), "fit": (0, inner), "check": (inner, cut)}
    splits = {name: SplitRows(name, rows.slice(*ends), len(keys), fields, folder) for name, ends in bounds.items()}
    for name, split in splits.items():
        if len(np.unique(split.rows.labels)) != 2:
            raise DataError(f"the split {name!r} has {split.rows.rows} rows of one class; take more rows")
    return Splits(**splits)


def write_libsvm(rows: Batch, path: Path) -> None:
    """Write ``label key:value ...``; the label is 0 or 1."""
    _write_lines(rows, path, lambda rows: _tokens(rows.keys), ("0 ", "1 "))


def write_libffm(rows: Batch, path: Path) -> None:
    """Write ``label field:key:value ...``; the label is 0 or 1."""
    _write_lines(
        rows,
        path,
        lambda rows: [f"{f}:{key}" for f, key in zip(rows.fields.tolist(), rows.keys.tolist(), strict=True)],
        ("0 ", "1 "),
    )


def write_vw(rows: Batch, path: Path) -> None:
    """Write Vowpal Wabbit's ``label | key ...``, its shortest form; the label is -1 or 1."""
    _write_lines(rows, path, lambda rows: _tokens(rows.keys), ("-1 | ", "1 | "), hide_ones=True)


def write_arrow(rows: Batch, path: Path) -> None:
    """Write an Arrow file (IPC) with the columns label, keys and fields, and values if any is not 1; not compressed."""
    pa = require_extra("pyarrow", "an Arrow file", "'bitlane[sparse]'")
    ipc = require_extra("pyarrow.ipc", "an Arrow file", "'bitlane[sparse]'")
    ends = pa.array(rows.offsets.astype(np.int32))
    columns = {
        "label": pa.array(rows.labels.astype(np.int8)),
        "keys": pa.ListArray.from_arrays(ends, pa.array(rows.keys)),
        "fields": pa.ListArray.from_arrays(ends, pa.array(rows.fields)),
    }
    if np.any(rows.values != 1):
        columns["values"] = pa.ListArray.from_arrays(ends, pa.array(rows.values))
    table = pa.table(columns)
    with ipc.new_file(str(path), table.schema) as file:
        file.write_table(table, max_chunksize=ARROW_ROWS)


def write_npz(rows: Batch, path: Path) -> None:
    """Write the arrays of a batch as npz, which `open_source` reads."""
    np.savez(path, keys=rows.keys, fields=rows.fields, values=rows.values, offsets=rows.offsets, labels=rows.labels)


def write_csr(rows: Batch, path: Path) -> None:
    """Write the arrays of a scipy CSR matrix and the labels, as npz."""
    with path.open("wb") as file:
        np.savez(
            file,
            data=rows.values,
            indices=rows.keys.astype(np.int32),
            indptr=rows.offsets.astype(np.int32),
            labels=rows.labels.astype(np.int8),
        )


WRITERS: dict[str, Callable[[Batch, Path], None]] = {
    "libsvm": write_libsvm,
    "ffm": write_libffm,
    "vw": write_vw,
    "arrow": write_arrow,
    "csr.npz": write_csr,
}


def _tokens(numbers: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> list[str]:
    return [str(number) for number in numbers.tolist()]


def _write_lines(
    rows: Batch, path: Path, names: Callable[[Batch], list[str]], heads: tuple[str, str], hide_ones: bool = False
) -> None:
    with path.open("w") as file:
        for start in range(0, rows.rows, _TEXT_ROWS):
            chunk = rows.slice(start, start + _TEXT_ROWS)
            tokens_of_keys = names(chunk)
            ones = "" if hide_ones else ":1"
            values = chunk.values.tolist()
            tokens = [name + (ones if x == 1 else f":{x:.9g}") for name, x in zip(tokens_of_keys, values, strict=True)]
            file.writelines(_lines(chunk, tokens, heads))


def _lines(rows: Batch, tokens: list[str], heads: tuple[str, str]) -> Iterator[str]:
    ends = rows.offsets.tolist()
    for label, start, stop in zip(rows.labels.tolist(), ends[:-1], ends[1:], strict=True):
        yield heads[label > 0] + " ".join(tokens[start:stop]) + "\n"
