"""A folder on a local disk, reached by descriptors: no symbolic link in it is followed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator, Sequence

from bitlane.errors import DataError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC


class LocalFolder:
    """The files below a folder. The folder itself may be named by a link; what lies below must be plain.

    Every folder on the way to a file is opened by its name in the one above, so a link that comes in the meantime is
    not followed either. Names have ``/`` between folders. Besides the errors below, methods raise OSError.

    Parameters
    ----------
    path : str
        It need not exist.
    uri : str
        Its name in messages.

    Raises
    ------
    DataError
        Of all methods: a file or folder on the way is a symbolic link, or a name leads out of the folder.
    """

    def __init__(self, path: str, uri: str):
        self._path, self._uri = path, uri

    # --- reading
    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if it is missing."""
        try:
            with self._entered(folder) as held:
                return os.listdir(held)
        except FileNotFoundError:
            return []

    def holders(self, folder: str, name: str) -> list[str]:
        """Return the names in a folder of the folders that have an entry of this name, and of links."""
        try:
            with self._entered(folder) as held:
                return [each for each in os.listdir(held) if _holds(each, name, held)]
        except FileNotFoundError:
            return []

    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""
        folder, base = self._parts(name)
        try:
            with self._entered(folder) as held:
                mode = os.lstat(base, dir_fd=held).st_mode
        except FileNotFoundError:
            return False
        if stat.S_ISLNK(mode):
            raise self._link(name)
        return stat.S_ISREG(mode)

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[int]:
        """A section with the descriptor of a file, to read; DataError if something else has its name."""
        folder, base = self._parts(name)
        with self._entered(folder) as held:
            # Without O_NONBLOCK, a pipe would wait for a writer.
            file = self._open(name, base, os.O_RDONLY | os.O_NONBLOCK, held)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise DataError(f"{self._name(name)} is damaged: it is not a file")
            yield file
        finally:
            os.close(file)

    # --- writing
    def put(self, name: str, views: Sequence[memoryview], replace: bool) -> bool:
        """Write a file under a temporary name, force it to the disk, and give it its name: at once, or not at all.

        Returns
        -------
        bool
            False: the name is taken, and may not be replaced.
        """
        folder, base = self._parts(name)
        temporary = f".{base}.{os.getpid()}-{threading.get_ident()}"
        with self._entered(folder, make=True) as held:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=held)  # of a process of the same number that was killed
            try:
                file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o644, dir_fd=held)
                with open(file, "wb") as sink:
                    for view in views:
                        sink.write(view)
                    sink.flush()
                    os.fsync(file)
                if replace:
                    os.replace(temporary, base, src_dir_fd=held, dst_dir_fd=held)
                else:
                    try:  # unlike a renaming, a link fails if the name is taken
                        os.link(temporary, base, src_dir_fd=held, dst_dir_fd=held, follow_symlinks=False)
                    except FileExistsError:
                        return False
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=held)
            os.fsync(held)
        return True

    def remove(self, name: str) -> None:
        """Remove a file, a link itself, or a folder and all that is in it; one that is missing is fine."""
        folder, base = self._parts(name)
        with contextlib.suppress(FileNotFoundError), self._entered(folder) as held:
            _remove(base, held)

    def move(self, name: str, to: str) -> None:
        """Give a file or folder another name, or a link itself; the folders on the way are made."""
        (folder, base), (other, new) = self._parts(name), self._parts(to)
        with self._entered(folder) as held, self._entered(other, make=True) as target:
            os.rename(base, new, src_dir_fd=held, dst_dir_fd=target)
            os.fsync(target)
            os.fsync(held)

    def locked(self, name: str, *, wait: bool) -> contextlib.AbstractContextManager[None]:
        """A section that has a file for itself as long as the process lives; the file is made if it is missing.

        Without `wait`, BlockingIOError if another section has it.
        """
        return self._locked(name, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))

    def is_locked(self, name: str) -> bool:
        """Return whether a section has a file for itself; False if there is no such file."""
        try:
            with self.opened(name) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            pass
        return False

    # --- inside
    @contextlib.contextmanager
    def _locked(self, name: str, operation: int) -> Iterator[None]:
        folder, base = self._parts(name)
        with self._entered(folder, make=True) as held:
            file = self._open(name, base, os.O_RDWR | os.O_CREAT, held)
        try:
            fcntl.flock(file, operation)
            yield
        finally:
            os.close(file)

    @contextlib.contextmanager
    def _entered(self, folder: str, make: bool = False) -> Iterator[int]:
        """A section with the descriptor of a folder, which is made on demand."""
        if make:
            os.makedirs(self._path, exist_ok=True)
        held, passed = os.open(self._path, _FOLDER), ""
        try:
            for part in folder.split("/") if folder else ():
                passed = f"{passed}/{part}" if passed else part
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=held)
                below = self._open(passed, part, _FOLDER, held)
                os.close(held)
                held = below
            yield held
        finally:
            os.close(held)

    def _open(self, name: str, base: str, flags: int, held: int) -> int:
        try:
            return os.open(base, flags | _FILE, 0o644, dir_fd=held)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.EISDIR):
                raise
            if stat.S_ISLNK(os.lstat(base, dir_fd=held).st_mode):
                raise self._link(name) from error
            expected = "folder" if flags & os.O_DIRECTORY else "file"
            raise DataError(f"{self._name(name)} is damaged: it is not a {expected}") from error

    def _parts(self, name: str) -> tuple[str, str]:
        """Return the folder of a file, and the name in it."""
        if {"", ".", ".."} & set(name.split("/")):
            raise DataError(f"{name!r} cannot be the name of a file in {self._uri}")
        folder, _, base = name.rpartition("/")
        return folder, base

    def _link(self, name: str) -> DataError:
        return DataError(
            f"{self._name(name)} is a symbolic link, and none is followed here: put what it names in its place"
        )

    def _name(self, name: str) -> str:
        return f"{self._uri}/{name}"


def _holds(folder: str, name: str, held: int) -> bool:
    try:
        if not stat.S_ISLNK(os.lstat(folder, dir_fd=held).st_mode):
            os.lstat(f"{folder}/{name}", dir_fd=held)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _remove(base: str, held: int) -> None:
    if not stat.S_ISDIR(os.lstat(base, dir_fd=held).st_mode):
        os.unlink(base, dir_fd=held)
        return
    below = os.open(base, _FOLDER | os.O_NOFOLLOW, dir_fd=held)
    try:
        for each in os.listdir(below):
            with contextlib.suppress(FileNotFoundError):
                _remove(each, below)
    finally:
        os.close(below)
    os.rmdir(base, dir_fd=held)
