"""The files of a shard in a version of a model: written from a cut, and read as one table.

rows-00000.frozen      all rows of the shard, or those that were added or changed
deleted-00000.frozen   of a change: the keys that went
dense-00000.npz        the matrices of the shard, if it has some
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.servers.cuts import Cut
from bitlane.sparse.tables.combining import merge
from bitlane.sparse.tables.frozen import FrozenTable
from bitlane.support.stores import Store, StoredFile

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ShardChange:
    """One shard of a delta, or of a base.

    Attributes
    ----------
    rows : FrozenTable
    deleted : FrozenTable or None
        None in a base.
    """

    rows: FrozenTable
    deleted: FrozenTable | None


def rows_name(shard: int) -> str:
    """Return the name of the file of a shard's rows."""
    return f"rows-{shard:05}.frozen"


def deleted_name(shard: int) -> str:
    """Return the name of the file of a shard's deleted keys."""
    return f"deleted-{shard:05}.frozen"


def dense_name(shard: int) -> str:
    """Return the name of the file of a shard's matrices."""
    return f"dense-{shard:05}.npz"


def is_of_shard(file: StoredFile, shard: int) -> bool:
    """Return whether a file of a version is one of rows or deleted keys of a shard."""
    return file.name in (rows_name(shard), deleted_name(shard))


def write_cut(folder: Store, shard: int, cut: Cut) -> list[StoredFile]:
    """Write the files of a shard to the folder of a version; errors as of `Store.write`."""
    files = [folder.write(rows_name(shard), cut.rows.buffers(), len(cut.rows))]
    if cut.deleted is not None:
        files.append(folder.write(deleted_name(shard), cut.deleted.buffers(), len(cut.deleted)))
    if cut.dense:
        buffer = io.BytesIO()
        np.savez(buffer, **dict[str, Any](cut.dense))
        files.append(folder.write(dense_name(shard), [memoryview(buffer.getvalue())]))
    return files


def read_change(folder: Store, shard: int, files: Mapping[str, StoredFile], cache: Path | None = None) -> ShardChange:
    """Return the rows and the deleted keys of a shard in one version.

    Parameters
    ----------
    folder : Store
        Of the version.
    shard : int
    files : dict from str to StoredFile
        Those of the version, by name.
    cache : Path, optional
        See `Store.open`.

    Raises
    ------
    DataError
        A file is missing or damaged.
    """
    deleted = _open(folder, files[deleted_name(shard)], cache) if deleted_name(shard) in files else None
    return ShardChange(_open(folder, files[rows_name(shard)], cache), deleted)


def read_dense(folder: Store, files: Mapping[str, StoredFile], cache: Path | None = None) -> dict[str, Floats]:
    """Return the matrices of all shards in one version, by name; errors as of `read_change`."""
    matrices: dict[str, Floats] = {}
    for name in sorted(files):
        if name.startswith("dense-"):
            data: Any = folder.open(files[name], cache)
            try:
                with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                    matrices.update({each: arrays[each] for each in arrays.files})
            except (ValueError, zipfile.BadZipFile) as error:
                raise DataError(f"{folder.name_of(name)} is damaged: {error}") from error
    return matrices


def merged(changes: Sequence[ShardChange]) -> FrozenTable:
    """Return the rows of a shard after a base and the changes that follow it."""
    rows = changes[0].rows
    for change in changes[1:]:
        rows = merge(rows, change.rows, change.deleted)
    return rows


def _open(folder: Store, file: StoredFile, cache: Path | None) -> FrozenTable:
    try:
        return FrozenTable.from_buffer(folder.open(file, cache))
    except DataError as error:
        prefix = folder.name_of(file.name)
        raise error if prefix in str(error) else DataError(f"{prefix}: {error}") from error
