"""What a worker of a training reads from one server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class CountsWanted:
    """Which counts a worker wants beside rows.

    Attributes
    ----------
    words : uint64 [n]
        Distinct and ascending.
    epoch : int
    """

    words: NDArray[np.uint64]
    epoch: int


class ReadTooEarly(BitlaneError):
    """Other workers are too far behind for a read; it may be sent again."""


@dataclass(frozen=True)
class Read:
    """Rows and matrices at some clock.

    Attributes
    ----------
    rows : float32 [n, values] or [n, width]
        Weights, or rows with the optimizers' state.
    dense : float32 [m]
        Weights, or rows with the optimizers' state, of the server's matrices side by side.
    clock : int
        All steps stamped below it are contained.
    own : int
        Sequence of the worker's last step that is contained.
    counts : float32 [m, 4] or None
        Of statistics: see `ShardCounts.read`.
    totals : dict or None
        Of all rows counted.
    """

    rows: Floats
    dense: Floats
    clock: int
    own: int
    counts: Floats | None = None
    totals: Mapping[str, Any] | None = None
