"""The folder of a training that runs: its log, its checkpoints, and how it is begun, resumed and given up."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bitlane.errors import BitlaneError, DataError
from bitlane.reporting.records import plain
from bitlane.sparse.parameters.row_sample import RowSample
from bitlane.support.checkpoint_folders import PART
from bitlane.support.file_names import names_beside
from bitlane.support.text import near_names

from . import checkpoint
from .checkpoint import MODEL, TrainingProgress
from .log import FORMAT, KIND, NAME, RunLog, read_log

SETTINGS = "training.json"  # beside the model's files
LEARNED = "learned"  # of the settings of its data: `RowSample.as_json`


class RunFolder:
    """The folder of a training. Make one by `create` or `resume`; it is a context manager.

    A training that fails before its first checkpoint leaves no folder behind.

    Attributes
    ----------
    path : Path
    settings : dict
        The first line of the log.
    progress : TrainingProgress
        Where the training resumes.
    model : Path or None
        Folder of the model to resume from; None for a new one.
    """

    def __init__(
        self,
        path: Path,
        log: RunLog,
        settings: Mapping[str, Any],
        progress: TrainingProgress,
        made: list[Path] | None = None,
    ):
        self.path, self.log, self.settings, self.progress = path, log, dict(settings), progress
        self._made = made  # folders that are removed if the training fails; None for a training that stays

    @property
    def model(self) -> Path | None:
        last = checkpoint.latest(self.path)
        return last / MODEL if last else None

    @classmethod
    def create(cls, path: str | Path, settings: Mapping[str, Any]) -> RunFolder:
        """Make a folder, with its missing parents, for a new training.

        Parameters
        ----------
        path : str or Path
            Missing, or an empty folder.
        settings : dict
            Everything that a resumed training must know; plain JSON.

        Raises
        ------
        DataError
            The path is in use.
        BitlaneError
            It cannot be written.
        """
        path = Path(path)
        check_free(path)
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            log = RunLog(path)
        except (OSError, BitlaneError) as error:
            _remove(missing)
            raise error if isinstance(error, BitlaneError) else BitlaneError(f"{path}: {error.strerror}") from error
        run = cls(path, log, settings, TrainingProgress(), missing)
        with run._given_up_on_errors():
            log.append(KIND, {"format": FORMAT, **settings})
        return run

    @classmethod
    def resume(cls, path: str | Path) -> RunFolder:
        """Open the folder of a training that stopped, was killed or ended, to resume from its last checkpoint.

        A training without a checkpoint begins again.

        Raises
        ------
        DataError
            The folder is not one of a training, is damaged, or another training writes to it.
        """
        path = Path(path)
        header = read_log(path)[0]
        settings = {name: value for name, value in header.items() if name not in ("kind", "format")}
        last = checkpoint.latest(path)
        if last is None:
            first_line = (path / NAME).read_bytes().partition(b"\n")[0]
            progress = TrainingProgress(log_bytes=len(first_line) + 1)
        else:
            progress = checkpoint.load(last)
            progress.sample = sample_of((read_settings(last / MODEL) or {}).get("data"))
        return cls(path, RunLog(path), settings, progress)

    def begin(self) -> None:
        """Cut off what the log has after the last checkpoint, because it will be trained again, and note that."""
        if self.progress.log_bytes:
            self.log.cut(self.progress.log_bytes)
            self.log.append("resumed", {"rows_done": self.progress.rows_done})

    def keep(self) -> None:
        """Let the folder stay if the training fails before its first checkpoint: something else can be resumed."""
        self._made = None

    def save(self, progress: TrainingProgress, save_model: Callable[[Path], object]) -> Path:
        """Write a checkpoint; see `bitlane.sparse.training.checkpoint.save`. The settings go beside the model.

        Those of the data have a sample of the learned rows as `LEARNED`.
        """
        settings = dict(self.settings)
        if "data" in settings and progress.sample is not None:
            settings["data"] = {**settings["data"], LEARNED: progress.sample.as_json()}

        def save_both(folder: Path) -> None:
            save_model(folder)
            (folder / SETTINGS).write_text(json.dumps(plain(settings), indent=1) + "\n", encoding="utf-8")

        progress.log_bytes = self.log.position()
        saved = checkpoint.save(self.path, progress, save_both)
        self._made = None
        return saved

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.log.close()
        if kind is not None and self._made is not None:
            with contextlib.suppress(OSError):
                (self.path / NAME).unlink(missing_ok=True)
            _remove(self._made)

    @contextlib.contextmanager
    def _given_up_on_errors(self) -> Any:
        try:
            yield
        except BaseException:
            self.__exit__(BaseException)
            raise


def check_free(path: str | Path) -> None:
    """Raise DataError unless `path` can become the folder of a new training: it is missing, or an empty folder."""
    path = Path(path)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise DataError(f"{path} is not a folder: choose another name")
    left = [entry.name for entry in path.iterdir()] if path.exists() else []
    if left == [NAME] and (path / NAME).stat().st_size == 0:
        return  # of a training that was killed before it began
    if NAME in left:
        raise DataError(
            f"{path} holds a training: continue it with --resume {path}, replace it with --overwrite, or choose "
            "another folder"
        )
    if left:
        raise DataError(f"{path} is not empty: choose another folder")


def remove_training(path: str | Path) -> None:
    """Remove the folder of an earlier training; raise DataError if something else is there."""
    path = Path(path)
    if (path / NAME).is_file() and not path.is_symlink():
        read_log(path)  # raises DataError if another program wrote it
        shutil.rmtree(path)
    check_free(path)


def find_model(path: str | Path) -> Path:
    """Return the folder of a model: `path` itself, or the model of the last checkpoint if it is a run folder.

    Raises
    ------
    DataError
        There is no model.
    """
    path = Path(path)
    if (path / "model.json").exists():
        return path
    last = checkpoint.latest(path) if path.is_dir() else None
    if last is None:
        if not path.exists():
            raise DataError(f"no folder {path}{near_names(path.name, names_beside(path))}")
        raise DataError(f"{path} contains no sparse model: pass a run folder with a checkpoint, or a model folder")
    return last / MODEL


def read_settings(model: Path) -> dict[str, Any] | None:
    """Return the settings of the training that made a model, or None if no run folder did.

    Raises
    ------
    DataError
        The file is damaged.
    """
    path = model / SETTINGS
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} is damaged ({type(error).__name__})") from error


def sample_of(data: Mapping[str, Any] | None) -> RowSample | None:
    """Return the sample of the learned rows in the settings of a model's data, or None if there is none.

    Raises
    ------
    DataError
        It is damaged.
    """
    record = (data or {}).get(LEARNED)
    return None if record is None else RowSample.from_json(record)


def _remove(made: list[Path]) -> None:
    """Remove a folder that was made, and the parents that were made for it, as long as they are empty."""
    for folder in made:
        shutil.rmtree(folder / PART, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.rmdir()
