"""Checkpoints of a training in a run folder: each a folder that appears complete or not at all.

    RUN/checkpoint-0000012/model/          the model, as `SparseModel.save` writes it
    RUN/checkpoint-0000012/progress.json   what the training has done
    RUN/checkpoint-0000012/window.npz      scores, labels and weights of the window that has begun
    RUN/model                              a link to the model of the last checkpoint

A checkpoint is written under a temporary name, forced to the disk and renamed. Earlier ones are removed after that.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError, DataError
from bitlane.reporting.records import plain
from bitlane.sparse.parameters.row_sample import RowSample
from bitlane.support.atomic import atomic_folder
from bitlane.support.checkpoint_folders import PART, checkpoint_after, checkpoints_of

MODEL = "model"
FORMAT = 1
_OFFSET = "source"  # its name in progress.json
_ARRAYS = ("scores", "labels", "weights")
_DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile)


@dataclass
class TrainingProgress:
    """What a training has done.

    Attributes
    ----------
    epoch : int
        The current epoch, counted from 0.
    epoch_rows : int
        Rows of this epoch that were learned.
    rows_done : int
        Rows of all epochs that were learned.
    seconds : float
        Time of the training, without checkpoints.
    window_seconds, window_waiting : float
        Time of the window that has begun, and how much of it the training waited for the reader.
    log_bytes : int
        Size of the log.
    offset : dict
        Offset of a stream; empty for other sources: plain JSON.
    scores, labels : float32 [rows]
        Of the window that has begun.
    weights : float32 [rows], optional
        Of its rows.
    sample : RowSample or None
        Of the rows of the first epoch; None if an older version of bitlane has begun the training. `RunFolder` keeps it
        beside the model.
    """

    epoch: int = 0
    epoch_rows: int = 0
    rows_done: int = 0
    seconds: float = 0.0
    window_seconds: float = 0.0
    window_waiting: float = 0.0
    log_bytes: int = 0
    offset: dict[str, Any] = field(default_factory=dict)
    scores: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    labels: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    weights: NDArray[np.float32] | None = None
    sample: RowSample | None = field(default_factory=RowSample)


def latest(folder: Path) -> Path | None:
    """Return the last complete checkpoint of a run folder, or None."""
    complete = checkpoints_of(folder)
    return complete[-1] if complete else None


def save(folder: Path, progress: TrainingProgress, save_model: Callable[[Path], object]) -> Path:
    """Write the next checkpoint of a run folder, then remove the earlier ones.

    Parameters
    ----------
    folder : Path
    progress : TrainingProgress
    save_model : callable
        Writes the model to the empty folder that it is given.

    Returns
    -------
    Path
        The checkpoint.

    Raises
    ------
    BitlaneError
        The disk is full, or fails. Earlier checkpoints are as they were, and nothing of the new one is left.
    """
    earlier = checkpoints_of(folder)
    path, unfinished = checkpoint_after(folder, earlier), folder / PART
    with _clear_errors(path, earlier[-1] if earlier else None), atomic_folder(path, unfinished):
        (unfinished / MODEL).mkdir()
        save_model(unfinished / MODEL)
        _write_progress(unfinished, progress)
    _link(folder, path)
    for old in earlier:
        shutil.rmtree(old, ignore_errors=True)
    return path


def load(path: Path) -> TrainingProgress:
    """Return the progress of a checkpoint.

    Raises
    ------
    DataError
        It is damaged, or has another format.
    """
    try:
        content = json.loads((path / "progress.json").read_text(encoding="utf-8"))
        version = content.pop("format")
        content["offset"] = content.pop(_OFFSET, {})
        if version == FORMAT:
            with np.load(path / "window.npz", allow_pickle=False) as arrays:
                return TrainingProgress(**content, **{name: arrays[name] for name in arrays.files if name in _ARRAYS})
    except _DAMAGE as error:
        raise DataError(f"checkpoint {path} is damaged ({type(error).__name__})") from error
    raise DataError(f"checkpoint {path} has format {version!r}, this bitlane reads {FORMAT}")


def _write_progress(folder: Path, progress: TrainingProgress) -> None:
    content = dict(vars(progress))
    del content["sample"]
    arrays = {name: content.pop(name) for name in _ARRAYS}
    np.savez(folder / "window.npz", **{name: each for name, each in arrays.items() if each is not None})
    content = {_OFFSET if name == "offset" else name: value for name, value in content.items()}
    text = json.dumps({"format": FORMAT, **plain(content)}, indent=1, allow_nan=False)
    (folder / "progress.json").write_text(text + "\n", encoding="utf-8")


@contextmanager
def _clear_errors(path: Path, last: Path | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remaining = f"the training can resume from {last}" if last else "there is no earlier checkpoint"
        raise BitlaneError(f"{path} cannot be written: {error.strerror or error}; {remaining}") from error


def _link(folder: Path, checkpoint: Path) -> None:
    """Let the link RUN/model name the model of a checkpoint; file systems without links do without."""
    unfinished = folder / ".model-part"
    try:
        unfinished.unlink(missing_ok=True)
        unfinished.symlink_to(Path(checkpoint.name) / MODEL)
        os.replace(unfinished, folder / MODEL)
    except OSError:
        unfinished.unlink(missing_ok=True)
