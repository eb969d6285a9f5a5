"""Names of checkpoints: FOLDER/checkpoint-0000012, and FOLDER/.checkpoint-part while one is written."""

from __future__ import annotations

import re
from pathlib import Path

PART = ".checkpoint-part"
_NAME = re.compile(r"checkpoint-(\d{7,})")


def checkpoints_of(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, the last one at the end."""
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=number_of)


def number_of(checkpoint: Path) -> int:
    """Return the number of a checkpoint, counted from 1."""
    return int(checkpoint.name.partition("-")[2])


def checkpoint_after(folder: Path, earlier: list[Path]) -> Path:
    """Return the path of the next checkpoint; `earlier` are those of `checkpoints_of`."""
    return folder / f"checkpoint-{1 + (number_of(earlier[-1]) if earlier else 0):07}"
