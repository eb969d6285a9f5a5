"""Growth and shrinking in place, in steps: the frontier between two numbers of lines moves.

`probing.py` explains the layout and the parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitlane.sparse.tables.probing import EMPTY, GUARD, Rows, Stamps, Words, close_up, home_of, move, slot_from
from bitlane.support.jit import machine_code

_CHUNK = 4096  # slots whose targets are computed at once: 32 KiB of scratch
_ZERO = np.uint64(0)


def _grow_step(words: Words, rows: Rows, stamps: Stamps, layout: Words, budget: int) -> Any:
    """Move the frontier downwards over about `budget` slots.

    Returns 0, or the number of slots that the array must have before it can go on.
    """
    lower, upper = layout[0], layout[1]
    end = len(words) - GUARD
    chunk = min(budget, _CHUNK)
    targets = np.empty(chunk + 1, np.int64)
    while budget > 0 and layout[2] != _ZERO:
        frontier = layout[2]
        top = slot_from(words, home_of(frontier, lower, upper, _ZERO), frontier)  # of the words above the frontier
        stop = slot_from(words, home_of(frontier, lower, lower, _ZERO), frontier)  # end of those below
        begin = stop
        while begin > 1 and (stop - begin < chunk or words[begin] == EMPTY):
            begin -= 1
        next_frontier = words[begin] if begin > 1 else _ZERO
        count = 0
        last = begin - 1
        for slot in range(begin, stop):
            if words[slot] != EMPTY:
                last = max(home_of(words[slot], lower, upper, _ZERO), last + 1)
                targets[count] = last
                count += 1
        # Words above the frontier make room for the last of these.
        pushed = top
        target = last
        while pushed < end and pushed <= target:
            if words[pushed] != EMPTY:
                target += 1
            pushed += 1
        if target >= end:
            return target + 1 + GUARD
        for slot in range(pushed - 1, top - 1, -1):
            if words[slot] != EMPTY:
                move(words, rows, stamps, slot, target)
                if target != slot:
                    words[slot] = EMPTY
                target -= 1
        for slot in range(stop - 1, begin - 1, -1):
            if words[slot] != EMPTY:
                count -= 1
                if targets[count] != slot:
                    move(words, rows, stamps, slot, targets[count])
                    words[slot] = EMPTY
        budget -= stop - begin
        layout[2] = next_frontier
    return 0


grow_step = machine_code(_grow_step, nogil=True)


def _shrink_step(words: Words, rows: Rows, stamps: Stamps, layout: Words, budget: int) -> None:
    """Move the frontier upwards over about `budget` slots."""
    lower, upper, frontier = layout[0], layout[1], layout[2]
    end = len(words) - GUARD
    slot = slot_from(words, home_of(frontier, lower, upper, _ZERO), frontier)
    free = slot_from(words, home_of(frontier, lower, lower, _ZERO), frontier)
    stop = min(slot + budget, end)
    while slot < end:
        word = words[slot]
        if word != EMPTY:
            if slot >= stop:
                break
            target = max(home_of(word, lower, lower, _ZERO), free)
            if target != slot:
                move(words, rows, stamps, slot, target)
                words[slot] = EMPTY
            free = target + 1
        slot += 1
    layout[2] = words[slot]  # empty at the end
    close_up(words, rows, stamps, layout, slot, free, end)  # the words above the frontier, out of their homes


shrink_step = machine_code(_shrink_step, nogil=True)
