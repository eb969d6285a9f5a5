"""Checks that the policies share: settings and saved states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bitlane.errors import DataError

MAX_BITS = 32
BIT_CHOICES = tuple(range(2, 9))  # what an evenly spaced code can have


def check_choices(choices: Sequence[int]) -> None:
    """Raise DataError unless the choices are two or more integers from 1 to 32 in ascending order."""
    if len(choices) < 2 or sorted(set(choices)) != list(choices) or not 1 <= choices[0] <= choices[-1] <= MAX_BITS:
        raise DataError(f"choices={choices!r}: give two or more bits from 1 to {MAX_BITS}, in ascending order")


def check_period(period: int, least: int) -> None:
    """Raise DataError unless `period` is an integer of at least `least`."""
    if period < least:
        raise DataError(f"period={period!r}: it must be at least {least} steps")


def check_state(state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise DataError unless a saved state has the names and shapes of this chooser's state."""
    for name, value in own.items():
        if name not in state:
            raise DataError(f"the saved state of the bit policy has no {name}: was it saved by another policy?")
        if np.shape(state[name]) != np.shape(value):
            raise DataError(
                f"{name} of the saved bit policy has shape {np.shape(state[name])}, expected {np.shape(value)}"
            )
