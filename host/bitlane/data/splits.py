"""Rows that a training leaves out, to test its model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .dataset import Dataset


def hold_out(table: Dataset, fraction: float, seed: int, *, by_class: bool) -> Dataset:
    """Return the table with a share of its rows held out; both parts keep the order of the rows.

    Parameters
    ----------
    table : Dataset
        Without held-out rows.
    fraction : float
        Share of the rows, between 0 and 1.
    seed : int
        The same seed holds out the same rows.
    by_class : bool
        Whether each class gives this share of its rows, rounded; a class keeps at least one row for training.

    Raises
    ------
    DataError
        The fraction is not between 0 and 1, or leaves no row for one of the parts.
    """
    if not 0 < fraction < 1:
        raise DataError(f"test fraction {fraction:g}: choose a share of the rows between 0 and 1, such as 0.2")
    rng = np.random.default_rng(seed)
    held = np.zeros(table.rows, np.bool_)
    groups = [table.y == label for label in np.unique(table.y)] if by_class else [np.ones(table.rows, np.bool_)]
    for group in groups:
        held[_some(np.flatnonzero(group), fraction, rng)] = True
    if not held.any():
        raise DataError(f"test fraction {fraction:g} holds out none of the {table.rows} rows: choose a larger one")
    if (~held).sum() < 2:
        raise DataError(f"test fraction {fraction:g} leaves {(~held).sum()} of {table.rows} rows: choose a smaller one")
    return replace(table, X=table.X[~held], y=table.y[~held], held_out=(table.X[held], table.y[held]))


def _some(rows: NDArray[Any], fraction: float, rng: np.random.Generator) -> NDArray[Any]:
    """Return this share of the rows, at random, but not all of them."""
    count = min(round(fraction * len(rows)), len(rows) - 1)
    return rng.permutation(rows)[:count]
