"""Folders on any file system that pyarrow reaches: files that appear complete or not at all, with their SHA-256."""

# pyarrow has no types: its file systems and buffers are Any.
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitlane.errors import BitlaneError, DataError
from bitlane.support.atomic import atomic_write, sync_entries
from bitlane.support.optional import require_extra

_BLOCK = 1 << 24  # bytes that are hashed or copied at once


class FileTaken(BitlaneError):
    """A file of this name exists."""


@dataclass(frozen=True)
class StoredFile:
    """What is known of a file that was written.

    Attributes
    ----------
    name : str
    bytes : int
    sha256 : str
        In hexadecimal digits.
    rows : int
        Of a table; 0 for other files.
    """

    name: str
    bytes: int
    sha256: str
    rows: int = 0


class Store:
    """A folder on a local disk or on another file system of pyarrow. Any thread and process may use it.

    Files are written once: `write` refuses a name that exists. On a local disk a name has one winner among those who
    write it at once. On other file systems `write` is a plain put, and the last of them wins.

    Parameters
    ----------
    uri : str or Path
        A local path, or ``s3://``, ``gs://``, ``hdfs://`` and whatever else pyarrow reaches. It need not exist.
    filesystem : pyarrow.fs.FileSystem, optional
        Where `uri` is a path; by default the URI says it.

    Attributes
    ----------
    uri : str
    is_local : bool

    Raises
    ------
    DataError
        The URI cannot be used.
    """

    def __init__(self, uri: str | Path, filesystem: Any = None):
        self._fs = require_extra("pyarrow.fs", "a folder by URI", "'bitlane[sparse]'")
        self.uri = str(uri).rstrip("/") or "/"
        self._given = filesystem
        self._system, self._root = locate(self.uri, filesystem)
        self.is_local = isinstance(self._system, self._fs.LocalFileSystem)

    @property
    def address(self) -> str:
        """The path or URI that means the same in other processes."""
        return self._root if self.is_local else self.uri

    def folder(self, name: str) -> Store:
        """Return the store of a folder below, which need not exist."""
        return Store(self.name_of(name)) if self._given is None else Store(f"{self._root}/{name}", self._given)

    def name_of(self, name: str) -> str:
        """Return the name of a file in the store, for messages."""
        return f"{self.uri}/{name}" if name else self.uri

    # --- writing
    def write(self, name: str, buffers: Sequence[Any], rows: int = 0) -> StoredFile:
        """Write a new file, forced to the disk where that is possible.

        Parameters
        ----------
        name : str
            With ``/`` between folders, which are made.
        buffers : sequence of objects with the buffer protocol
            The bytes, in order.
        rows : int, default=0
            For `StoredFile`.

        Raises
        ------
        FileTaken
            There is such a file.
        BitlaneError
            It cannot be written. Nothing is left of it on a local disk.
        """
        views = [memoryview(each).cast("B") for each in buffers]
        with ThreadPoolExecutor(1) as pool, self._errors(name, "written"):
            digest = pool.submit(_sha256, views)
            self._put(name, views, replace=False)
        return StoredFile(name, sum(map(len, views)), digest.result(), rows)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file at once, replacing one that may be there; errors as of `write`."""
        with self._errors(name, "written"):
            self._put(name, [memoryview(data)], replace=True)

    def remove(self, name: str) -> None:
        """Remove a file; one that is missing is fine."""
        with self._errors(name, "removed"), contextlib.suppress(FileNotFoundError):
            self._system.delete_file(self._path(name))

    def remove_folder(self, name: str) -> None:
        """Remove a folder and all that is in it; one that is missing is fine."""
        with self._errors(name, "removed"), contextlib.suppress(FileNotFoundError):
            self._system.delete_dir(self._path(name))

    # --- reading
    def names(self, folder: str = "", *, hidden: bool = False) -> list[str]:
        """Return the names of files and folders in a folder, sorted; none if it is missing.

        `hidden` ones begin with a dot: what a killed process has left of a file, for example.
        """
        with self._errors(folder, "read"):
            entries = self._system.get_file_info(self._fs.FileSelector(self._path(folder), allow_not_found=True))
        return sorted(info.base_name for info in entries if hidden or not info.base_name.startswith("."))

    def files(self, folder: str) -> list[str]:
        """Return the names, relative to a folder, of all files below it; none if it is missing."""
        root = self._path(folder)
        with self._errors(folder, "read"):
            selector = self._fs.FileSelector(root, allow_not_found=True, recursive=True)
            entries = self._system.get_file_info(selector)
        return [info.path[len(root) + 1 :] for info in entries if info.type == self._fs.FileType.File]

    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""
        with self._errors(name, "read"):
            return bool(self._system.get_file_info(self._path(name)).type == self._fs.FileType.File)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        Raises
        ------
        DataError
            There is no such file.
        BitlaneError
            It cannot be read.
        """
        with self._errors(name, "read"), self._system.open_input_file(self._path(name)) as file:
            return bytes(file.read())

    def open(self, file: StoredFile, cache: Path | None = None) -> Any:
        """Return the bytes of a file, once they have been held against their size and SHA-256.

        Parameters
        ----------
        file : StoredFile
        cache : Path, optional
            A local folder for copies of files that are not local. Default: they are held in memory.

        Returns
        -------
        object with the buffer protocol
            Of a local file or copy: a private map, which may be written to and never changes the file.

        Raises
        ------
        DataError
            The file is missing or damaged.
        BitlaneError
            It cannot be read.
        """
        with self._errors(file.name, "read"):
            if self.is_local:
                data: Any = _map(Path(self._path(file.name)))
            elif cache is None:
                with self._system.open_input_file(self._path(file.name)) as source:
                    data = source.read_buffer()
            else:
                data = _map(self._cached(file, cache))
            self._check(file, data)
        return data

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """A section for one process at a time, on a local disk; elsewhere it keeps nobody out."""
        return _lock(Path(self._root) / ".lock") if self.is_local else contextlib.nullcontext()

    def held(self, name: str) -> contextlib.AbstractContextManager[None]:
        """A section that has a file of a local disk for itself, as long as the process lives; elsewhere it has not.

        Raises
        ------
        FileTaken
            Another section has the file.
        """
        return _lock(Path(self._path(name)), self.name_of(name)) if self.is_local else contextlib.nullcontext()

    # --- inside
    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _put(self, name: str, views: Sequence[memoryview], replace: bool) -> None:
        path = self._path(name)
        if self.is_local:
            if not _put_local(Path(path), views, replace):
                raise FileTaken(f"{self.name_of(name)} exists")
            return
        if not replace and self.exists(name):
            raise FileTaken(f"{self.name_of(name)} exists")
        self._system.create_dir(path.rpartition("/")[0], recursive=True)
        with self._system.open_output_stream(path) as sink:
            for view in views:
                sink.write(view)

    def _cached(self, file: StoredFile, cache: Path) -> Path:
        """Return the copy of a file, whose name is its SHA-256: a damaged copy is made again."""
        path = cache / file.sha256
        if path.exists() and path.stat().st_size == file.bytes and _sha256([memoryview(_map(path))]) == file.sha256:
            return path
        cache.mkdir(parents=True, exist_ok=True)
        source = self._system.open_input_stream(self._path(file.name))
        with source, atomic_write(path) as temporary, open(temporary, "wb") as copy:
            while block := source.read(_BLOCK):
                copy.write(block)
        return path

    def _check(self, file: StoredFile, data: Any) -> None:
        if len(data) != file.bytes:
            raise DataError(f"{self.name_of(file.name)} is damaged: it has {len(data):,} bytes, not {file.bytes:,}")
        actual = _sha256([memoryview(data)])
        if actual != file.sha256:
            raise DataError(f"{self.name_of(file.name)} is damaged: its SHA-256 is {actual}, not {file.sha256}")

    @contextlib.contextmanager
    def _errors(self, name: str, verb: str) -> Iterator[None]:
        """Turn the errors of file systems into ours."""
        pyarrow = require_extra("pyarrow", "a folder by URI", "'bitlane[sparse]'")
        try:
            yield
        except BitlaneError:
            raise
        except FileNotFoundError as error:
            raise DataError(f"{self.name_of(name)} is missing") from error
        except (pyarrow.ArrowException, OSError) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
            raise BitlaneError(f"{self.name_of(name)} cannot be {verb}: {reason}") from error


def locate(uri: str, filesystem: Any = None) -> tuple[Any, str]:
    """Return the file system of a URI or local path, and the path in it.

    Parameters
    ----------
    uri : str
    filesystem : pyarrow.fs.FileSystem, optional
        The one in which `uri` is a path.

    Raises
    ------
    DataError
        The URI cannot be used.
    """
    pyarrow = require_extra("pyarrow", "a file by URI", "'bitlane[sparse]'")
    fs = require_extra("pyarrow.fs", "a file by URI", "'bitlane[sparse]'")
    if filesystem is not None:
        return filesystem, uri
    if "://" not in uri:
        return fs.LocalFileSystem(), str(Path(uri).expanduser().absolute())
    try:
        system, root = fs.FileSystem.from_uri(uri)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{uri}: cannot be reached: {' '.join(str(error).split())}") from error
    return system, root.rstrip("/")


def _put_local(path: Path, views: Sequence[memoryview], replace: bool) -> bool:
    """Write a file under a temporary name, force it to the disk, and give it its name: at once, or not at all.

    Returns
    -------
    bool
        False: the name is taken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with open(temporary, "wb") as file:
            for view in views:
                file.write(view)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            try:
                os.link(temporary, path)  # unlike a renaming, it fails if the name is taken
            except FileExistsError:
                return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_entries(path.parent)
    return True


def _map(path: Path) -> mmap.mmap | bytes:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) if size else b""


def _sha256(views: Sequence[memoryview]) -> str:
    digest = hashlib.sha256()
    for view in views:
        digest.update(view)
    return digest.hexdigest()


@contextlib.contextmanager
def _lock(path: Path, taken: str = "") -> Iterator[None]:
    """Lock a file; wait for it, unless its name for messages is given: then `FileTaken` says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | (fcntl.LOCK_NB if taken else 0))
        except BlockingIOError as error:
            raise FileTaken(f"{taken} is in use") from error
        yield
    finally:
        os.close(held)
