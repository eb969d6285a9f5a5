"""Who uses which version. A reader that does not renew its note is forgotten."""

from __future__ import annotations

import contextlib
import re

from bitlane.errors import DataError
from bitlane.sparse.registry import records
from bitlane.support.stores import FileMissing, Store

LEASE_SECONDS = 600.0  # a reader renews its note several times in this time
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Readers:
    """The readers in a registry's folder.

    Parameters
    ----------
    store : Store
        Of the registry.
    """

    def __init__(self, store: Store):
        self._store = store

    def note(self, reader: str, version: int) -> None:
        """Note that a reader uses a version from now on.

        Raises
        ------
        DataError
            The name has other characters than letters, digits, ``.``, ``_`` and ``-``.
        BitlaneError
            It cannot be written.
        """
        record = {"reader": reader, "version": version, "time": records.now()}
        self._store.replace(_path(reader), records.to_bytes(record))

    def forget(self, reader: str) -> None:
        """Remove the note of a reader."""
        self._store.remove(_path(reader))

    def current(self) -> dict[str, int]:
        """Return the version of each reader whose note is not older than `LEASE_SECONDS`."""
        return {name: version for name, (version, age) in self._notes().items() if age <= LEASE_SECONDS}

    def forget_expired(self) -> None:
        """Remove the other notes."""
        for name, (_, age) in self._notes().items():
            if age > LEASE_SECONDS:
                self.forget(name)

    def _notes(self) -> dict[str, tuple[int, float]]:
        """Return version and age in seconds of all notes; DataError if one is damaged."""
        notes = {}
        for each in self._store.names("readers"):
            with contextlib.suppress(FileMissing):  # the reader has just ended
                name, version, age = self.noted(each)
                notes[name] = version, age
        return notes

    def noted(self, name: str) -> tuple[str, int, float]:
        """Return reader, version and age in seconds of a note; DataError if it is damaged."""
        path = f"readers/{name}"
        record = records.from_bytes(self._store.read(path), self._store.name_of(path))
        try:
            return str(record["reader"]), int(record["version"]), records.seconds_since(record["time"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{self._store.name_of(path)} is damaged: it is not the note of a reader") from error


def _path(reader: str) -> str:
    if not _NAME.fullmatch(reader):
        raise DataError(f"{reader!r} cannot be the name of a reader: use letters, digits, '.', '_' and '-'")
    return f"readers/{reader}.json"
