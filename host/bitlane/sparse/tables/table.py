"""A table from 64-bit keys to rows of float32."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.errors import DataError
from bitlane.sparse.tables.changes import ChangeLog
from bitlane.sparse.tables.locks import ReadersWriterLock
from bitlane.sparse.tables.sketch import Admission, Sketch
from bitlane.support.optional import require_extra

if TYPE_CHECKING:
    from bitlane.sparse.tables.storage import Storage

Keys = NDArray[np.uint64]
Rows = NDArray[np.float32]
Slots = NDArray[np.int64]
Keep = Callable[[Keys, Rows], NDArray[np.bool_]]
Chunk = tuple[Any, ...]  # keys, rows and, in a table with ages, stamps
_SWEPT = 1 << 16  # slots that a sweep judges at once


class Table:
    """Rows of `width` float32 by 64-bit key, in at most 1.2 times the memory of keys and rows.

    The bound holds from 1,000 rows on, while the table grows, and after `delete` and `sweep`, for keys that are not
    chosen against the mixing function. Memory comes and goes in steps of 5 %, and rows move in place.

    Any thread may call any method. A *slot* is the index of a row in `rows`; it is valid until rows come or go, which
    `updating` and `pinned` keep from happening. Threads that write to the same row at once overwrite each other's
    values (Hogwild); nothing else suffers.

    Parameters
    ----------
    width : int
    initial_rows : callable, optional
        From keys, uint64 [n], to the rows that new keys begin with, float32 [n, width]. Default: zeros.
    admission : Admission, optional
        Which keys `find_or_insert` inserts. Default: all.
    track_age : bool, default=False
        Each row has a stamp, uint32: the clock when `find_or_insert`, `pinned`, `scatter` or `touch` last met it.

    Attributes
    ----------
    width : int
    track_age : bool
    changes : ChangeLog

    Raises
    ------
    DataError
        The width is not positive.
    BitlaneError
        numba is not installed.
    """

    def __init__(
        self,
        width: int,
        *,
        initial_rows: Callable[[Keys], Rows] | None = None,
        admission: Admission | None = None,
        track_age: bool = False,
    ):
        require_extra("numba", "a table of sparse parameters", "'bitlane[sparse]'")
        from bitlane.sparse.tables.storage import Storage

        if width < 1:
            raise DataError(f"the width of a table must be at least 1; got {width}")
        self.width = width
        self.track_age = track_age
        self._initial_rows = initial_rows
        self._storage: Storage = Storage(width, track_age)
        self._sketch = None if admission is None else Sketch(admission)
        self._lock = ReadersWriterLock()
        self._clock = 0
        self._changes = 0  # how often rows came or went
        self.changes = ChangeLog()

    def __len__(self) -> int:
        return self._storage.count

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, without the sketch of the admission."""
        return self._storage.nbytes

    @property
    def sketch_nbytes(self) -> int:
        """Bytes of memory of the sketch that counts keys before their admission."""
        return 0 if self._sketch is None else self._sketch.cells.nbytes

    @property
    def data_nbytes(self) -> int:
        """Bytes of keys, rows and stamps."""
        return len(self) * (8 + 4 * self.width + (4 if self.track_age else 0))

    @property
    def rows(self) -> Rows:
        """The rows by slot, float32 [slots, width]: the memory of the table itself, valid until rows come or go.

        A retained array goes stale when the table grows, which then needs a copy.
        """
        return self._storage.rows

    @property
    def clock(self) -> int:
        """The stamp of rows that are met now."""
        return self._clock

    def tick(self, clock: int) -> None:
        """Set the clock, 0 to 2^32 - 1: days, minutes, or batches.

        Raises
        ------
        DataError
        """
        if not 0 <= clock < 1 << 32:
            raise DataError(f"the clock of a table must be 0 to 2^32 - 1; got {clock}")
        self._clock = clock

    # --- sections
    def updating(self) -> AbstractContextManager[None]:
        """A section in which no rows come or go: slots and `rows` stay valid. Any number of threads may be inside."""
        return self._lock.shared

    def frozen(self) -> AbstractContextManager[None]:
        """A section that this thread has alone: nobody else reads, updates, inserts or removes."""
        return self._lock.exclusive

    @contextmanager
    def pinned(self, keys: Keys) -> Iterator[Slots]:
        """A section as `updating`, with the slots of these keys, inserted before if they were absent.

        Yields
        ------
        int64 [n]
            -1 where the admission refuses a key.
        """
        slots, changes = self._find_or_insert(keys)
        with self._lock.shared:
            if self._changes != changes:  # by another thread, in between
                self._storage.find(keys, slots)
            self.changes.add(keys)
            yield slots

    # --- by key
    def find(self, keys: Keys) -> Slots:
        """Return the slot of each key, int64 [n]; -1 where the table does not have it."""
        keys = _checked(keys)
        slots = np.empty(len(keys), np.int64)
        with self._lock.shared:
            self._storage.find(keys, slots)
        return slots

    def find_or_insert(self, keys: Keys) -> Slots:
        """Return the slot of each key after inserting those that are absent.

        Parameters
        ----------
        keys : uint64 [n]
            Equal keys are one key, and several sightings of it.

        Returns
        -------
        int64 [n]
            -1 where the admission refuses a key.
        """
        return self._find_or_insert(keys)[0]

    def gather(self, keys: Keys, out: Rows | None = None) -> Rows:
        """Return a copy of the rows of these keys, float32 [n, width]; zeros where a key is absent."""
        keys = _checked(keys)
        slots = np.empty(len(keys), np.int64)
        if out is None:
            out = np.empty((len(keys), self.width), np.float32)
        elif out.shape != (len(keys), self.width) or out.dtype != np.float32:
            raise DataError(f"out must be float32 of shape ({len(keys)}, {self.width}); got {out.dtype} {out.shape}")
        with self._lock.shared:
            self._storage.find(keys, slots)
            self._storage.gather(slots, out)
        return out

    def scatter(self, keys: Keys, rows: Rows) -> None:
        """Set the rows of these keys, inserting what is absent, whatever the admission.

        Parameters
        ----------
        keys : uint64 [n]
            Of equal keys, the last one counts.
        rows : float32 [n, width]
        """
        keys, rows = _checked(keys), self._checked_rows(rows, len(keys))
        self._scatter(keys, rows, self._clock)

    def touch(self, slots: Slots) -> None:
        """Stamp the rows of these slots, int64 [n], with the clock; -1 is no slot."""
        with self._lock.shared:
            self._stamp(slots, self._clock)

    def delete(self, keys: Keys) -> int:
        """Remove keys; return the number of those that the table had."""
        keys = _checked(keys)
        slots = np.empty(len(keys), np.int64)
        with self._lock.exclusive:
            self._storage.find(keys, slots)
            self.changes.add(keys)
            slots = np.unique(slots)
            return self._remove(slots[slots >= 0])

    def sweep(self, keep: Keep | None = None, older_than: int | None = None) -> int:
        """Remove rows in one pass, and give their memory back.

        Parameters
        ----------
        keep : callable, optional
            From keys, uint64 [m], and their rows, float32 [m, width], to what stays, bool [m]. It must not use the
            table.
        older_than : int, optional
            Rows with a smaller stamp go.

        Returns
        -------
        int
            Number of rows removed.

        Raises
        ------
        DataError
            `older_than` without stamps.
        """
        if older_than is not None and not self.track_age:
            raise DataError("older_than needs row ages: create the table with track_age=True")
        storage = self._storage
        with self._lock.exclusive:
            before = len(self)
            self._changes += 1
            try:
                for stop in range(len(storage.words), 0, -_SWEPT):  # downwards: removal pulls later rows into the gap
                    slots = storage.used(max(stop - _SWEPT, 0), stop)
                    stays = np.ones(len(slots), np.bool_)
                    if keep is not None and len(slots):
                        stays &= np.asarray(keep(storage.keys(slots), storage.rows[slots]), np.bool_)
                    if older_than is not None:
                        stays &= storage.stamps[slots] >= older_than
                    self.changes.add(storage.keys(slots[~stays]))
                    storage.remove(slots[~stays])
            finally:
                storage.shrink(before - len(self))
            return before - len(self)

    # --- all rows
    def items(self, chunk: int = 1 << 16) -> Iterator[Chunk]:
        """Yield copies of all keys and rows, in an order that depends on the keys only.

        Inside `frozen` they are a snapshot. Otherwise rows may change between two chunks; a key that is in the table
        all the time comes exactly once.

        Parameters
        ----------
        chunk : int, default=65,536
            Slots per chunk; about nine of ten have a row.

        Yields
        ------
        keys : uint64 [m]
        rows : float32 [m, width]
        stamps : uint32 [m]
            Only from a table with ages.
        """
        word: int | None = 0
        first = True
        while word is not None:
            with self._lock.shared:
                slots, word = self._storage.used_from(word, chunk)
                if first and self._storage.has_marked:
                    slots = np.concatenate([np.zeros(1, np.int64), slots])
                copies = [self._storage.keys(slots), self._storage.rows[slots]]
                if self.track_age:
                    copies.append(self._storage.stamps[slots])
            first = False
            if len(slots):
                yield tuple(copies)

    def load(self, chunks: Iterable[Chunk]) -> None:
        """Set the rows of all chunks, as `items` yields them; without stamps, rows get the clock."""
        for keys, rows, *stamps in chunks:
            keys = _checked(keys)
            rows = self._checked_rows(rows, len(keys))
            self._scatter(keys, rows, np.asarray(stamps[0], np.uint32) if stamps else self._clock)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what `items` does not have: the clock, and the counts of the admission."""
        state = {} if self._sketch is None else self._sketch.state()
        return {"clock": np.array(self._clock), **state}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a `state`; `load` the rows of the same moment beside.

        Raises
        ------
        DataError
            The state belongs to another admission.
        """
        if ("cells" in state) != (self._sketch is not None):
            raise DataError("a table with admission needs the state of one, and a table without it of one without")
        if self._sketch is not None:
            self._sketch.restore(state)
        self._clock = int(state["clock"])

    # --- inside
    def _find_or_insert(self, keys: Keys) -> tuple[Slots, int]:
        keys = _checked(keys)
        slots = np.empty(len(keys), np.int64)
        with self._lock.shared:
            missing = self._storage.find(keys, slots)
            if not missing:
                self._stamp(slots, self._clock)
                return slots, self._changes
            changes = self._changes
        with self._lock.exclusive:
            if self._changes != changes:  # by another thread, in between
                self._storage.find(keys, slots)
                changes = self._changes
            self._insert(keys[slots < 0])
            if self._changes != changes:
                self._storage.find(keys, slots)
            self._stamp(slots, self._clock)
            return slots, self._changes

    def _insert(self, keys: Keys) -> None:
        words = self._storage.words_of(keys)
        if self._sketch is not None:
            words = words[self._sketch.admitted(words)]
        if not len(words):
            return
        words = np.unique(words)
        keys = self._storage.keys_of(words)
        make = self._initial_rows
        rows = self._checked_rows(make(keys), len(words)) if make else np.zeros((len(words), self.width), np.float32)
        self._changes += 1
        self.changes.add(keys)
        self._storage.insert(words, rows)

    def _scatter(self, keys: Keys, rows: Rows, stamps: NDArray[np.uint32] | int) -> None:
        slots = np.empty(len(keys), np.int64)
        with self._lock.shared:
            if not self._storage.find(keys, slots):
                self.changes.add(keys)
                self._storage.rows[slots] = rows
                self._stamp(slots, stamps)
                return
        with self._lock.exclusive:
            self.changes.add(keys)
            self._storage.find(keys, slots)
            words = np.unique(self._storage.words_of(keys[slots < 0]))
            self._changes += 1
            self._storage.insert(words, np.zeros((len(words), self.width), np.float32))
            self._storage.find(keys, slots)
            self._storage.rows[slots] = rows
            self._stamp(slots, stamps)

    def _remove(self, slots: Slots) -> int:
        self._changes += 1
        self._storage.remove(slots)
        self._storage.shrink(len(slots))
        return len(slots)

    def _stamp(self, slots: Slots, stamps: NDArray[np.uint32] | int) -> None:
        if self.track_age:
            self._storage.stamp(slots, stamps)

    def _checked_rows(self, rows: ArrayLike, count: int) -> Rows:
        if np.shape(rows) != (count, self.width):
            raise DataError(f"{count} keys need rows of shape ({count}, {self.width}); got {np.shape(rows)}")
        return np.asarray(rows, np.float32)


def _checked(keys: Keys) -> Keys:
    if not isinstance(keys, np.ndarray) or keys.dtype != np.uint64 or keys.ndim != 1:
        kind = f"{keys.dtype} {list(keys.shape)}" if isinstance(keys, np.ndarray) else type(keys).__name__
        raise DataError(f"keys must be a uint64 array of one dimension; got {kind}")
    return np.ascontiguousarray(keys)
