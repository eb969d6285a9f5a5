"""Checks of settings and saved states that the bit policies share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bitlane.errors import DataError

MAX_BITS = 32
BIT_CHOICES = tuple(range(2, 9))  # the bits of the linear codec


def check_choices(choices: Sequence[int]) -> None:
    """Raise DataError unless the choices are two or more integers from 1 to 32, ascending."""
    if len(choices) < 2 or sorted(set(choices)) != list(choices) or not 1 <= choices[0] <= choices[-1] <= MAX_BITS:
        raise DataError(f"choices must be two or more bits from 1 to {MAX_BITS}, ascending; got {choices!r}")


def check_period(period: int, minimum: int) -> None:
    """Raise DataError unless the period has at least `minimum` steps."""
    if period < minimum:
        raise DataError(f"period must be {minimum} steps or more; got {period!r}")


def check_state(state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise DataError unless a saved state has the names and shapes of the state `own`."""
    for name, value in own.items():
        if name not in state:
            raise DataError(f"the saved state of the bit policy has no {name}: was it saved by another policy?")
        if np.shape(state[name]) != np.shape(value):
            raise DataError(
                f"{name} of the saved bit policy has shape {np.shape(state[name])}; this policy needs {np.shape(value)}"
            )
