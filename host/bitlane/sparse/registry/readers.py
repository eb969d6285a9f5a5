"""Who uses which version: notes that count while their reader lives.

readers/ID.lock    locked by the process of the reader; the system unlocks it when the process ends, however it ends
readers/ID.json    the version that it uses

So no clock matters. Locks are those of `flock`; a folder that several machines share must pass them on to all of them,
as NFS does unless it is mounted with ``nolock`` or ``local_lock``. Object stores have no locks: there, a note counts
for `LEASE_SECONDS` since it was written, both by the clock of the store.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time

from bitlane.errors import DataError
from bitlane.sparse.registry import records
from bitlane.support.stores import FileMissing, FileTaken, Store

LEASE_SECONDS = 600.0  # on an object store; a reader renews its note several times in this time
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ATTEMPTS, _PAUSE = 50, 0.02  # to lock a file: who looks whether it is locked locks it for a moment
_CLOCK = "clock"  # a file whose time of writing is the time of an object store


class Readers:
    """The readers in a registry's folder. For several threads.

    Parameters
    ----------
    store : Store
        Of the registry.
    """

    def __init__(self, store: Store):
        self._store = store
        self._mutex = threading.Lock()
        self._held: dict[str, contextlib.ExitStack] = {}  # by reader

    def note(self, reader: str, version: int) -> None:
        """Note that a reader uses a version from now on, instead of the one that it used before.

        It counts as long as this process lives and does not forget it; on an object store, for `LEASE_SECONDS`.

        Raises
        ------
        DataError
            The name has other characters than letters, digits, ``.``, ``_`` and ``-``.
        BitlaneError
            It cannot be written, or another process has a reader of this name.
        """
        data = records.to_bytes({"reader": reader, "version": version})
        with self._mutex, self._store.locked():  # nobody removes what is not locked yet
            if reader not in self._held:
                lease = contextlib.ExitStack()
                self._lock(reader, lease)
                self._held[reader] = lease
            self._store.replace(_note(reader), data)

    def forget(self, reader: str) -> None:
        """Remove the note of a reader, if it is one of this object."""
        with self._mutex, self._store.locked():
            if (lease := self._held.pop(reader, None)) is not None:
                with lease:
                    self._store.remove(_note(reader))
                    self._store.remove(_lock(reader))

    def current(self) -> dict[str, int]:
        """Return the version of each reader that lives; DataError if the note of one is damaged."""
        notes = {}
        for name in self._names():
            if self._lives(name):
                with contextlib.suppress(FileMissing):  # it has just ended
                    notes[name] = self._version(name)
        return notes

    def forget_dead(self) -> None:
        """Remove what readers that died have left. Call it while the store is locked."""
        for name in self._names():
            if not self._lives(name):
                self._store.remove(_note(name))
                self._store.remove(_lock(name))

    def _names(self) -> list[str]:
        names = (name.removesuffix(".json") for name in self._store.names("readers") if name.endswith(".json"))
        return [name for name in names if _NAME.fullmatch(name)]

    def _lives(self, reader: str) -> bool:
        if self._store.is_local:
            return self._store.is_held(_lock(reader))
        self._store.replace(f"readers/{_CLOCK}", b"")
        try:
            written, now = (self._store.written_at(name) for name in (_note(reader), f"readers/{_CLOCK}"))
        except FileMissing:
            return False
        return now - written <= LEASE_SECONDS

    def _version(self, reader: str) -> int:
        name = self._store.name_of(_note(reader))
        record = records.from_bytes(self._store.read(_note(reader)), name)
        if record.get("reader") != reader or not isinstance(record.get("version"), int):
            raise DataError(f"{name} is damaged: it is not the note of this reader")
        return int(record["version"])

    def _lock(self, reader: str, lease: contextlib.ExitStack) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                lease.enter_context(self._store.held(_lock(reader)))
                return
            except FileTaken:
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_PAUSE)


def _note(reader: str) -> str:
    if not _NAME.fullmatch(reader):
        raise DataError(f"{reader!r} cannot be the name of a reader: use letters, digits, '.', '_' and '-'")
    return f"readers/{reader}.json"


def _lock(reader: str) -> str:
    return f"{_note(reader).removesuffix('.json')}.lock"
