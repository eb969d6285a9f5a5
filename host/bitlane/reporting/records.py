"""Run folders: the record of a training or a comparison, as files that appear complete or not at all.

    FOLDER/run.jsonl         JSON Lines: a header, one line for each epoch (or result), an end line
    FOLDER/model.npz         the model, see `bitlane.estimators.saved`, and its scaling
    FOLDER/checkpoint.npz    the checkpoint to resume from, see `checkpoint.py`
    FOLDER/*.png             plots

The folder is written under a temporary name beside its final path, and renamed at the end.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.file_names import MODEL_NAME

FORMAT = 2
KINDS = ("run", "comparison", "distributed")
LINES_NAME = "run.jsonl"
CHECKPOINT_NAME = "checkpoint.npz"

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Record:
    """The content of a run folder. Numbers that are not finite are written as null.

    Attributes
    ----------
    kind : {"run", "comparison", "distributed"}
    header : dict
        Inputs: settings, data, geometry.
    lines : list of dict
        Events, each with a "kind": "epoch", "result" or "worker".
    end : dict
        Totals.
    arrays : dict
        The model.
    """

    kind: str
    header: Line
    lines: Sequence[Line]
    end: Line
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def check_folder(path: str | Path) -> None:
    """Raise DataError unless `path` is free, an empty folder, or an earlier record, which may be replaced."""
    path = Path(path)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise DataError(f"{path} is not a folder; choose another name")
    if not path.exists() or not any(path.iterdir()):
        return
    try:
        with (path / LINES_NAME).open(encoding="utf-8") as file:
            ours = json.loads(file.readline(1 << 20)).get("kind") in KINDS
    except (OSError, ValueError, AttributeError):
        ours = False
    if not ours:
        raise DataError(f"{path} contains files that are not a bitlane run; choose another folder")


def write_record(path: str | Path, record: Record, add: Callable[[Path], object] | None = None) -> None:
    """Write `record` to folder `path`, which appears complete or not at all. An earlier record is replaced.

    Parameters
    ----------
    path : str or Path
    record : Record
    add : callable, optional
        Called as ``add(folder)`` to write more files: plots, a checkpoint.

    Raises
    ------
    DataError
        The path is in use; see `check_folder`.
    OSError
        The disk is full.
    """
    path = Path(path)
    check_folder(path)
    with _made(path.resolve().parent) as parent:
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=parent))
        try:
            _write_files(temporary, record, add)
            temporary.chmod(0o777 & ~_umask())
            _put(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _write_files(folder: Path, record: Record, add: Callable[[Path], object] | None) -> None:
    lines = [{"kind": record.kind, "format": FORMAT, **record.header}, *record.lines]
    lines.append({"kind": "end", "lines": len(record.lines), **record.end})
    with (folder / LINES_NAME).open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(plain(line), allow_nan=False) + "\n")
    if record.arrays:
        np.savez(folder / MODEL_NAME, **record.arrays)  # type: ignore[arg-type]
    if add is not None:
        add(folder)


def _put(temporary: Path, path: Path) -> None:
    """Rename `temporary` to `path`. An earlier folder is removed only when the new one is complete."""
    if not path.exists():
        os.rename(temporary, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=temporary.parent))
    os.rename(path, old / "old")
    try:
        os.rename(temporary, path)
    except BaseException:
        os.rename(old / "old", path)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """Yield `folder` with its missing parents created; remove those again if the block fails."""
    missing = [ancestor for ancestor in (folder, *folder.parents) if not ancestor.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except BaseException:
        for ancestor in missing:
            with contextlib.suppress(OSError):
                ancestor.rmdir()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def plain(value: Any) -> Any:
    """Return `value` for JSON: Python numbers and lists for numpy's, and None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


# --- reading -------------------------------------------------------------------------------------
def read_record(path: str | Path) -> Record:
    """Return the record in folder `path`.

    Raises
    ------
    DataError
        The record is missing, incomplete, damaged, or of another kind.
    """
    path = Path(path)
    if not path.is_dir():
        raise DataError(f"no run folder {path}")
    lines = _read_lines(path)
    header, end = lines[0], lines[-1]
    kind, version = header.get("kind"), header.get("format")
    if kind not in KINDS:
        raise DataError(f"{path / LINES_NAME} is not a bitlane run: its first line has kind {kind!r}")
    if version != FORMAT:
        raise DataError(f"{path} has format {version!r}, this bitlane reads {FORMAT}: run it again")
    if end.get("kind") != "end" or end.get("lines") != len(lines) - 2:
        raise DataError(f"{path / LINES_NAME} ends too early, after line {len(lines)}: run it again")
    return Record(
        kind=str(kind),
        header={key: value for key, value in header.items() if key not in ("kind", "format")},
        lines=lines[1:-1],
        end={key: value for key, value in end.items() if key not in ("kind", "lines")},
        arrays=_read_arrays(path / MODEL_NAME),
    )


def _read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        text = (path / LINES_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path} is not a bitlane run: it has no {LINES_NAME}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path / LINES_NAME} cannot be read: {error}") from error
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise DataError(f"{path / LINES_NAME} is damaged in line {number}: run it again")
        lines.append(value)
    if not lines:
        raise DataError(f"{path / LINES_NAME} is empty: run it again")
    return lines


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    if not path.exists():
        return {}
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, EOFError, OSError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is damaged ({type(error).__name__}): run it again") from error
