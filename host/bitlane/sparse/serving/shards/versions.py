"""The versions of one shard that a weight server holds: those in use, and the next while it is being loaded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from bitlane.errors import BitlaneError
from bitlane.sparse.scoring.layers import WeightTable
from bitlane.sparse.servers.failures import reason_of
from bitlane.sparse.servers.wire import VersionMissing
from bitlane.support.priority import yield_to_others

KEPT = 2  # versions: the current one and the one before, or the one after

LoadTable = Callable[[int], WeightTable]


class HeldVersions:
    """The tables of one shard by version. For several threads.

    Loading another version than the two that are held drops the one of these that was not in use for longest.

    Parameters
    ----------
    load : callable
        From a version to the table of the shard.
    """

    def __init__(self, load: LoadTable):
        self._load = load
        self._lock = threading.Lock()
        self._tables: dict[int, WeightTable] = {}  # the one that was used last is the last one
        self._failed: dict[int, str] = {}
        self._loading: list[int] = []  # the first one now, the others after it

    def table(self, version: int) -> WeightTable:
        """Return the table of a version.

        Raises
        ------
        VersionMissing
            The server does not hold it.
        """
        with self._lock:
            try:
                table = self._tables.pop(version)
            except KeyError:
                held = ", ".join(map(str, self._tables)) or "none"
                raise VersionMissing(f"version {version} is not loaded; loaded versions: {held}") from None
            self._tables[version] = table
            return table

    def touch(self, versions: Iterable[int]) -> None:
        """Note that these versions are in use, as far as they are held."""
        with self._lock:
            for version in versions:
                if version in self._tables:
                    self._tables[version] = self._tables.pop(version)

    def load(self, version: int) -> None:
        """Load a version in a thread, unless it is held, after those that are being loaded.

        Two wait at most: a third one replaces the first.
        """
        with self._lock:
            if version in self._tables or version in self._loading:
                return
            self._failed.pop(version, None)
            self._loading.append(version)
            if len(self._loading) == 1:
                threading.Thread(target=self._work, name="bitlane-load", daemon=True).start()
            if len(self._loading) > 1 + KEPT:
                del self._loading[1]

    def state(self) -> dict[str, Any]:
        """Return the versions that are held, those that are being loaded, and why others could not be loaded."""
        with self._lock:
            return {
                "versions": sorted(self._tables),
                "loading": list(self._loading),
                "failed": {str(version): reason for version, reason in self._failed.items()},
                "bytes": sum(table.nbytes for table in self._tables.values()),
            }

    def _work(self) -> None:
        """Load versions until none waits."""
        yield_to_others()
        while True:
            with self._lock:
                version = self._loading[0]
            try:
                table = self._load(version)
                table.lookup(np.zeros(1, np.uint64))  # so that no request waits for a compiler
                reason = None
            except Exception as error:  # `state` shows it
                reason = str(error) if isinstance(error, BitlaneError) else reason_of(error)
            with self._lock:
                del self._loading[0]
                if reason is not None:
                    self._failed[version] = reason
                    self._forget_failures()
                else:
                    while len(self._tables) >= KEPT:
                        del self._tables[next(iter(self._tables))]
                    self._tables[version] = table
                if not self._loading:
                    return

    def _forget_failures(self) -> None:
        while len(self._failed) > KEPT:
            del self._failed[next(iter(self._failed))]
