"""The state between two runs of the accelerator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .settings import Settings


@dataclass(frozen=True, eq=False)
class ModelState:
    """Weights and registers before a run, after an epoch, or after a run.

    Attributes
    ----------
    master : ndarray of int32, shape (outputs, n)
        Master weights as stored, in units of ``2**-28``.
    settings : Settings
        Registers to continue with: steps as decayed so far, phase and seed as advanced.
    """

    master: NDArray[np.int32]
    settings: Settings
