"""Admission: a key enters a table when it has been seen often enough; a small sketch counts those that wait.

The sketch is a count-min sketch with conservative update (Estan and Varghese, 2002): each key has four counters, and
its count is their minimum. Other keys share the counters, so a count may be too high and never too low.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.optional import require_extra

DEPTH = 4


@dataclass(frozen=True)
class Admission:
    """When a key enters a table.

    Parameters
    ----------
    sightings : int
        A key enters when it is seen for this many times, 1 to 255. Where counters collide it may enter earlier, and
        without `halve_every` it never enters later.
    cells : int, default=4,194,304
        Counters of the sketch, one byte each. Take some for each key that waits: with much fewer, nearly all keys enter
        early.
    halve_every : int, optional
        Halve all counts whenever this many sightings have been counted, so that a stream without end does not fill the
        sketch. A rare key may then enter later. Default: never.

    Raises
    ------
    DataError
    """

    sightings: int
    cells: int = 1 << 22
    halve_every: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.sightings <= 255:
            raise DataError(f"sightings must be 1 to 255; got {self.sightings}")
        if not DEPTH <= self.cells < 1 << 32:
            raise DataError(f"cells must be {DEPTH} to 2^32 - 1; got {self.cells}")
        if self.halve_every is not None and self.halve_every < 1:
            raise DataError(f"halve_every must be at least 1; got {self.halve_every}")


class Sketch:
    """Counts of the keys that a table has not admitted.

    Parameters
    ----------
    admission : Admission

    Attributes
    ----------
    cells : uint8 [cells]
    counted : int
        Sightings since the counts were halved.
    """

    def __init__(self, admission: Admission):
        require_extra("numba", "admission to a table", "'bitlane[sparse]'")
        self.admission = admission
        self.cells = np.zeros(admission.cells // DEPTH * DEPTH, np.uint8)
        self.counted = 0

    def admitted(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Count a sighting of each word, in order.

        Parameters
        ----------
        words : uint64 [n]
            Mixed keys, with repetitions.

        Returns
        -------
        bool [n]
            Whether the word had been seen often enough then.
        """
        from bitlane.sparse.tables.counting import count_sightings

        admitted = np.empty(len(words), np.bool_)
        done, period = 0, self.admission.halve_every
        while done < len(words):
            last = len(words) if period is None else min(len(words), done + period - self.counted)
            count_sightings(self.cells, words[done:last], self.admission.sightings, admitted[done:last])
            self.counted += last - done
            done = last
            if self.counted == period:
                self.cells >>= 1
                self.counted = 0
        return admitted

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of what `restore` needs."""
        return {"cells": self.cells.copy(), "counted": np.array(self.counted)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a `state` of a sketch of the same size.

        Raises
        ------
        DataError
        """
        if state["cells"].shape != self.cells.shape:
            raise DataError(f"the sketch has {len(self.cells)} cells, its state {len(state['cells'])}")
        self.cells[:] = state["cells"]
        self.counted = int(state["counted"])
