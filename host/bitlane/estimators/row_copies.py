"""Weights of rows as copies of rows, which every device can train on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats

Copies = NDArray[np.intp]

MULTIPLE = 4  # copies of a row of mean weight, where weights have no common unit
SMALL_TABLE, LARGEST_MULTIPLE = 1 << 14, 64  # a small table has up to so many copies in all, and of such a row
PARTS = 16  # of the least weight that are tried as a unit of all weights
HEAVIEST = 64.0  # mean weight of a call of partial_fit


def relative_copies(weights: Floats, random: np.random.Generator) -> Copies:
    """Return how many copies of each row a training reads, so that rows count by their weights.

    If all weights are multiples of one unit, such as counts, and the copies are not too many, they are exact. Otherwise
    a row of mean weight has `multiple_of` copies, and the rest of a copy is one or none at random, without bias.

    Parameters
    ----------
    weights : float64 array [rows]
        At least 0, one above 0.
    random : numpy.random.Generator

    Returns
    -------
    int array [rows]
    """
    multiple, least = multiple_of(len(weights)), weights[weights > 0].min()
    for parts in range(1, PARTS + 1):
        with np.errstate(over="ignore", divide="ignore"):
            wanted = weights / least * parts
        copies: Floats = np.rint(wanted)
        if copies.sum() <= multiple * len(weights) and (np.abs(copies - wanted) <= 1e-9 * wanted).all():
            exact: Copies = copies.astype(np.intp)
            return exact
    return _rounded(weights / weights.max() / (weights / weights.max()).mean() * multiple, random)


def absolute_copies(weights: Floats, random: np.random.Generator) -> tuple[Copies, int]:
    """Return how many copies of each row a call of partial_fit reads, and how many a row of weight 1 has.

    Batches have so many times their rows, so a row steps by its weight, whatever those of the other rows are.

    Raises
    ------
    DataError
        The mean weight is above `HEAVIEST`.
    """
    if weights.mean() > HEAVIEST:
        raise DataError(
            f"sample_weight has mean {weights.mean():g}: partial_fit takes steps in proportion, so divide the weights "
            "by a constant, such that most are about 1"
        )
    if (weights == np.rint(weights)).all():
        return weights.astype(np.intp), 1
    multiple = multiple_of(len(weights))
    return _rounded(weights * multiple, random), multiple


def multiple_of(rows: int) -> int:
    """Return the copies of a row of mean weight in a table of so many rows: 4, in small tables more."""
    return min(max(SMALL_TABLE // rows, MULTIPLE), LARGEST_MULTIPLE)


def _rounded(wanted: Floats, random: np.random.Generator) -> Copies:
    """Return integers [rows] whose expectations are `wanted`, and whose sum is the nearest to its sum."""
    order = random.permutation(len(wanted))
    ends = np.floor(np.cumsum(wanted[order]) + random.random())
    copies = np.empty(len(wanted), np.intp)
    copies[order] = np.diff(ends, prepend=0.0)
    return copies
