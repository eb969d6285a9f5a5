"""Run folders: what a training or a comparison was, as files that appear whole or not at all.

    FOLDER/run.jsonl         JSON Lines: a header, one line an epoch (or a result), an end line
    FOLDER/model.npz         arrays: coefficients, intercept, scaling
    FOLDER/checkpoint.npz    what a training goes on from, see `checkpoint.py`
    FOLDER/*.png             plots

The folder is written under another name beside its place and renamed at the end.
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

FORMAT = 2
KINDS = ("run", "comparison", "distributed")
LINES_NAME = "run.jsonl"
MODEL_NAME = "model.npz"
CHECKPOINT_NAME = "checkpoint.npz"

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Record:
    """What a run folder holds.

    `kind` is "run", "comparison" or "distributed". `header` says what was asked (settings, data, geometry), `lines`
    what happened, each with a "kind" of its own ("epoch", "result", "worker"), `end` the totals. `arrays` is the model.
    Numbers that are not finite are written as null.
    """

    kind: str
    header: Line
    lines: Sequence[Line]
    end: Line
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def check_folder(path: str | Path) -> None:
    """Raise DataError unless `path` is free, an empty folder, or an earlier record that may be replaced."""
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
        raise DataError(f"{path} holds files that are not a bitlane run; choose another folder")


def write_record(path: str | Path, record: Record, add: Callable[[Path], object] | None = None) -> None:
    """Write `record` to folder `path`, which appears whole or not at all; an earlier record is replaced.

    `add(folder)` writes what else belongs there: plots, a checkpoint. Raises DataError as `check_folder` does, and
    OSError where the disk is full.
    """
    path = Path(path)
    check_folder(path)
    with _made(path.resolve().parent) as parent:
        part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=parent))
        try:
            _write_files(part, record, add)
            part.chmod(0o777 & ~_umask())
            _put(part, path)
        finally:
            shutil.rmtree(part, ignore_errors=True)


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


def _put(part: Path, path: Path) -> None:
    """Rename `part` to `path`; an earlier folder there goes only once the new one is complete."""
    if not path.exists():
        os.rename(part, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=part.parent))
    os.rename(path, old / "old")
    try:
        os.rename(part, path)
    except BaseException:
        os.rename(old / "old", path)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """`folder`, with the parents that it lacks; those are taken away again where the block fails."""
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
    """`value` as JSON can hold it: numpy's numbers and arrays as Python's, what is not finite as None."""
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
    """The record in folder `path`; DataError where it is missing, cut short, damaged, or of another kind."""
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
