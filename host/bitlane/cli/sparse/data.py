"""The data of `bitlane sparse`: what the arguments name, as plain settings that a run folder keeps, and its sources."""

from __future__ import annotations

import argparse
import glob
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bitlane.errors import DataError
from bitlane.support.optional import require_extra
from bitlane.support.text import shown_option
from bitlane.support.user_warnings import warn_user

from .columns import COLUMNS, open_columns

if TYPE_CHECKING:
    from bitlane.sparse.batches.files import DataFile
    from bitlane.sparse.batches.options import ReadOptions
    from bitlane.sparse.batches.source import FileSource, Source
    from bitlane.sparse.batches.stream import FolderStream
    from bitlane.sparse.registry.learned import HeldOutRows
    from bitlane.sparse.scoring.known import KnownKeys

EXTRA = "'bitlane[sparse]'"
LOSS_TASKS = {"log_loss": "classification", "squared_error": "regression"}
SCANNED_ROWS = 100_000  # to find the number of fields
SHARED_BYTES = 128 << 10  # of a piece of text: the shares of several workers are about even
LAYOUT = {"sep": None, "header": True, "names": None}  # of CSV files: arguments, and what they are where not given
ENCODING = {"encoding": None, "comment": None}  # the same of text files
# Arguments of data that are read otherwise than those of a training.
OTHER_READING = (*LAYOUT, *ENCODING, "format", "decimal")
READING = ("format", "positive", "test_fraction", "shuffle_rows", "negatives", "seed", "follow")  # kept as they are
Settings = Mapping[str, Any]


def require_libraries(purpose: str) -> None:
    """Refuse to begin without the libraries of sparse models."""
    for module in ("numba", "pyarrow", "xxhash"):
        require_extra(module, purpose, EXTRA)


@dataclass(frozen=True)
class TrainingData:
    """The sources of a training.

    Attributes
    ----------
    train : Source
    test : Source or None
    settings : dict
        What a resumed training needs to open the same: plain JSON.
    name : str
        Of the data, for people.
    rows : int or None
        Rows of an epoch, as far as they are known before reading.
    """

    train: Source
    test: Source | None
    settings: Settings
    name: str
    rows: int | None


def new_settings(arguments: argparse.Namespace, task: str) -> dict[str, Any]:
    """Return the settings of the data that arguments name. Their files are opened, but not read through."""
    from bitlane.sparse.batches.formats import TEXT
    from bitlane.sparse.batches.identity import identify
    from bitlane.sparse.batches.options import check_negatives

    if arguments.test and arguments.test_fraction is not None:
        raise DataError("use either --test or --test-fraction, not both")
    if arguments.follow:
        _check_follow(arguments)
    if arguments.positive is not None and task != "classification":
        raise DataError(f"--positive {arguments.positive}: {arguments.loss} has no classes; omit it")
    if arguments.negatives is not None:
        check_negatives(arguments.negatives, task, "--negatives ")
    settings: dict[str, Any] = {
        "paths": absolute_paths(arguments.data),
        "test": absolute_paths(arguments.test),
        "schema": None,
        "label": arguments.target,
        "weight": arguments.weight,
        "task": task,
        "fields": arguments.fields,
        **{name: getattr(arguments, name) for name in (*LAYOUT, *ENCODING, *READING)},
    }
    source, schema = open_columns(lambda **options: open_files(settings, settings["paths"], **options), arguments)
    _check_format(source, arguments.format)
    settings["files"] = [] if arguments.follow else [identify(file).as_json() for file in source.files]
    name = source.files[0].name
    if source.options.namespaces is not None:
        settings["namespaces"] = [*source.options.namespaces]
    if schema is not None:
        settings["schema"] = schema.as_json()
    elif given := [name for name in COLUMNS if name != "weight" and getattr(arguments, name)]:
        raise DataError(f"--{given[0]}: {name} has no columns")
    for layout, formats, kind in ((LAYOUT, ("csv", "tsv"), "CSV"), (ENCODING, TEXT, "text")):
        if not any(file.format in formats for file in source.files):
            for option, usual in layout.items():
                if getattr(arguments, option) != usual:
                    shown = shown_option(option, getattr(arguments, option))
                    raise DataError(f"{shown}: {name} is no {kind} file; omit it")
    return {**settings, "digest": _digest(settings)}


def open_training(settings: Settings, offset: Mapping[str, Any] | None = None) -> TrainingData:
    """Open the sources of a training.

    Parameters
    ----------
    settings : dict
        Of `new_settings`.
    offset : dict, optional
        Where to go on in a folder that is followed: `Progress.source`.

    Raises
    ------
    DataError
        The files are not those that the settings were made for, or cannot be used.
    """
    if _digest(settings) != settings["digest"]:
        raise DataError(
            f"the files of {', '.join(settings['paths'])} differ from those at the start of the training: "
            "their names or sizes have changed"
        )
    if settings["follow"]:
        test = open_files(settings, settings["test"]) if settings["test"] else None
        return TrainingData(
            _stream(settings, offset, read_options(settings)), test, settings, data_name(settings["paths"]), None
        )
    fraction = settings["test_fraction"]
    name, source = data_name(settings["paths"]), open_files(settings, settings["paths"], **_rows_to_learn(settings))
    rows = source.epoch_rows
    if fraction is not None:
        held_out = open_files(settings, settings["paths"], test_fraction=fraction, is_test=True)
        every = None if source.thins else source.file_rows()
        return TrainingData(source, held_out, settings, name, None if every is None else round(every * (1 - fraction)))
    test = open_files(settings, settings["test"]) if settings["test"] else test_split(settings)
    return TrainingData(source, test, settings, name, rows)


def open_share(
    settings: Settings, batch_rows: int, workers: int, index: int, offset: Mapping[str, Any]
) -> FileSource | FolderStream:
    """Open one worker's share of the rows of a training.

    Parameters
    ----------
    settings : dict
        Of `new_settings`.
    batch_rows : int
        Rows of a minibatch.
    workers : int
    index : int
        Of the worker.
    offset : dict
        Where to go on; empty at the beginning.
    """
    options = replace(read_options(settings), share=(index, workers))
    if settings["follow"]:
        return _stream(settings, offset, replace(options, batch_rows=batch_rows))
    from bitlane.sparse.batches.source import open_source

    shared = {"block_bytes": SHARED_BYTES, "threads": 1} if workers > 1 else {}
    return open_source(settings["paths"], options, **shared, **_rows_to_learn(settings))


def open_evaluation(paths: Sequence[str], settings: Settings, fraction: float | None, labelled: bool) -> Source:
    """Open data for a model that was trained with these settings: in the order of the files.

    Parameters
    ----------
    paths : sequence of str
    settings : dict
    fraction : float or None
        Of the rows, those that a training with this `test_fraction` left out.
    labelled : bool
        False: tables may lack the label.
    """
    test = None if fraction is not None else test_split({**settings, "paths": paths})
    return test or open_files(settings, paths, labelled=labelled, test_fraction=fraction, is_test=fraction is not None)


def identify_rows(
    paths: Sequence[str], fraction: float | None, allowed: bool, settings: Settings | None = None
) -> HeldOutRows:
    """Return which rows `open_evaluation` opens, so that they can be compared with those of a training.

    Parameters
    ----------
    paths, fraction
        As of `open_evaluation`.
    allowed : bool
        Whether rows that a model has learned are allowed.
    settings : dict, optional
        Of its data.
    """
    from bitlane.sparse.batches.identity import identify
    from bitlane.sparse.registry.learned import HeldOutRows

    files = _files(paths, settings or {})
    if fraction is None and _have_test_rows(files):
        return HeldOutRows(allowed=allowed)
    return HeldOutRows(tuple(identify(file) for file in files), fraction, allowed)


def open_files(settings: Settings, paths: Sequence[str], **options: Any) -> FileSource:
    """Open files with the settings of a training; they say nothing about the order of the rows."""
    from bitlane.sparse.batches.source import open_source

    return open_source(list(paths), read_options(settings), **options)


def read_options(settings: Settings) -> ReadOptions:
    """Return how files are read, but for the order of the rows."""
    from bitlane.sparse.batches.options import ReadOptions
    from bitlane.sparse.batches.schema import Schema, read_schema
    from bitlane.sparse.periods import PIECE_ROWS

    schema = read_schema(settings)
    if "decimal" in settings and isinstance(schema, Schema):  # of other files than those of the training
        schema = replace(schema, decimal=settings["decimal"])
    return ReadOptions(
        schema=schema,
        label=settings["label"] if schema is None else None,
        weight=settings.get("weight") if schema is None else None,
        task=settings["task"],
        positive=settings.get("positive"),
        format=settings.get("format"),
        max_fields=settings["fields"],
        separator=settings.get("sep"),  # run folders before 0.1.0 have none of these
        header=settings.get("header", True),
        column_names=tuple(settings["names"]) if settings.get("names") else None,
        encoding=settings.get("encoding"),
        comment=settings.get("comment"),
        namespaces=tuple(settings["namespaces"]) if settings.get("namespaces") else None,
        batch_rows=PIECE_ROWS,
    )


def given_reading(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a reader that arguments name, instead of those of a training."""
    given = {name: getattr(arguments, name, None) for name in OTHER_READING}
    return {name: setting for name, setting in given.items() if setting is not None}


def known_keys(settings: Settings) -> KnownKeys:
    """Return a count of the values that a model with these settings knows, by column."""
    from bitlane.sparse.batches.schema import read_schema
    from bitlane.sparse.scoring.known import KnownKeys

    return KnownKeys(read_schema(settings))


def warn_of_unknown(known: KnownKeys) -> None:
    """Warn of columns of which the model knows few values."""
    for problem in known.problems():
        warn_user(problem)


def count_fields(settings: Settings) -> int:
    """Return the number of fields: of the columns, of all rows of npz files, or of the first rows of other files."""
    from bitlane.sparse.batches.schema import Schema

    source = open_files(settings, settings["paths"])
    if source.options.namespaces is not None:
        return len(source.options.namespaces) + 1
    if isinstance(source.schema, Schema):
        return len(source.schema.field_names)
    partly = not all(file.format == "npz" for file in source.files)
    highest = rows = 0
    batches = source.batches(0)
    for batch in batches:
        highest = max(highest, int(batch.fields.max(initial=0)))
        rows += batch.rows
        if partly and rows >= SCANNED_ROWS:
            warn_user(f"{highest + 1} fields, by the first {rows:,} rows: if there are more, say so by --fields")
            break
    batches.close()
    return highest + 1


def data_name(paths: Sequence[str]) -> str:
    """Return a short name of data, for people."""
    name = os.path.basename(paths[0].rstrip("/")) or paths[0]
    return name if len(paths) == 1 else f"{name} and {len(paths) - 1} more"


def _check_format(source: FileSource, given: str | None) -> None:
    """Refuse a format that the suffix of a file contradicts."""
    from bitlane.sparse.batches.formats import format_of

    for file in source.files:
        known = format_of(file.name)[0]
        if given is not None and known not in (None, given):
            raise DataError(f"--format {given}: the suffix of {file.name} says {known}; omit it, or rename the file")


def _check_follow(arguments: argparse.Namespace) -> None:
    if len(arguments.data) != 1 or ("://" not in arguments.data[0] and not os.path.isdir(arguments.data[0])):
        raise DataError(f"--follow needs one folder; got {', '.join(arguments.data)}")
    for name in ("epochs", "test_fraction", "shuffle_rows"):
        if getattr(arguments, name) not in (None, 0, 1):
            raise DataError(f"--{name.replace('_', '-')}: a followed folder has one epoch, in order; omit it")


def _rows_to_learn(settings: Settings) -> dict[str, Any]:
    """Return the options of a reader that say which rows are learned, and in which order."""
    return {
        **{name: settings[name] for name in ("shuffle_rows", "seed")},
        "test_fraction": settings["test_fraction"],
        "thinned": True,
        "negatives": settings.get("negatives"),
    }


def _stream(settings: Settings, offset: Mapping[str, Any] | None, options: ReadOptions) -> FolderStream:
    from bitlane.sparse.batches.stream import FolderStream, StreamOffset

    start = StreamOffset.from_json(offset) if offset else None
    return FolderStream(settings["paths"][0], replace(options, **_rows_to_learn(settings)), offset=start)


def test_split(settings: Settings) -> FileSource | None:
    """Return the held-out rows of data sets that have such, or None."""
    if not _have_test_rows(_files(settings["paths"], settings)):
        return None
    return open_files(settings, settings["paths"], split="test")


def _files(paths: Sequence[str], settings: Settings) -> list[DataFile]:
    from bitlane.sparse.batches.files import find_files

    return find_files(list(paths), fallback=settings.get("format"))


def _have_test_rows(files: Sequence[DataFile]) -> bool:
    return all(file.format == "npz" and "X_test" in _array_names(file) for file in files)


def _array_names(file: DataFile) -> list[str]:
    """The names of the arrays in an npz file."""
    import numpy as np

    from bitlane.sparse.batches.files import reading

    try:
        with reading(file.name), file.open_file() as opened, np.load(opened, allow_pickle=False) as arrays:
            return list(arrays.files)
    except (ValueError, AttributeError):
        raise DataError(f"{file.name}: cannot be read; it may be damaged, or not an npz file") from None


def absolute_paths(paths: Sequence[str]) -> list[str]:
    """Return local paths that mean the same in any folder; URIs, names of data sets and missing files as they are."""
    return [_absolute(path) for path in paths]


def _absolute(path: str) -> str:
    local = "://" not in path and (os.path.exists(path) or glob.has_magic(path))
    return os.path.abspath(os.path.expanduser(path)) if local else path


def _digest(settings: Settings) -> str:
    """SHA-256 of what the rows depend on: files and their sizes, and how they are read."""
    paths = [*([] if settings["follow"] else settings["paths"]), *settings["test"]]
    files = [(file.name, file.size) for file in _files(paths, settings)] if paths else []
    rest = {name: value for name, value in settings.items() if name not in ("digest", "fields")}
    return hashlib.sha256(json.dumps([files, rest], sort_keys=True).encode()).hexdigest()
