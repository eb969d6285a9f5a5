"""Words, rows and stamps in memory of at most 1.2 times their data: when a table grows and shrinks, and by how much.

| rows over capacity | what happens |
| --- | --- |
| above 0.91 at an insertion | the capacity grows by 5 % (tables below 16,384 slots: 3 %) |
| memory over data above 1.165 at a removal | the capacity shrinks to 1.12 times the rows |

Both go in steps: an insertion or a removal of m rows moves the frontier over max(65,536, 40 or 80 m) slots.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError
from bitlane.sparse.tables import moving, probing
from bitlane.sparse.tables.memory import ResizableArray
from bitlane.sparse.tables.mixing import keys_of, words_of
from bitlane.sparse.tables.probing import EMPTY, FRONTIER, GUARD, LINE, LOWER, PRESENT, UPPER

MAX_LOAD = 0.91
SHRINK_ABOVE = 1.165  # slots over rows
SHRUNK = 1.02 / MAX_LOAD  # slots over rows after shrinking, without the last ones
SMALLEST = 8  # lines
LEAST_MOVED = 1 << 16  # slots moved at once, at least
GROWTH_PACE, SHRINK_PACE = 40, 80  # slots moved for each row that comes or goes


class Storage:
    """The arrays of a table, and the policy of their size. No locks, no admission: `Table` has them.

    Parameters
    ----------
    width : int
        Columns of a row.
    track_age : bool
        Whether each row has a stamp.

    Attributes
    ----------
    count : int
        Number of rows.
    layout : uint64 [3]
        See `probing.py`.
    least_moved, growth_pace, shrink_pace : int
        Slots that move at once: `least_moved` at least, and this many for each row that comes or goes.
    """

    def __init__(self, width: int, track_age: bool):
        self.count = 0
        self.layout = np.array([SMALLEST, SMALLEST, 0], np.uint64)
        slots = _slots_of(SMALLEST)
        self._words = ResizableArray(np.uint64, (), slots, offset=LINE - 1)
        self._rows = ResizableArray(np.float32, (width,), slots)
        self._stamps = ResizableArray(np.uint32, (), slots if track_age else 0)
        self._track_age = track_age
        self.least_moved = LEAST_MOVED
        self.growth_pace = GROWTH_PACE
        self.shrink_pace = SHRINK_PACE
        self.words[:] = EMPTY

    @property
    def words(self) -> NDArray[np.uint64]:
        """The words of the slots; see `probing.py`."""
        return self._words.array

    @property
    def rows(self) -> NDArray[np.float32]:
        """The rows of the slots."""
        return self._rows.array

    @property
    def stamps(self) -> NDArray[np.uint32]:
        """The stamps of the slots; empty without ages."""
        return self._stamps.array

    @property
    def nbytes(self) -> int:
        """Bytes held by words, rows and stamps."""
        return self._words.nbytes + self._rows.nbytes + self._stamps.nbytes

    @property
    def capacity(self) -> int:
        """Slots of the smaller number of lines."""
        return LINE * int(self.layout[LOWER if self.layout[FRONTIER] else UPPER])

    @property
    def has_marked(self) -> bool:
        """Whether slot 0 has a row: that of the word which is equal to the mark of an empty slot."""
        return bool(self.words[0] != EMPTY)

    words_of = staticmethod(words_of)
    keys_of = staticmethod(keys_of)

    def keys(self, slots: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The keys of these slots, which are in use."""
        words = self.words[slots]
        words[slots == 0] = EMPTY
        return keys_of(words)

    def used(self, start: int, stop: int) -> NDArray[np.int64]:
        """The slots from `start` to `stop` - 1 that are in use."""
        return np.flatnonzero(self.words[start:stop] != EMPTY) + start

    def used_from(self, word: int, count: int) -> tuple[NDArray[np.int64], int | None]:
        """Slots in use whose words are not below `word`, out of `count` slots or more, in order.

        Returns
        -------
        slots : int64 [m]
            Empty only at the end.
        next_word : int or None
            Where to go on; None at the end.
        """
        start = int(probing.slot_from(self.words, probing.home_of(np.uint64(word), *self.layout), np.uint64(word)))
        while True:
            stop = min(start + count, len(self.words))
            slots = self.used(start, stop)
            if stop == len(self.words):
                return slots, None
            if len(slots):
                return slots, int(self.words[slots[-1]]) + 1
            start = stop

    def stamp(self, slots: NDArray[np.int64], stamps: NDArray[np.uint32] | int) -> None:
        """Set the stamps of these slots; -1 is no slot."""
        if np.ndim(stamps):
            self.stamps[slots] = stamps
        else:
            probing.stamp(self.stamps, slots, np.uint32(stamps))

    def find(self, keys: NDArray[np.uint64], slots: NDArray[np.int64]) -> int:
        """Write the slot of each key, -1 where it is absent; return the number of absent ones."""
        return int(probing.find(self.words, self.layout, keys, slots))

    def gather(self, slots: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Copy the rows of these slots; zeros for -1."""
        probing.gather(self.rows, slots, out)

    def insert(self, words: NDArray[np.uint64], rows: NDArray[np.float32]) -> None:
        """Insert words that are absent. Their stamps are not set.

        Parameters
        ----------
        words : uint64 [n]
            Ascending.
        rows : float32 [n, width]
        """
        if len(words) and words[-1] == EMPTY:
            self._insert_marked(rows[-1])
            words, rows = words[:-1], rows[:-1]
        for piece in self._pieces(len(words)):
            self._insert_piece(np.ascontiguousarray(words[piece]), np.ascontiguousarray(rows[piece]))

    def remove(self, slots: NDArray[np.int64]) -> None:
        """Remove the rows of these slots, which ascend and are in use."""
        if len(slots) and slots[0] == 0:
            self.words[0] = EMPTY
            slots = slots[1:]
            self.count -= 1
        probing.remove_sorted(self.words, self.rows, self.stamps, self.layout, slots)
        self.count -= len(slots)

    def shrink(self, removed: int) -> None:
        """Give memory back after `removed` rows have been removed."""
        budget = max(self.least_moved, self.shrink_pace * removed)
        while len(self.words) > max(SHRINK_ABOVE * self.count, _slots_of(SMALLEST)):
            if not self.layout[FRONTIER]:
                smaller = max(int(SHRUNK / LINE * self.count), SMALLEST)
                if smaller >= self.layout[UPPER]:
                    return
                self.layout[LOWER] = smaller
            moving.shrink_step(self.words, self.rows, self.stamps, self.layout, budget)
            if self.layout[FRONTIER] == EMPTY:
                self._end_shrinking()
            else:
                return

    def _pieces(self, count: int) -> list[slice]:
        """Slices of `count` ascending words, each spread over all of them, and each small beside the table."""
        level = 0
        while count >> level > self._piece:
            level += 1
        pieces = [slice(0, count, 1 << level)] if count else []
        rows = self.count + (count >> level)
        for step in (1 << k for k in reversed(range(level))):
            stride = -(-(count // (2 * step) + 1) // max(64, rows // 64))
            pieces += [slice(step + 2 * step * first, count, 2 * step * stride) for first in range(stride)]
            rows = self.count + count // step
        return pieces

    @property
    def _piece(self) -> int:
        return max(64, self.count // 64)

    def _insert_marked(self, row: NDArray[np.float32]) -> None:
        self.words[0] = PRESENT
        self.rows[0] = row
        self.count += 1

    def _insert_piece(self, words: NDArray[np.uint64], rows: NDArray[np.float32]) -> None:
        self._make_room(len(words))
        while True:
            done = int(probing.insert_sorted(self.words, self.rows, self.stamps, self.layout, words, rows))
            self.count += done
            words, rows = words[done:], rows[done:]
            if not len(words):
                return
            self._resize(len(self.words) + max(16, len(self.words) >> 6))

    def _make_room(self, more: int) -> None:
        if self.count + more <= MAX_LOAD * self.capacity:
            return
        if not self.layout[FRONTIER]:
            self._begin_growing()
        self._grow(max(self.least_moved, self.growth_pace * more))
        while self.count + more > (MAX_LOAD + 0.035) * self.capacity:  # not before all of the table has grown
            if not self.layout[FRONTIER]:
                self._begin_growing()
            self._grow(len(self.words))

    def _begin_growing(self) -> None:
        lines = int(self.layout[UPPER])
        larger = lines + max(1, int(lines * (0.05 if lines >= 1 << 11 else 0.03)))
        if larger >= 1 << 32:
            raise BitlaneError(
                f"a table has at most 2^32 lines of 8 rows; this one has {self.count:,} rows: use several"
            )
        self._resize(max(_slots_of(larger), len(self.words)))
        self._set_layout(lines, larger, int(EMPTY))

    def _grow(self, budget: int) -> None:
        while slots := int(moving.grow_step(self.words, self.rows, self.stamps, self.layout, budget)):
            self._resize(slots + 16)
        if not self.layout[FRONTIER]:
            self.layout[LOWER] = self.layout[UPPER]

    def _end_shrinking(self) -> None:
        lines = self.layout[LOWER]
        self._set_layout(int(lines), int(lines), 0)
        used = probing.slot_from(self.words, probing.home_of(EMPTY, lines, lines, np.uint64(0)), EMPTY)
        self._resize(max(_slots_of(int(lines)), int(used) + GUARD))

    def _set_layout(self, lower: int, upper: int, frontier: int) -> None:
        self.layout[:] = np.array([lower, upper, frontier], np.uint64)

    def _resize(self, slots: int) -> None:
        before = len(self.words)
        arrays = [self._words, self._rows, self._stamps][: 3 if self._track_age else 2]
        for array in (
            arrays if slots < before else reversed(arrays)
        ):  # without memory for all, the words are the shortest
            array.resize(slots)
        self.words[before:] = EMPTY


def _slots_of(lines: int) -> int:
    """Slots for this number of lines: one before the homes, and some for words that lie after the last home."""
    return 1 + LINE * lines + min(16 + lines // 16, 512) + GUARD
