"""Checkpoints of a shard: each a folder that appears complete or not at all.

SHARD/checkpoint-0000012/shard-state.json   segment of the log to go on with, last sequence of each worker
SHARD/checkpoint-0000012/parameters.arrow   the rows
SHARD/checkpoint-0000012/dense.npz          matrices, clock, and counts of the admission
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.parameters import storage
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.support.atomic import sync_entries, sync_tree

STATE = "shard-state.json"
PART = ".checkpoint-part"
_NAME = re.compile(r"checkpoint-(\d{7,})")


@dataclass(frozen=True)
class Progress:
    """What a shard has done.

    Attributes
    ----------
    segment : int
        First segment of the log that is not covered.
    sequences : dict from str to int
        The last update of each worker.
    """

    segment: int
    sequences: Mapping[str, int]


def save(folder: Path, progress: Progress, parameters: SparseParameters, matrices: Mapping[str, Matrix]) -> Path:
    """Write the next checkpoint, then remove the earlier ones. Nothing may change meanwhile.

    Raises
    ------
    BitlaneError
        The disk is full, or fails. Earlier checkpoints are as they were.
    """
    earlier = numbers(folder)
    path, part = folder / f"checkpoint-{1 + max(earlier, default=0):07}", folder / PART
    try:
        shutil.rmtree(part, ignore_errors=True)  # what a killed server has left
        part.mkdir()
        write(part, progress, parameters, matrices)
        sync_tree(part)
        os.rename(part, path)
        sync_entries(folder)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise BitlaneError(f"{path} cannot be written: {error.strerror or error}; the log is kept") from error
    for number in earlier:
        shutil.rmtree(folder / f"checkpoint-{number:07}", ignore_errors=True)
    return path


def write(folder: Path, progress: Progress, parameters: SparseParameters, matrices: Mapping[str, Matrix]) -> None:
    """Write the files of a checkpoint to an empty folder."""
    table = parameters.table
    arrays = {f"matrix/{name}": matrix.row for name, matrix in matrices.items()}
    arrays.update({f"table/{name}": each for name, each in table.state().items()})
    storage.write_rows(folder, table.items(storage.CHUNK_ROWS), table.width)
    storage.write_dense(folder, arrays)
    record = {"segment": progress.segment, "sequences": dict(progress.sequences), "keys": len(table)}
    storage.write_description(folder, record, STATE)


def load(folder: Path, parameters: SparseParameters, matrices: Mapping[str, Matrix]) -> Progress:
    """Set parameters and matrices to the last checkpoint of a shard's folder.

    Parameters
    ----------
    folder : Path
    parameters : SparseParameters
        Empty.
    matrices : dict of Matrix

    Raises
    ------
    DataError
        There is no checkpoint, or it is damaged.
    """
    found = numbers(folder)
    if not found:
        raise DataError(f"{folder} is no folder of a shard: it has no checkpoint")
    path = folder / f"checkpoint-{found[-1]:07}"
    record = storage.read_description(path, STATE, "checkpoint of a shard")
    arrays = storage.read_dense(path)
    if {name for name in arrays if name.startswith("matrix/")} != {f"matrix/{name}" for name in matrices}:
        raise DataError(f"{path / storage.DENSE} belongs to another shard: it has {', '.join(arrays)}")
    for name, matrix in matrices.items():
        matrix.restore({"row": arrays[f"matrix/{name}"]})
    table = parameters.table
    table.load(storage.read_rows(path, table.width))
    table.restore({name[6:]: np.asarray(each) for name, each in arrays.items() if name.startswith("table/")})
    return _progress(path, record)


def numbers(folder: Path) -> list[int]:
    """Return the numbers of the checkpoints, ascending."""
    return sorted(int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


def _progress(path: Path, record: Mapping[str, Any]) -> Progress:
    try:
        sequences = {str(worker): int(last) for worker, last in record["sequences"].items()}
        return Progress(int(record["segment"]), sequences)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path / STATE} is damaged: {error}") from error
