"""What a worker of a training reads from one server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError

Floats = NDArray[np.float32]


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
    """

    rows: Floats
    dense: Floats
    clock: int
    own: int
