"""Which keys a table has changed: added, updated or removed."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.tables.mixing import keys_of, words_of

_PENDING = 1 << 20  # words that wait at least before they are sorted into those that are known

Keys = NDArray[np.uint64]


class ChangeLog:
    """The keys that a table has changed since `take` was called last. Any thread may call it.

    Whoever changes rows adds their keys in the same section of the table, so that `take` inside ``table.frozen()``,
    together with copies of the rows, is a consistent cut. The log takes 8 bytes for each distinct key, twice while it
    sorts, and 8 for each key that waits to be sorted: as many as there are distinct ones, and 2^20 at least.

    Attributes
    ----------
    tracking : bool
        Whether keys are remembered; set it to True before the first cut.
    """

    def __init__(self) -> None:
        self.tracking = False
        self._lock = threading.Lock()
        self._known = np.zeros(0, np.uint64)  # words, ascending
        self._pending: list[Keys] = []
        self._count = 0

    def add(self, keys: Keys) -> None:
        """Add keys, uint64 [n]; equal ones are one. Those that `take` returned are put back so after a failure."""
        if not self.tracking:
            return
        with self._lock:
            self._pending.append(words_of(keys))
            self._count += len(keys)
            if self._count > max(_PENDING, len(self._known)):
                self._sort()

    def take(self) -> Keys:
        """Return the distinct keys in the order of their words, and forget them."""
        with self._lock:
            self._sort()
            words, self._known = self._known, np.zeros(0, np.uint64)
        return keys_of(words)

    def _sort(self) -> None:
        words = np.concatenate([self._known, *self._pending])
        words.sort()  # np.unique of numpy 2.3 hashes first, which takes nine times as long
        self._known = words[np.concatenate([words[:1] == words[:1], words[1:] != words[:-1]])]
        self._pending, self._count = [], 0
