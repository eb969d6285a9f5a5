"""Atomic checkpoints of a training with several ranks.

    FOLDER/step-000200/all.pt       the state that all ranks share: model, optimizer, settings
    FOLDER/step-000200/rank-3.pt    the state of one rank: that of the compressor

The folder of a step gets its final name after every rank has written its file. Older folders are removed after that. If
a rank is killed at any moment, the previous checkpoint is therefore still complete.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from bitlane.errors import DataError

LOG = logging.getLogger(__name__)
_STEP = "step-"


def save(folder: Path, step: int, own: Mapping[str, Any], shared: Mapping[str, Any]) -> None:
    """Write a checkpoint; all ranks of the default process group call it after the same step.

    Parameters
    ----------
    folder : Path
        The folder of the checkpoints.
    step : int
        Number of completed steps.
    own : mapping
        The state of this rank.
    shared : mapping
        The state that all ranks share; that of rank 0 is written.
    """
    partial, complete = folder / f".{_STEP}{step:06d}", folder / f"{_STEP}{step:06d}"
    rank = dist.get_rank()
    if rank == 0:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _write(shared, partial / "all.pt")
    dist.barrier()
    _write(own, partial / f"rank-{rank}.pt")
    dist.barrier()
    if rank == 0 and not complete.exists():
        os.rename(partial, complete)
        for old in folder.glob(f"{_STEP}*"):
            if old != complete:
                shutil.rmtree(old)
        LOG.info("wrote the checkpoint of step %d to %s", step, complete)
    dist.barrier()


def latest_checkpoint(folder: Path) -> Path:
    """Return the folder of the latest checkpoint; raise DataError if there is none."""
    steps = sorted(folder.glob(f"{_STEP}*"))
    if not steps:
        raise DataError(f"no checkpoint in {folder}")
    return steps[-1]


def load_shared(checkpoint: Path) -> Any:
    """Return the state that all ranks share from the folder of a checkpoint; raise DataError if it is unreadable."""
    return _read(checkpoint / "all.pt")


def load_rank(checkpoint: Path, rank: int) -> Any:
    """Return the state of one rank from the folder of a checkpoint; raise DataError if it is unreadable."""
    return _read(checkpoint / f"rank-{rank}.pt")


def _write(value: Mapping[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        torch.save(value, file)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> Any:
    try:
        return torch.load(path, weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, KeyError) as error:
        raise DataError(f"cannot read {path} ({type(error).__name__}): resume from another checkpoint") from error
