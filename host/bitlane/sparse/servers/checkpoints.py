"""Checkpoints of a shard: each a folder that appears complete or not at all.

SHARD/checkpoint-0000012/shard-state.json   first segment of the log to replay, last sequence of each worker, clocks
SHARD/checkpoint-0000012/held-steps         steps that wait for other workers
SHARD/checkpoint-0000012/parameters.arrow   the rows
SHARD/checkpoint-0000012/dense.npz          matrices, clock, and counts of the admission
SHARD/checkpoint-0000012/statistics-0       with statistics: the counts of epoch 0
SHARD/checkpoint-0000012/waiting-counts     and those that become visible at the end of a period
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.parameters import storage
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers.counts import ShardCounts
from bitlane.sparse.servers.failures import reason_of
from bitlane.sparse.servers.rounds import TrainingRounds
from bitlane.sparse.servers.steps import WorkerStep
from bitlane.support.atomic import atomic_folder
from bitlane.support.checkpoint_folders import PART, checkpoint_after, checkpoints_of

STATE, HELD = "shard-state.json", "held-steps"


@dataclass(frozen=True)
class ShardProgress:
    """What a shard has done.

    Attributes
    ----------
    segment : int
        First segment of the log that is not covered.
    sequences : dict from str to int
        The last update of each worker.
    rounds : TrainingRounds
    counts : ShardCounts, optional
        Of a model with statistics.
    """

    segment: int = 1
    sequences: Mapping[str, int] = field(default_factory=dict)
    rounds: TrainingRounds = field(default_factory=TrainingRounds)
    counts: ShardCounts | None = None


def save(folder: Path, progress: ShardProgress, parameters: SparseParameters, matrices: Mapping[str, Matrix]) -> Path:
    """Write the next checkpoint, then remove the earlier ones. Nothing may change meanwhile.

    Raises
    ------
    BitlaneError
        The disk is full or fails, or no memory is left. Earlier checkpoints are as they were.
    """
    earlier = checkpoints_of(folder)
    path, unfinished = checkpoint_after(folder, earlier), folder / PART
    try:
        with atomic_folder(path, unfinished):
            write(unfinished, progress, parameters, matrices)
    except (OSError, MemoryError) as error:
        raise BitlaneError(f"{path} cannot be written: {reason_of(error)}; the log remains") from error
    for old in earlier:
        shutil.rmtree(old, ignore_errors=True)
    return path


def write(folder: Path, progress: ShardProgress, parameters: SparseParameters, matrices: Mapping[str, Matrix]) -> None:
    """Write the files of a checkpoint to an empty folder."""
    storage.write_parameters(folder, parameters, matrices)
    rounds = progress.rounds
    record = {
        "segment": progress.segment,
        "sequences": dict(progress.sequences),
        "keys": len(parameters.table),
        "rounds": rounds.state(),
    }
    if progress.counts is not None:
        record["counts"] = progress.counts.write(folder)
    with (folder / HELD).open("wb") as file:
        for at in sorted(rounds.held):
            for _, step in sorted(rounds.held[at].items()):
                data = step.to_bytes()
                file.write(struct.pack("<Q", len(data)) + data.tobytes())
    storage.write_description(folder, record, STATE)


def load(
    folder: Path, parameters: SparseParameters, matrices: Mapping[str, Matrix], counts: ShardCounts | None = None
) -> ShardProgress:
    """Set parameters and matrices to the last checkpoint of a shard's folder.

    Parameters
    ----------
    folder : Path
    parameters : SparseParameters
        Empty.
    matrices : dict of Matrix
    counts : ShardCounts, optional
        Empty.

    Raises
    ------
    DataError
        There is no checkpoint, or it is damaged.
    """
    complete = checkpoints_of(folder)
    if not complete:
        raise DataError(f"{folder} is not a shard folder: it has no checkpoint")
    path = complete[-1]
    record = storage.read_description(path, STATE, "checkpoint of a shard")
    storage.read_parameters(path, parameters, matrices, "shard")
    return _progress(path, record, counts)


def _progress(path: Path, record: Mapping[str, Any], counts: ShardCounts | None) -> ShardProgress:
    rounds = TrainingRounds()
    try:
        sequences = {str(worker): int(last) for worker, last in record["sequences"].items()}
        rounds.restore(record["rounds"])
        for step in _held_steps(path / HELD):
            rounds.held.setdefault(step.clock, {})[step.worker] = step
        if counts is not None and "counts" in record:
            counts.read_back(path, record["counts"])
        return ShardProgress(int(record["segment"]), sequences, rounds, counts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path / STATE} is damaged: {error}") from error


def _held_steps(path: Path) -> Iterator[WorkerStep]:
    try:
        data = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8].tobytes(), "little")
        at += 8 + size
        if at > len(data):
            raise DataError(f"{path} is damaged: it ends within a step")
        yield WorkerStep.from_bytes(data[at - size : at])
