"""Folders on any file system that pyarrow reaches: files that appear complete or not at all, with their SHA-256."""

# pyarrow has no types: its file systems and buffers are Any.
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitlane.errors import BitlaneError, DataError
from bitlane.support.atomic import atomic_write
from bitlane.support.file_bytes import copied_bytes, mapped_bytes, sha256_of
from bitlane.support.local_folder import LocalFolder
from bitlane.support.optional import require_extra

_BLOCK = 1 << 24  # bytes that are hashed or copied at once


class FileTaken(BitlaneError):
    """A file of this name exists."""


class FileMissing(DataError):
    """There is no file of this name."""


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
    write it at once, and symbolic links below the folder are refused. On other file systems `write` is a plain put, and
    the last of them wins.

    Parameters
    ----------
    uri : str or Path
        A local path, or ``s3://``, ``gs://``, ``hdfs://`` and whatever else pyarrow reaches. It need not exist.
    filesystem : pyarrow.fs.FileSystem, optional
        Where `uri` is a path; by default the URI says it.
    below : str, optional
        A folder below `uri`, whose store this is: unlike `uri` itself, it is reached by no symbolic link.
    mapped : bool, default=False
        Let `open` map local files instead of reading them into memory: see there.

    Attributes
    ----------
    uri : str
        With the folder below.
    below : str
    is_local : bool

    Raises
    ------
    DataError
        The URI cannot be used.
    """

    def __init__(self, uri: str | Path, filesystem: Any = None, *, below: str = "", mapped: bool = False):
        self._fs = require_extra("pyarrow.fs", "a folder by URI", "'bitlane[sparse]'")
        self._top, self.below = str(uri).rstrip("/") or "/", below
        self.uri = f"{self._top}/{below}" if below else self._top
        self._given, self._mapped = filesystem, mapped
        self._system, self._root = locate(self._top, filesystem)
        self._local = None
        if isinstance(self._system, self._fs.LocalFileSystem):
            self._local = LocalFolder(self._root, self._top)
        self.is_local = self._local is not None

    @property
    def address(self) -> str:
        """The path or URI that means the same in other processes; the store is `below` it."""
        return self._root if self.is_local else self._top

    def folder(self, name: str) -> Store:
        """Return the store of a folder below, which need not exist."""
        return Store(self._top, self._given, below=self._below(name), mapped=self._mapped)

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
            digest = pool.submit(sha256_of, views)
            self._put(name, views, replace=False)
        return StoredFile(name, sum(map(len, views)), digest.result(), rows)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file at once, replacing one that may be there; errors as of `write`."""
        with self._errors(name, "written"):
            self._put(name, [memoryview(data)], replace=True)

    def remove(self, name: str) -> None:
        """Remove a file; one that is missing is fine."""
        with self._errors(name, "removed"), contextlib.suppress(FileNotFoundError):
            if self._local is not None:
                self._local.remove(self._below(name))
            else:
                self._system.delete_file(self._path(name))

    def remove_folder(self, name: str) -> None:
        """Remove a folder and all that is in it; one that is missing is fine."""
        with self._errors(name, "removed"), contextlib.suppress(FileNotFoundError):
            if self._local is not None:
                self._local.remove(self._below(name))
            else:
                self._system.delete_dir(self._path(name))

    def move(self, name: str, to: str) -> None:
        """Give a file another name, or a folder with all that is in it; `to` is not there.

        Raises
        ------
        FileMissing
        BitlaneError
            It cannot be moved.
        """
        with self._errors(name, "moved"):
            if self._local is not None:
                self._local.move(self._below(name), self._below(to))
                return
            path, kinds = self._path(name), self._fs.FileType
            entries = self._system.get_file_info(self._fs.FileSelector(path, allow_not_found=True, recursive=True))
            files = [each.path for each in entries if each.type == kinds.File] or [path]
            for each in files:  # object stores move no folders
                target = self._path(to) + each[len(path) :]
                self._system.create_dir(target.rpartition("/")[0], recursive=True)
                self._system.move(each, target)
            if entries:
                self._system.delete_dir(path)

    # --- reading
    def names(self, folder: str = "", *, hidden: bool = False) -> list[str]:
        """Return the names of files and folders in a folder, sorted; none if it is missing.

        `hidden` ones begin with a dot: what a killed process has left of a file, for example.
        """
        with self._errors(folder, "read"):
            if self._local is not None:
                names = self._local.names(self._below(folder))
            else:
                entries = self._system.get_file_info(self._fs.FileSelector(self._path(folder), allow_not_found=True))
                names = [info.base_name for info in entries]
        return sorted(each for each in names if hidden or not each.startswith("."))

    def holders(self, folder: str, name: str) -> list[str]:
        """Return the names of the folders in a folder that have a file of this name, sorted.

        On a local disk, links in the folder are among them, and folders with anything of this name: reading tells what
        is wrong.
        """
        with self._errors(folder, "read"):
            if self._local is not None:
                return sorted(self._local.holders(self._below(folder), name))
            root = self._path(folder)
            selector = self._fs.FileSelector(root, allow_not_found=True, recursive=True)
            files = [each for each in self._system.get_file_info(selector) if each.type == self._fs.FileType.File]
        paths = (each.path[len(root) + 1 :].split("/") for each in files)
        return sorted(path[0] for path in paths if path[1:] == [name])

    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""
        with self._errors(name, "read"):
            if self._local is not None:
                return self._local.exists(self._below(name))
            return bool(self._system.get_file_info(self._path(name)).type == self._fs.FileType.File)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        Raises
        ------
        FileMissing
        DataError
            Something else has its name.
        BitlaneError
            It cannot be read.
        """
        with self._errors(name, "read"):
            if self._local is not None:
                with self._local.opened(self._below(name)) as file, open(file, "rb", closefd=False) as source:
                    return source.read()
            with self._system.open_input_file(self._path(name)) as source:
                return bytes(source.read())

    def open(self, file: StoredFile, cache: Path | None = None) -> Any:
        """Return the bytes of a file, once they have been held against their size and SHA-256.

        They are a copy in memory, so what was checked stays. A map would take no memory of its own, but its pages may
        go with the file: if that is cut off in place, by a copy onto it for example, the system ends the process that
        touches them (SIGBUS). A private map is no better, nor another link to the file. `mapped` is for models that do
        not fit, where nobody writes to files in place.

        Parameters
        ----------
        file : StoredFile
        cache : Path, optional
            A local folder for copies of files that are not local. Default: they are held in memory.

        Returns
        -------
        object with the buffer protocol
            Of a local file or copy: it may be written to, and never changes the file.

        Raises
        ------
        DataError
            The file is missing or damaged.
        BitlaneError
            It cannot be read.
        """
        with self._errors(file.name, "read"):
            if self._local is not None:
                with self._local.opened(self._below(file.name)) as descriptor:
                    data: Any = self._bytes_of(descriptor)
            elif cache is None:
                with self._system.open_input_file(self._path(file.name)) as source:
                    data = source.read_buffer()
            else:
                with open(self._cached(file, cache), "rb") as copy:
                    data = self._bytes_of(copy.fileno())
            self._check(file, data)
        return data

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """A section for one process at a time, on a local disk; elsewhere it keeps nobody out."""
        return contextlib.nullcontext() if self._local is None else self._section(self._local, ".lock", wait=True)

    def held(self, name: str) -> contextlib.AbstractContextManager[None]:
        """A section that has a file of a local disk for itself, as long as the process lives; elsewhere it has not.

        Raises
        ------
        FileTaken
            Another section has the file.
        """
        return contextlib.nullcontext() if self._local is None else self._section(self._local, name, wait=False)

    def is_held(self, name: str) -> bool:
        """Return whether a section of `held` has a file of a local disk, in any process; elsewhere, False."""
        with self._errors(name, "read"):
            return self._local is not None and self._local.is_locked(self._below(name))

    def written_at(self, name: str) -> float:
        """Return when a file that is not local was written, by the clock of the store; FileMissing if there is none."""
        with self._errors(name, "read"):
            info = self._system.get_file_info(self._path(name))
            if info.type == self._fs.FileType.NotFound:
                raise FileNotFoundError
        return float(info.mtime_ns) / 1e9

    # --- inside
    def _below(self, name: str) -> str:
        return "/".join(each for each in (self.below, name) if each)

    def _path(self, name: str) -> str:
        return "/".join(each for each in (self._root, self._below(name)) if each)

    @contextlib.contextmanager
    def _section(self, local: LocalFolder, name: str, *, wait: bool) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            with self._errors(name, "locked"):
                try:
                    stack.enter_context(local.locked(self._below(name), wait=wait))
                except BlockingIOError as error:
                    raise FileTaken(f"{self.name_of(name)} is in use") from error
            yield

    def _put(self, name: str, views: Sequence[memoryview], replace: bool) -> None:
        path = self._path(name)
        if self._local is not None:
            if not self._local.put(self._below(name), views, replace):
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
        if path.exists():
            with open(path, "rb") as copied:
                if sha256_of(iter(lambda: copied.read(_BLOCK), b"")) == file.sha256:
                    return path
        cache.mkdir(parents=True, exist_ok=True)
        source = self._system.open_input_stream(self._path(file.name))
        with source, atomic_write(path) as temporary, open(temporary, "wb") as copy:
            while block := source.read(_BLOCK):
                copy.write(block)
        return path

    def _bytes_of(self, file: int) -> Any:
        return mapped_bytes(file) if self._mapped else copied_bytes(file)

    def _check(self, file: StoredFile, data: Any) -> None:
        if len(data) != file.bytes:
            raise DataError(f"{self.name_of(file.name)} is damaged: it has {len(data):,} bytes, not {file.bytes:,}")
        actual = sha256_of([data])
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
            raise FileMissing(f"{self.name_of(name)} is missing") from error
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
