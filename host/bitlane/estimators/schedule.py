"""The parameters of the schedule of a fit: epochs, decay and average, each a number or a word."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitlane.contract.layout import MAX_EPOCHS, MAX_ROWS
from bitlane.errors import DataError
from bitlane.support.scalars import as_integer, as_number, as_python
from bitlane.training.checkpoint import Checkpoint
from bitlane.training.options import AUTO, derived_decay, derived_epochs
from bitlane.training.train import InitialModel


def epochs_of(epochs: Any, rows: int, batch_size: Any) -> int:
    """Return the number of epochs: as it is, or for "auto" what so many rows need; DataError for another value."""
    if not isinstance(epochs, str):
        return as_integer("epochs", as_python(epochs), 1, MAX_EPOCHS)
    if epochs != AUTO:
        raise DataError(f"epochs={epochs!r}: choose a number of at least 1, or 'auto'")
    return derived_epochs(rows, as_integer("batch_size", as_python(batch_size), 1, MAX_ROWS))


def decay_of(decay: Any, start: InitialModel | Checkpoint, epochs: int) -> float:
    """Return the decay of the learning rate: a number as it is, "auto" from the epochs, or that of a resumed training.

    Raise DataError for another value.
    """
    if not isinstance(decay, str):
        return as_number("decay", decay)
    if decay != AUTO:
        raise DataError(f"decay={decay!r}: choose a number from 0.5 to 1, or 'auto'")
    return start.options.decay if isinstance(start, Checkpoint) else derived_decay(epochs)


def averaging_of(average: Any) -> bool | int:
    """Return a bool, or the number of rows from which on models are averaged. Raise DataError for another value."""
    if isinstance(average, bool | np.bool_):
        return bool(average)
    return as_integer("average", as_python(average), 0)
