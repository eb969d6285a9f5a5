"""Words in ascending order over slots with gaps: the loops that find, insert and remove them.

Slots come in lines of eight: one line of the processor's cache. A word's *home* is the first slot of a line that
never decreases with the word: 1 + 8 floor(word * lines / 2^64). A word lies in its home or, if smaller words have
filled it, in the first slot after them:

    slot(i) = max(home(word(i)), slot(i - 1) + 1)        for words in ascending order.

So a search walks from the home while words are smaller, and costs the same whether the word is there or not: with nine
of ten slots in use, one line of the cache for three words in four, and the next one for nearly all others. The layout
depends on the words and the number of lines only, and not on the order in which the words came.

Words below the *frontier* have their home by the `lower` number of lines, the others by the `upper` one; lower <= upper
keeps homes in order. A table grows by moving the frontier downwards, and shrinks by moving it upwards (`moving.py`).

Slot 0 is no word's home. It holds the row of the one word that is equal to the mark of an empty slot. The last eight
slots (`GUARD`) are always empty: a walk ends there.

The loops share these parameters: `words`, uint64 [slots]; `rows`, float32 [slots, width]; `stamps`, uint32 [slots], or
[0] without ages; `layout`, uint64 [3]: lower, upper, frontier. There are less than 2^32 lines.

numba recompiles a cached loop when the loop's own file changes. After a change of a function that loops of another file
use (`home_of`, `slot_from`, `move`, `close_up`), remove `__pycache__`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.tables.mixing import word_of
from bitlane.support.instructions import WORDS, copy_within, equal_words, lowest_set_bit, prefetch
from bitlane.support.jit import machine_code

Words = NDArray[np.uint64]
Rows = NDArray[np.float32]
Stamps = NDArray[np.uint32]
Slots = NDArray[np.int64]

EMPTY = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
PRESENT = np.uint64(0)  # what slot 0 holds when its row is in use
LOWER, UPPER, FRONTIER = 0, 1, 2
LINE = 8
GUARD = 8
_AHEAD = 16  # rows or keys whose lines are on their way
_TILE = 32  # keys whose lines are on their way in `find`
_BEHIND = np.uint64(1 << WORDS)  # a bit for none of the words
_STEPS = 8  # lines of a walk, before it leaps
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)


def _home_of(word: np.uint64, lower: np.uint64, upper: np.uint64, frontier: np.uint64) -> Any:
    lines = upper if word >= frontier else lower
    line = ((word >> _HALF) * lines + (((word & _LOW) * lines) >> _HALF)) >> _HALF
    return np.int64(line) * LINE + 1


home_of = machine_code(_home_of, nogil=True)


def _smaller(words: Words, start: int, word: np.uint64) -> Any:
    """How many of the eight words from `start` on are smaller."""
    first = np.uint64(start)  # an unsigned index needs no test below 0
    count = np.uint64(0)
    for i in range(LINE):
        count += np.uint64(words[first + np.uint64(i)] < word)
    return np.int64(count)


smaller = machine_code(_smaller, nogil=True)


def _slot_from(words: Words, start: int, word: np.uint64) -> Any:
    """The first slot from `start` on whose word is not smaller. `start`: the word's home, or a slot after it."""
    slot = start
    for _ in range(_STEPS):
        count = smaller(words, slot, word)
        slot += count
        if count < LINE:
            return slot
    # Words do not decrease from the home on, and an empty slot counts as the largest: so halving works.
    low, high, step = slot, slot, LINE
    end = len(words) - GUARD
    while high < end and words[high] < word:
        low = high + 1
        high += step
        step *= 2
    high = min(high, end)
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low


slot_from = machine_code(_slot_from, nogil=True)


def _move(words: Words, rows: Rows, stamps: Stamps, source: int, target: int) -> None:
    words[target] = words[source]
    for column in range(rows.shape[1]):
        rows[target, column] = rows[source, column]
    if len(stamps):
        stamps[target] = stamps[source]


move = machine_code(_move, nogil=True)


def _move_run(words: Words, rows: Rows, stamps: Stamps, source: int, target: int, count: int) -> None:
    width = rows.shape[1]
    copy_within(words, source, target, count)
    copy_within(rows, source * width, target * width, count * width)
    if len(stamps):
        copy_within(stamps, source, target, count)


move_run = machine_code(_move_run, nogil=True)


def _close_up(words: Words, rows: Rows, stamps: Stamps, layout: Words, slot: int, free: int, stop: int) -> Any:
    """Move the words from `slot` to `stop` - 1 back to their homes, or to `free` and the slots behind the word before.

    Returns the slot of the first word that stays or of the first empty slot, at most `stop`, and the first free slot.
    """
    lower, upper, frontier = layout[0], layout[1], layout[2]
    while slot < stop:
        word = words[slot]
        if word == EMPTY:
            break
        target = max(home_of(word, lower, upper, frontier), free)
        if target == slot:
            break
        move(words, rows, stamps, slot, target)
        words[slot] = EMPTY
        free = target + 1
        slot += 1
    return slot, free


close_up = machine_code(_close_up, nogil=True)


def _find(words: Words, layout: Words, keys: Words, slots: Slots) -> Any:
    """Write the slot of each key, or -1; return the number of -1.

    Keys go in tiles: while one is looked up, the lines of the next are on their way.
    """
    lower, upper, frontier = layout[0], layout[1], layout[2]
    wanted = np.empty((2, _TILE), np.uint64)
    homes = np.empty((2, _TILE), np.int64)
    missing = 0
    for begin in range(-_TILE, len(keys), _TILE):
        now = (begin // _TILE) & 1
        after = begin + _TILE
        for j in range(min(_TILE, len(keys) - after)):
            word = word_of(keys[np.uint64(after + j)])  # an unsigned index needs no test below 0
            wanted[1 - now, j] = word
            homes[1 - now, j] = home_of(word, lower, upper, frontier)
        for j in range(min(_TILE, len(keys) - after)):
            prefetch(words, homes[1 - now, j])
            prefetch(words, homes[1 - now, j] + LINE)
        for j in range(min(_TILE, len(keys) - begin) if begin >= 0 else 0):
            word, home = wanted[now, j], homes[now, j]
            equal = equal_words(words, home, word)  # nearly all words lie in the two lines from the home on
            absent = equal == 0
            slot = -1 if absent else home + np.int64(lowest_set_bit(equal | _BEHIND))
            if (word == EMPTY) | (absent & (words[np.uint64(home + WORDS - 1)] < word)):
                if word == EMPTY:
                    slot = 0 if words[0] != EMPTY else -1
                else:
                    slot = slot_from(words, home + WORDS, word)
                    if words[slot] != word:
                        slot = -1
            slots[np.uint64(begin + j)] = slot
            missing += slot < 0
    return missing


find = machine_code(_find, nogil=True)


def _gather(rows: Rows, slots: Slots, out: Rows) -> None:
    """Copy the rows of these slots; zeros for -1."""
    width = rows.shape[1]
    for index in range(len(slots)):
        if index + _AHEAD < len(slots):
            prefetch(rows, slots[index + _AHEAD] * width)
            prefetch(rows, slots[index + _AHEAD] * width + width - 1)
        slot = slots[index]
        for column in range(width):
            out[index, column] = rows[slot, column] if slot >= 0 else np.float32(0)


gather = machine_code(_gather, nogil=True)


def _stamp(stamps: Stamps, slots: Slots, stamp: np.uint32) -> None:
    for slot in slots:
        if slot >= 0:
            stamps[slot] = stamp


stamp = machine_code(_stamp, nogil=True)


def _insert_sorted(words: Words, rows: Rows, stamps: Stamps, layout: Words, new: Words, new_rows: Rows) -> Any:
    """Insert ascending words that are absent; row i of `new_rows` belongs to word i of `new`. Stamps are left to do.

    Returns the number of words inserted: all, or fewer if the slots after the last home do not suffice.
    """
    lower, upper, frontier = layout[0], layout[1], layout[2]
    end = len(words) - GUARD
    first = 0
    while first < len(new):
        if first + _AHEAD < len(new):
            ahead = home_of(new[first + _AHEAD], lower, upper, frontier)
            prefetch(words, ahead)
            prefetch(words, ahead + LINE)
            prefetch(rows, ahead * rows.shape[1])
        begin = slot_from(words, home_of(new[first], lower, upper, frontier), new[first])
        # The words from `begin` on make room. New words on the way join, until as many empty slots have been passed.
        last = first + 1
        needed = 1
        slot = begin
        while slot < end:
            word = words[slot]
            if word == EMPTY:
                needed -= 1
                if needed == 0:
                    break
            else:
                while last < len(new) and new[last] < word:
                    last += 1
                    needed += 1
            slot += 1
        if slot >= end:
            return first
        source = slot - 1
        incoming = last - 1
        while incoming >= first:  # from the right: the larger of old and new
            stop = source
            while stop >= begin and words[stop] > new[incoming] and words[stop] != EMPTY:
                stop -= 1
            slot -= source - stop
            move_run(words, rows, stamps, stop + 1, slot + 1, source - stop)
            source = stop
            if source >= begin and words[source] == EMPTY:
                source -= 1
                continue
            words[slot] = new[incoming]
            for column in range(rows.shape[1]):
                rows[slot, column] = new_rows[incoming, column]
            incoming -= 1
            slot -= 1
        first = last
    return first


insert_sorted = machine_code(_insert_sorted, nogil=True)


def _remove_sorted(words: Words, rows: Rows, stamps: Stamps, layout: Words, slots: Slots) -> None:
    """Empty these ascending slots, none of them 0, and close the gaps."""
    index = 0
    while index < len(slots):
        slot = free = slots[index]
        while index < len(slots) and slots[index] == slot:
            words[slot] = EMPTY
            index += 1
            stop = slots[index] if index < len(slots) else np.int64(len(words))
            slot, free = close_up(words, rows, stamps, layout, slot + 1, free, stop)


remove_sorted = machine_code(_remove_sorted, nogil=True)
