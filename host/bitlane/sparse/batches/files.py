"""Paths to files: local ones, and whatever pyarrow reaches by a URI (s3://, gs://, hdfs://)."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyarrow import fs

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.arrays import dataset_path
from bitlane.sparse.batches.checks import one_line
from bitlane.sparse.batches.decoding import decoded
from bitlane.sparse.batches.formats import COMPRESSIONS, FORMATS, TEXT, format_of
from bitlane.support.file_names import names_beside
from bitlane.support.stores import locate
from bitlane.support.text import near_names

_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class DataFile:
    """One file.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
    path : str
        In the file system.
    name : str
        For messages.
    size : int
        Bytes.
    format : str
        One of the values of `FORMATS`.
    compression : str, optional
        One of the values of `COMPRESSIONS`.
    encoding : str, optional
        Of text; UTF-8 by default.
    comment : str, optional
        What begins a line of text that is a comment.
    """

    filesystem: fs.FileSystem
    path: str
    name: str
    size: int
    format: str
    compression: str | None = None
    encoding: str | None = None
    comment: str | None = None

    def open_stream(self) -> pa.NativeFile:
        """Open the file to be read from its beginning: uncompressed, and text as UTF-8 without comments."""
        return decoded(self.open_bytes(), self.encoding, self.comment, self.format in ("csv", "tsv"))

    def open_bytes(self) -> pa.NativeFile:
        """Open the file to be read from its beginning: uncompressed, as it is."""
        if self.compression == "xz":  # Arrow has no such codec
            return pa.PythonFile(lzma.LZMAFile(self.filesystem.open_input_stream(self.path)), mode="r")
        return self.filesystem.open_input_stream(self.path, compression=self.compression)

    def open_file(self) -> pa.NativeFile:
        """Open the file to be read anywhere."""
        return self.filesystem.open_input_file(self.path)


def find_files(
    paths: str | Path | Sequence[str | Path], filesystem: fs.FileSystem | None = None, fallback: str | None = None
) -> list[DataFile]:
    """Return the files of paths.

    Parameters
    ----------
    paths : str, Path or sequence of these
        Each is a file, a folder (all its files, in all folders below), a glob (``day-*/part-*.parquet``, ``**`` for any
        folders), or the name of a data set in the folder of BITLANE_DATA.
        ``s3://``, ``gs://`` and ``hdfs://`` name other file systems; there, ``?`` begins options of the URI.
    filesystem : pyarrow.fs.FileSystem, optional
        Where the paths are; by default each path says it.
    fallback : str, optional
        The format of files of unknown suffixes, such as ``part-00000``; by default they have none.

    Returns
    -------
    list of DataFile
        In the order of `paths`; within a folder or glob, in the order of their names. Names that begin with ``.`` or
        ``_``, files of unknown formats and empty text files are left out there.

    Raises
    ------
    DataError
        A path has no file, or a file of an unknown format.
    """
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not given:
        raise DataError("no path was given")
    return [file for path in given for file in _files_of(str(path), filesystem, fallback)]


def locate_folder(folder: str, filesystem: fs.FileSystem | None = None) -> tuple[fs.FileSystem, str]:
    """Return the file system of a folder and its path there; raise DataError if it is no folder."""
    system, root = _locate(folder, filesystem)
    with reading(folder):
        if system.get_file_info(root).type != fs.FileType.Directory:
            raise DataError(f"{folder}: no such folder")
    return system, root


def segments_below(
    system: fs.FileSystem, root: str, formats: Sequence[str], fallback: str | None = None
) -> list[tuple[str, DataFile]]:
    """Return the files of some formats in a folder, with their names relative to it, in the order of these."""
    segments = []
    for info in files_below(system, root):
        kind, compression = format_of(info.base_name, fallback)
        if kind in formats:
            file = DataFile(system, info.path, info.path, info.size or 0, str(kind), compression)
            segments.append((info.path[len(root) :].lstrip("/"), file))
    return sorted(segments, key=lambda entry: entry[0])


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn the errors of libraries while a file is read into a DataError with the file's name."""
    try:
        yield
    except BitlaneError:
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not {error.encoding} text: say its encoding, such as --encoding cp1252") from error
    except (pa.ArrowException, OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{name}: cannot be read; it may be damaged or incomplete: {one_line(error)}") from error


def _files_of(path: str, filesystem: fs.FileSystem | None, fallback: str | None) -> list[DataFile]:
    dataset = dataset_path(path) if filesystem is None and not Path(path).exists() else None
    system, root = _locate(str(dataset or path), filesystem)
    prefix = path.partition("://")[0] + "://" if "://" in path else ""
    with reading(path):
        info = system.get_file_info(root)
        if info.type == fs.FileType.File:
            return [_data_file(system, info, prefix, fallback)]
        if info.type == fs.FileType.Directory:
            infos = files_below(system, root)
        elif _WILD.search(root):
            components = PurePosixPath(root).parts
            fixed = next(index for index, component in enumerate(components) if _WILD.search(component))
            infos = list(_glob(system, str(PurePosixPath(*components[:fixed])) if fixed else "", components[fixed:]))
        else:
            raise DataError(_nothing(path))
    data = [info for info in infos if _is_data(info, fallback)]
    if not data:
        others = (
            f": of {len(infos)} files, such as {infos[0].base_name}, none has a known suffix: say what they are, "
            "--format csv"
            if infos
            else ""
        )
        raise DataError(_nothing(path) + others)
    return [_data_file(system, info, prefix, fallback) for info in sorted(data, key=lambda info: str(info.path))]


def _is_data(info: fs.FileInfo, fallback: str | None) -> bool:
    """Whether a file has a known format. Text without a byte is left out: it has no rows."""
    kind = format_of(info.base_name, fallback)[0]
    return kind is not None and not (kind in TEXT and info.size == 0)


def _nothing(path: str) -> str:
    folder, given = os.environ.get("BITLANE_DATA"), Path(path)
    is_name = "/" not in path and "." not in path
    names = [] if "://" in path else names_beside(given)
    if is_name and folder and Path(folder).is_dir():
        names += [each.stem for each in Path(folder).glob("*.npz")]
    near = near_names(given.name, names, least=0.7)
    hint = f"; for the data set, set BITLANE_DATA to a folder with {path}.npz" if is_name and not near else near
    return f"no file matches {path!r}{hint}"


def _data_file(system: fs.FileSystem, info: fs.FileInfo, prefix: str, fallback: str | None) -> DataFile:
    kind, compression = format_of(info.base_name, fallback)
    name = prefix + info.path
    if kind is None:
        known = " ".join(FORMATS)
        packed = " ".join(COMPRESSIONS)
        if fallback is not None:
            raise DataError(f"{name}: this format is read without {compression} only: unpack it")
        raise DataError(
            f"{name}: unknown format: say what it is, --format csv; known suffixes are {known}, and {packed} of text"
        )
    if info.size == 0:
        raise DataError(f"{name}: the file is empty")
    return DataFile(system, info.path, name, info.size or 0, kind, compression)


def _locate(path: str, filesystem: fs.FileSystem | None) -> tuple[fs.FileSystem, str]:
    """Return the file system, and the path in it, with its wild cards."""
    wild = re.search(r"[*\[]", path) if filesystem is None and "://" in path else None
    cut = path.rindex("/", 0, wild.start()) if wild else len(path)
    system, root = locate(path[:cut], filesystem)
    return system, root + path[cut:]


def files_below(system: fs.FileSystem, root: str) -> list[fs.FileInfo]:
    """Return the files of a folder and of all folders below, apart from names that begin with ``.`` or ``_``."""
    infos = system.get_file_info(fs.FileSelector(root, recursive=True))
    skip = len(PurePosixPath(root).parts)
    return [
        info
        for info in infos
        if info.type == fs.FileType.File
        and not any(_is_hidden(component) for component in PurePosixPath(info.path).parts[skip:])
    ]


def _glob(system: fs.FileSystem, base: str, patterns: Sequence[str]) -> Iterator[fs.FileInfo]:
    """Yield the files that match a pattern, one folder at a time; a folder that matches gives all its files."""
    if patterns[0] == "**":
        rest = [pattern for pattern in patterns if pattern != "**"] or ["*"]
        below = len(PurePosixPath(base).parts)
        for info in files_below(system, base):
            names = PurePosixPath(info.path).parts[below:]
            tail = names[-len(rest) :]
            if len(names) >= len(rest) and all(fnmatchcase(*pair) for pair in zip(tail, rest, strict=True)):
                yield info
        return
    for info in system.get_file_info(fs.FileSelector(base, allow_not_found=True)):
        if not fnmatchcase(info.base_name, patterns[0]) or (_is_hidden(info.base_name) and not _is_hidden(patterns[0])):
            continue
        if info.type == fs.FileType.Directory:
            yield from _glob(system, info.path, patterns[1:]) if len(patterns) > 1 else files_below(system, info.path)
        elif info.type == fs.FileType.File and len(patterns) == 1:
            yield info


def _is_hidden(name: str) -> bool:
    return name[:1] in (".", "_")
