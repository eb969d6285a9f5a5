"""Checkpoints of a training with several ranks: all of a step, or none.

    FOLDER/step-000200/all.pt       what all ranks share: model, optimizer, settings
    FOLDER/step-000200/rank-3.pt    what is a rank's own: the compression's state

A step's folder gets its name when every rank has written its file, and older ones go only then: a rank that is killed
at any moment leaves the checkpoint before whole.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from bitlane.errors import DataError

_STEP = "step-"


def save(folder: Path, step: int, own: Any, shared: Any) -> None:
    """Write a checkpoint; every rank of the default group calls it after the same step. `shared` is rank 0's."""
    part, whole = folder / f".{_STEP}{step:06d}", folder / f"{_STEP}{step:06d}"
    rank = dist.get_rank()
    if rank == 0:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        _write(shared, part / "all.pt")
    dist.barrier()
    _write(own, part / f"rank-{rank}.pt")
    dist.barrier()
    if rank == 0 and not whole.exists():
        os.rename(part, whole)
        for old in folder.glob(f"{_STEP}*"):
            if old != whole:
                shutil.rmtree(old)
    dist.barrier()


def latest(folder: Path) -> Path:
    """The folder of the latest checkpoint; DataError where there is none."""
    found = sorted(folder.glob(f"{_STEP}*"))
    if not found:
        raise DataError(f"{folder} holds no checkpoint")
    return found[-1]


def shared(checkpoint: Path) -> Any:
    """What all ranks share, of a folder that `latest` gave; DataError where it cannot be read."""
    return _read(checkpoint / "all.pt")


def own(checkpoint: Path, rank: int) -> Any:
    """What is a rank's own."""
    return _read(checkpoint / f"rank-{rank}.pt")


def _write(value: Any, path: Path) -> None:
    with path.open("wb") as file:
        torch.save(value, file)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> Any:
    try:
        return torch.load(path, weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, KeyError) as error:
        raise DataError(f"{path} cannot be read ({type(error).__name__}): go on from another checkpoint") from error
